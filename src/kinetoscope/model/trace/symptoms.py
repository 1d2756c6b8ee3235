"""The health of a trace: notes on what is wrong or odd about it, its symptoms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, get_args

from kinetoscope.notes import Note, Severity

DAMAGED: Final = "DAMAGED"
"""Code of the note that data was lost; faces put it first."""

_NOTABLE_LOSS_SHARE: Final = 0.005
"""Share of a file from which its loss is given as a number."""

_SEVERITY_ORDER: dict[str, int] = {"error": 0, "warning": 1, "note": 2}


def cut_stream(why: str, lost: float = 0.0) -> Note:
    """The note that a file ends early, or is damaged; `lost`: the share of it that could not be read."""
    return Note("STREAM", f"{why}: what could be read is kept.", "error", lost=lost)


@dataclass(frozen=True, slots=True)
class Health:
    """All symptoms of a trace, worst first."""

    symptoms: tuple[Note, ...] = ()

    @classmethod
    def of(cls, *groups: Iterable[Note]) -> Health:
        """The symptoms of all groups, sorted by severity and otherwise in the order given."""
        symptoms = [symptom for group in groups for symptom in group]
        return cls(tuple(sorted(symptoms, key=lambda symptom: _SEVERITY_ORDER[symptom.severity])))

    def __iter__(self) -> Iterator[Note]:
        return iter(self.symptoms)

    def __len__(self) -> int:
        return len(self.symptoms)

    def __contains__(self, code: object) -> bool:
        return any(symptom.code == code for symptom in self.symptoms)

    def __getitem__(self, code: str) -> Note:
        for symptom in self.symptoms:
            if symptom.code == code:
                return symptom
        raise KeyError(code)

    @property
    def damage(self) -> Note | None:
        """The note that data was lost, and how much; None where none was."""
        lost = [
            symptom for symptom in self.symptoms if symptom.severity == "error" or symptom.lost >= _NOTABLE_LOSS_SHARE
        ]
        if not lost:
            return None
        share = 1 - math.prod(1 - symptom.lost for symptom in lost)
        if share >= _NOTABLE_LOSS_SHARE:
            percent = min(max(round(100 * share), 1), 99)
            return Note(DAMAGED, f"This file is damaged: {percent}% of it could not be read.", "error")
        ends = any(symptom.code in ("STREAM", "TRUNCATED") for symptom in lost)
        what = "it ends early, and how much is missing is unknown" if ends else "events are lost"
        return Note(DAMAGED, f"This file is damaged: {what}.", "error")

    @property
    def worst(self) -> Severity | None:
        """Severity of the first symptom; None when there is none."""
        return self.symptoms[0].severity if self.symptoms else None


def facts_of(symptom: Note) -> dict[str, Any]:
    """A symptom as JSON holds it in what is written of a trace; `note_of` reads it."""
    facts = {"code": symptom.code, "severity": symptom.severity, "message": str(symptom)}
    return {**facts, "count": symptom.number, "lost": symptom.lost}


def note_of(facts: Any) -> Note:
    """The symptom that `facts_of` wrote.

    Raises:
        ValueError: it is none.
    """
    match facts:
        case {"code": str(code), "severity": str(severity), "message": str(message), "count": int(count)}:
            if severity in get_args(Severity):
                lost = facts.get("lost", 0.0)  # older versions did not write it
                share = float(lost) if isinstance(lost, int | float) and 0 <= lost <= 1 else 0.0
                return Note(code, message, severity, count, share)  # type: ignore[arg-type]
    raise ValueError("its manifest says what no manifest says about how the trace was read")
