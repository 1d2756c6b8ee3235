"""Levels of step time while a run goes on: block medians against those before them.

The noise model of the analyses of a whole run, in its simplest form: medians of blocks, a spread of means of blocks
that are neighbours, and an effect that a change has at least; the less is known of a level, the larger. A new level is
beyond what any of the means of late was, so that a run that goes to and fro between two of them is said once.
Nothing but the standard library: it runs in the job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from statistics import median
from typing import Final

RECENT_BLOCKS: Final = 3
"""Blocks that are held against the level."""

MIN_BLOCKS: Final = 12
"""Blocks of a level at least."""

REMEMBERED_BLOCKS: Final = 200
"""Blocks that a level is made of at most; so it moves with them."""

MIN_EFFECT: Final = 0.08
"""Share of the level by which a change is off at least."""

_UNSURE_BLOCKS: Final = 50
"""Blocks of a level of which a change has to be twice as large."""

_MEAN_SPREADS: Final = 6.0
_BLOCK_SPREADS: Final = 4.0
"""Deviations of means, and of single blocks, by which a change is off at least: medians of two kinds of steps jump."""

_LEAST_SPREAD: Final = 0.003
_SIGMA_PER_MAD: Final = 1.4826
_ANCHOR_BLOCKS: Final = 100
"""Blocks after which a level is remembered, to see whether it moves away slowly."""

_UPDATED_AFTER: Final = 5
"""Blocks after which the level is computed anew."""


@dataclass(frozen=True)
class LevelChange:
    """A new level.

    Attributes:
        before, after: the levels.
        blocks: with how many of the last blocks it begins.
        is_drift: the level went there slowly.
    """

    before: float
    after: float
    blocks: int
    is_drift: bool = False


class OnlineLevel:
    """The level of a series of blocks.

    Attributes:
        value: 0 as long as it is not known.
    """

    def __init__(self) -> None:
        self.value = 0.0
        self._anchor = 0.0
        self._spread = self._step = self._least = self._highest = self._lowest = 0.0
        self._restart(())

    def _restart(self, blocks: tuple[float, ...]) -> None:
        self._blocks = deque(blocks, REMEMBERED_BLOCKS + RECENT_BLOCKS)
        self._count = len(blocks)
        self.value = self._anchor = 0.0

    def add(self, block: float) -> LevelChange | None:
        """The median of one more block; the change that has become clear with it."""
        self._blocks.append(block)
        self._count += 1
        if not self.value or self._count % _UPDATED_AFTER == 0:
            self._update()
        change = self._changed() if self.value else None
        if change is not None:
            self._restart(tuple(islice(self._blocks, len(self._blocks) - change.blocks, None)))
        return change

    def _update(self) -> None:
        known = list(islice(self._blocks, max(len(self._blocks) - RECENT_BLOCKS, 0)))
        if len(known) < MIN_BLOCKS:
            return
        means = [sum(each) / RECENT_BLOCKS for each in zip(known, known[1:], known[2:], strict=False)]
        self.value = level = median(known)
        self._spread = max(_deviation(means, level), _LEAST_SPREAD * level)
        self._least = max(_MEAN_SPREADS * self._spread, _BLOCK_SPREADS * _deviation(known, level))
        self._highest, self._lowest = max(means), min(means)
        # Of a level that moves away slowly the spread about its median is mostly the way: its steps have none of it.
        apart = [after - before for before, after in zip(means, means[RECENT_BLOCKS:], strict=False)]
        self._step = max(_deviation(apart, 0) / 2**0.5, _LEAST_SPREAD * level)
        if not self._anchor and len(known) >= _ANCHOR_BLOCKS:
            self._anchor = level

    def _changed(self) -> LevelChange | None:
        effect = MIN_EFFECT * (1 + _UNSURE_BLOCKS / self._count) * self.value
        least = max(effect, self._least)
        recent = list(islice(self._blocks, len(self._blocks) - RECENT_BLOCKS, None))
        mean = sum(recent) / RECENT_BLOCKS
        higher = mean > max(self.value + least, self._highest + self._spread) and min(recent) > self.value + least / 2
        lower = mean < min(self.value - least, self._lowest - self._spread) and max(recent) < self.value - least / 2
        if higher or lower:
            after = median(recent)
            beyond = [abs(each - after) < abs(each - self.value) for each in reversed(self._blocks)]
            return LevelChange(self.value, after, beyond.index(False) if False in beyond else len(beyond))
        if self._anchor and abs(self.value - self._anchor) > max(effect, _MEAN_SPREADS * self._step):
            return LevelChange(self._anchor, self.value, len(self._blocks) // 2, is_drift=True)
        return None


def _deviation(values: Sequence[float], level: float) -> float:
    return _SIGMA_PER_MAD * median(abs(each - level) for each in values)


class OnlineCreep:
    """Memory that grows steadily: in most eighths of all steps, and still in the last ones."""

    _PIECES: Final = 8
    _LEAST_BLOCKS: Final = 200
    _MOST_BLOCKS: Final = 512
    _LEAST_SHARE: Final = 0.05
    _LEAST_BYTES: Final = 32e6

    def __init__(self) -> None:
        self._blocks: list[float] = []
        self._each = self._added = 0
        self._least = 0.0
        self._size = 1

    def add(self, block: float) -> tuple[float, float] | None:
        """The least memory of one more block; memory at the beginning and the end of a creep, where there is one."""
        self._least = min(self._least, block) if self._each else block
        self._each += 1
        self._added += 1
        if self._each < self._size:
            return None
        self._blocks.append(self._least)
        self._each = 0
        if len(self._blocks) >= self._MOST_BLOCKS:
            self._blocks = [min(pair) for pair in zip(self._blocks[::2], self._blocks[1::2], strict=False)]
            self._size *= 2
        is_due = self._added >= self._LEAST_BLOCKS and len(self._blocks) % 32 == 0
        return self._creep() if is_due else None

    def _creep(self) -> tuple[float, float] | None:
        looked = self._blocks[len(self._blocks) // 10 :]
        edges = [len(looked) * place // self._PIECES for place in range(self._PIECES + 1)]
        pieces = [median(looked[low:high]) for low, high in pairwise(edges)]
        rises = [after - before for before, after in pairwise(pieces)]
        total = pieces[-1] - pieces[0]
        if total < max(self._LEAST_SHARE * pieces[0], self._LEAST_BYTES):
            return None
        steady = sum(each > 0 for each in rises) >= self._PIECES - 2 and max(rises) <= total / 2
        # What fills up while a run warms up grows less and less.
        goes_on = min(rises[len(rises) // 2 :]) >= total / 20
        return (pieces[0], pieces[-1]) if steady and goes_on else None
