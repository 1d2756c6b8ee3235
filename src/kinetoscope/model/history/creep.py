"""Memory that grows steadily: of the allocator in use and reserved, and of the process.

A jump is no creep, nor is what grows while a run warms up: it has to rise in nearly each eighth of what follows.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats
from kinetoscope.model.history.levels import SHORTEST_BLOCKS
from kinetoscope.model.history.noise import filled
from kinetoscope.model.history.rank_series import MEMORY
from kinetoscope.model.history.run_series import RunSeries

_WARM_UP: Final = 0.1
"""Share of the run that is not looked at."""

_PIECES: Final = 8
_MIN_RISES: Final = 6
"""Rises from piece to piece, of seven, at least."""

_MAX_JUMP: Final = 0.5
"""Share of the whole rise that lies in one step from piece to piece, at most."""

_MIN_SHARE: Final = 0.05
_MIN_BYTES: Final = 32e6


def creeps_of(run: RunSeries) -> list[dict[str, Any]]:
    """A row for each kind of memory that creeps, with its ranks as `rows`."""
    count = run.memory.shape[2]
    begin = int(_WARM_UP * count)
    if count - begin < 2 * SHORTEST_BLOCKS:
        return []
    creeping: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(MEMORY):
        values = run.memory[:, number].astype(np.float64)
        known = ~np.isnan(values).all(axis=1)
        if not known.any():
            continue
        pieces = _pieces(filled(values)[:, begin:])
        rows = known & _is_creep(pieces)
        if name == "memory_reserved" and "memory_used" in creeping:
            # The allocator has to reserve what is used.
            rows &= ~creeping["memory_used"]["rows"]
        if rows.any():
            before, after = (float(np.median(pieces[rows, place])) for place in (0, -1))
            first, last = run.step_of(begin), run.last
            rises = int((np.diff(pieces[rows], axis=1) > 0).sum(axis=1).min())
            creeping[name] = {
                "kind": "creep",
                "rows": rows,
                "step": first,
                "step_low": first,
                "step_high": first,
                "until": last,
                "change": (after - before) / before if before else None,
                "part": name,
                "memory_before": before,
                "memory_after": after,
                "certainty": "likely" if rises == _PIECES - 1 else "guess",
            }
    return list(creeping.values())


def _pieces(values: Floats) -> Floats:
    """The medians of eighths: float64 [ranks, 8]."""
    return np.stack([np.median(each, axis=1) for each in np.array_split(values, _PIECES, axis=1)], axis=1)


def _is_creep(pieces: Floats) -> Any:
    rise = np.diff(pieces, axis=1)
    total = pieces[:, -1] - pieces[:, 0]
    steady = ((rise > 0).sum(axis=1) >= _MIN_RISES) & (rise.max(axis=1) <= _MAX_JUMP * total)
    return steady & (total >= np.maximum(_MIN_SHARE * pieces[:, 0], _MIN_BYTES))
