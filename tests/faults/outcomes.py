"""What came of all cases, kept in a file, so that the page and its picture can be made and checked without drawing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.faults.judging import Judged

FILE: Final = Path(__file__).with_name("outcomes.json")
REAL: Final = Path(__file__).with_name("real.json")
"""Of programs that run with torch: written by `python -m tests.faults.real`."""


@dataclass(frozen=True)
class Warned:
    """A healthy program, and the codes of the rules that warn about it all the same."""

    name: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcomes:
    """Of all cases, and of all healthy programs."""

    cases: tuple[Judged, ...]
    healthy: tuple[Warned, ...]

    def text(self) -> str:
        """As JSON, a line each; numbers rounded to whole ns."""
        parts: dict[str, tuple[Judged, ...] | tuple[Warned, ...]] = {"cases": self.cases, "healthy": self.healthy}
        lines = [f'"{key}": [\n' + ",\n".join(_line(each) for each in values) + "\n]" for key, values in parts.items()]
        return "{" + ",\n".join(lines) + "}\n"


def read(*files: Path) -> Outcomes:
    """From files that `Outcomes.text` made, together; a file that is not there has none."""
    cases: list[Judged] = []
    healthy: list[Warned] = []
    for file in files:
        if file.exists():
            plain = json.loads(file.read_text())
            cases += [Judged(**{**each, "false": tuple(each["false"])}) for each in plain["cases"]]
            healthy += [Warned(each["name"], tuple(each["codes"])) for each in plain["healthy"]]
    return Outcomes(tuple(cases), tuple(healthy))


def _line(each: Judged | Warned) -> str:
    plain: dict[str, Any] = asdict(each)
    return json.dumps({key: _rounded(value) for key, value in plain.items()})


def _rounded(value: object) -> object:
    """Whole ns; shares to four digits."""
    return (round(value) if abs(value) > 1 else round(value, 4)) if isinstance(value, float) else value
