"""The time that a rank has waited in a call, when its records were written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

CLOCKS: Final = 100_000_000
"""Clocks of hosts differ by milliseconds: times of two ranks say what came first if they are this far apart, in ns."""


@dataclass(frozen=True)
class RecordsEnd:
    """When records were written.

    Attributes:
        own: of each rank where its records say so, ns since 1970, by its clock.
        last: the newest time that any record knows.
    """

    own: dict[int, int]
    last: int

    @classmethod
    def of(cls, hosts: Iterable[Mapping[str, Any]]) -> Self:
        """The ends of the records that rows of `HOSTS` are about."""
        rows = [*hosts]
        own = {row["rank"]: row["written"] for row in rows if row["written"]}
        return cls(own, max((row["last_time"] or 0 for row in rows), default=0))

    def waited(self, rank: int, created: int) -> int | None:
        """How long a rank has waited in a call, ns: by its own clock, else by others if these are far beyond errors."""
        if rank in self.own:
            return max(self.own[rank] - created, 0)
        longest = self.last - created
        return longest if longest >= CLOCKS else None
