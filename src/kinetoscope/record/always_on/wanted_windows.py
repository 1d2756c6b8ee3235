"""The windows that the history of a run asks for: each rank looks at its own rows, and the first one chooses.

The others leave it notes of what they see (`wishes/RANK.PID.N`). Ranks wait for each other, so one that falls behind is
seen on all of them: what is in loading data or between steps, where nobody waits, says whose it is, else what fewer
have. All of this is done by the thread that writes the history.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.always_on.idle import RankProcess
from kinetoscope.record.history import layout
from kinetoscope.record.history.layout import Mark
from kinetoscope.record.history.online_changes import OnlineDetector
from kinetoscope.record.history.wishes import CauseLimits, WindowWish, wish_of
from kinetoscope.record.output.guards import harmless

_SETTLING_S: Final = 2.0
"""Seconds in which other ranks see the same."""

_OWN_PARTS: Final = ("data", "gap")
"""Parts in which no rank waits for another one."""

_MOST_OF_CHANGE: Final = 3
_NAMED_RANKS: Final = 4


class WantedWindows:
    """The windows that this process wants.

    Args:
        process: this one.
        control: the folder for notes.
        want: what to call, in the first rank, with each window that is wanted.
    """

    def __init__(self, process: RankProcess, control: Path, want: Callable[[WindowWish], object]) -> None:
        self.detector = OnlineDetector()
        self._process, self._folder, self._want = process, control / "wishes", want
        self._left = 0
        self._pending: list[tuple[int, WindowWish]] = []
        self._since = 0.0
        self._limits = CauseLimits()

    @harmless(None)
    def seen(self, records: Sequence[bytes], marks: Sequence[Mark]) -> None:
        """Rows and marks were written."""
        wishes = self.detector.see(layout.RECORD.iter_unpack(b"".join(records)), marks)
        if self._process.world <= 1:
            for wish in wishes:
                self._want(wish)
        elif self._process.rank:
            for wish in wishes:
                self._leave(wish)
        else:
            self._gather(wishes)

    def _leave(self, wish: WindowWish) -> None:
        self._left += 1
        with contextlib.suppress(OSError):
            place = self._folder / f"{self._process.name}.{self._left}"
            mailbox.leave(place, {"rank": self._process.rank, **wish.note()})

    def _gather(self, wishes: Sequence[WindowWish]) -> None:
        """Take what all ranks want, and choose once they have had the time to see the same."""
        pending = [(self._process.rank, wish) for wish in wishes]
        for name, note in mailbox.read_all(self._folder).items():
            (self._folder / name).unlink(missing_ok=True)
            wish, rank = wish_of(note), note.get("rank")
            if wish is not None and isinstance(rank, int):
                pending.append((rank, wish))
        if pending and not self._pending:
            self._since = time.monotonic()
        self._pending += pending
        if self._pending and time.monotonic() - self._since >= _SETTLING_S:
            pending, self._pending = self._pending, []
            wish = chosen(pending, self._process.world)
            if self._limits.allows(wish.cause, self.detector.step, _MOST_OF_CHANGE if wish.is_change else 1):
                self._want(wish)


def chosen(pending: Sequence[tuple[int, WindowWish]], world: int) -> WindowWish:
    """The wish of several, each with its rank, that says most of where it comes from."""
    ranks: dict[str, set[int]] = {}
    for rank, wish in pending:
        ranks.setdefault(wish.cause, set()).add(rank)
    wish = max(
        (wish for _, wish in pending),
        key=lambda each: (each.is_change, each.part in _OWN_PARTS, -len(ranks[each.cause]), each.size),
    )
    of = sorted(ranks[wish.cause])
    if len(of) == world:
        return wish
    numbers = ", ".join(map(str, of[:_NAMED_RANKS])) + (
        f" and {len(of) - _NAMED_RANKS} more" * (len(of) > _NAMED_RANKS)
    )
    return wish.said_of(f"rank{'s' * (len(of) > 1)} {numbers}")
