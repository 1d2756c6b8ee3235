"""The workers of a data loader: other processes, which make batches ahead as far as torch lets them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

AHEAD = 2
"""Batches that each worker may be ahead: torch's `prefetch_factor`."""


@dataclass
class Workers:
    """Batches are given to the workers in turn, as many ahead as torch gives out; they are taken in order.

    Attributes:
        count: of workers.
        takes: draws how long one batch takes, ns.
    """

    count: int
    takes: Callable[[], int]
    _free: list[int] = field(init=False)
    _ready: list[int] = field(default_factory=list)
    _taken: int = 0

    def begin(self, now: int) -> None:
        """The first batches are given out."""
        self._free = [now] * self.count
        for _ in range(AHEAD * self.count):
            self._give(now)

    def take(self, now: int) -> int:
        """When the next batch can be taken; another one is given out then."""
        if not self._ready:
            self.begin(now)
        when = max(now, self._ready[self._taken])
        self._taken += 1
        self._give(when)
        return when

    def _give(self, now: int) -> None:
        worker = len(self._ready) % self.count
        self._free[worker] = max(self._free[worker], now) + self.takes()
        self._ready.append(self._free[worker])
