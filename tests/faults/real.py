"""Run the real programs, and judge what the advisor says of their traces: `python -m tests.faults.real`.

Needs torch. What came of it is kept in `real.json`, which `python -m tests.faults` puts into the page. On a machine
that does other things meanwhile the gains are wrong: the rules are judged by steps of milliseconds.
"""

from __future__ import annotations

import argparse
import json
import math
import pkgutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kinetoscope.advisor.advice import advise
from kinetoscope.reading import read
from tests.faults import programs
from tests.faults.judging import ERROR, Judged, said
from tests.faults.outcomes import REAL, Outcomes

_NO_PROGRAMS: Final = ("__main__", "running", "parts", "ddp", "on_device")
FAMILY: Final = "Real programs"
_MOST: Final = 0.05
"""Share of a step that a gain may be wrong by; what was disturbed more has to be measured again."""


def names() -> list[str]:
    """All programs."""
    return sorted(each.name for each in pkgutil.iter_modules(programs.__path__) if each.name not in _NO_PROGRAMS)


def run(name: str, folder: Path, *, rounds: int = 7, steps: int = 0) -> None:
    """Measure and record a program in a process of its own; the folder has then what `judged` needs."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = [name, str(folder), "--rounds", str(rounds), "--steps", str(steps)]
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.programs", *asked]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=400).stdout
    (folder / "measured.json").write_text(said)


def judged(folder: Path) -> Judged:
    """What came of a program that was run into the folder."""
    return judged_of(json.loads((folder / "measured.json").read_text()), folder / "faulty", folder / "fixed")


def judged_of(measured: Mapping[str, Any], faulty_run: Path, fixed_run: Path) -> Judged:
    """The same of what was measured, and the recordings of both twins."""
    still = measured.get("still", [])
    advice, other = (advise(read(str(run), jobs=1)) for run in (faulty_run, fixed_run))
    (faulty, one), (fixed, other_error) = (_middle(measured["plain"][twin]) for twin in ("faulty", "fixed"))
    return Judged(
        code=measured["code"],
        family=FAMILY,
        name=measured["name"],
        timed=measured.get("timed", True),
        faulty=faulty,
        fixed=fixed,
        **said(advice, measured["code"]),
        false=tuple(each.code for each in other.of("warning", "critical") if each.code not in still),
        error=min(max(ERROR, math.hypot(one, other_error) / faulty), _MOST),
    )


def _middle(rounds: list[float]) -> tuple[float, float]:
    """The median of what rounds took, and what it may be wrong by: two standard errors, outliers aside."""
    middle = statistics.median(rounds)
    spread = 1.48 * statistics.median(abs(each - middle) for each in rounds)
    return middle, 2 * spread / math.sqrt(len(rounds))


def main() -> None:
    """All of them, into a folder that is thrown away unless `--kept` names one; what is there already is not run."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kept", type=Path)
    asked.add_argument("--rounds", type=int, default=7)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = options.kept or Path(scratch)
        found = []
        for name in names():
            if not (root / name / "measured.json").exists():
                run(name, root / name, rounds=options.rounds)
            each = judged(root / name)
            found.append(each)
            low, high = each.promised
            print(
                f"{each.code:9} {name:28} {each.severity or 'MISSED':9} {low:.1%} … {high:.1%} gained {each.gain:.1%}"
            )
        REAL.write_text(Outcomes(tuple(found), ()).text())


if __name__ == "__main__":
    main()
