"""What is wrong or odd about a trace, said before any number is taken from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from kinetoscope.errors import one_line

Severity = Literal["error", "warning", "note"]
"""error: data was lost. warning: numbers are affected. note: good to know; some questions cannot be answered."""

DAMAGED: Final = "This file is damaged"
"""How it is said that data was lost; faces put it first."""

_NOTABLE: Final = 0.005
"""Share of a file from which on what is lost has a number."""

_ORDER: dict[str, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that was found.

    Attributes:
        code: stable name in capitals, for scripts.
        severity: error, warning or note.
        message: one sentence with the numbers in it, and what follows from it.
        count: how many events (or bytes, strings, …) it concerns.
        lost: share of the file that could not be read for it; 0 where nothing was lost, or nobody can tell how much.
    """

    code: str
    severity: Severity
    message: str
    count: int = 1
    lost: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message))


def many(count: int, one: str, more: str = "") -> str:
    """A count and its noun: `1 event`, `2,000 events`; `more` is the plural where that is not `one` and an s."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


@dataclass(frozen=True, slots=True)
class Health:
    """All symptoms of a trace, worst first."""

    symptoms: tuple[Symptom, ...] = ()

    @classmethod
    def of(cls, *groups: Iterable[Symptom]) -> Health:
        """The symptoms of all groups, sorted by severity and otherwise in the order given."""
        found = [symptom for group in groups for symptom in group]
        return cls(tuple(sorted(found, key=lambda symptom: _ORDER[symptom.severity])))

    def __iter__(self) -> Iterator[Symptom]:
        return iter(self.symptoms)

    def __len__(self) -> int:
        return len(self.symptoms)

    def __contains__(self, code: object) -> bool:
        return any(symptom.code == code for symptom in self.symptoms)

    def __getitem__(self, code: str) -> Symptom:
        for symptom in self.symptoms:
            if symptom.code == code:
                return symptom
        raise KeyError(code)

    @property
    def damage(self) -> str:
        """That data was lost and how much, in a sentence that begins with `DAMAGED`; "" where none was."""
        lost = [symptom for symptom in self.symptoms if symptom.severity == "error" or symptom.lost >= _NOTABLE]
        if not lost:
            return ""
        share = 1 - math.prod(1 - symptom.lost for symptom in lost)
        if share >= _NOTABLE:
            percent = min(max(round(100 * share), 1), 99)
            return f"{DAMAGED}: {percent}% of it could not be read."
        ends = any(symptom.code in ("STREAM", "TRUNCATED") for symptom in lost)
        return f"{DAMAGED}: {'it ends early, and what is missing cannot be told' if ends else 'events are lost'}."

    @property
    def worst(self) -> Severity | None:
        """Severity of the first symptom; None when there is none."""
        return self.symptoms[0].severity if self.symptoms else None
