"""Verdicts of `memory_oom` and `memory_growth` on 60 jobs with known causes: `python -m tests.snapshots.verdicts`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import kinetoscope
from tests.snapshots import failing, growing
from tests.snapshots.case import Case
from tests.snapshots.writing import write

CASES = [*failing.CASES, *growing.CASES]
CERTAIN = "high"
UNCERTAIN = ("unclear", "too few steps")


@dataclass(frozen=True)
class Verdict:
    """The verdict on one job.

    Attributes:
        is_right: the cause is the planted one, and so is the line of a leak.
        is_certain: it was given without reservation.
    """

    case: Case
    said: str
    is_right: bool
    is_certain: bool

    def __str__(self) -> str:
        mark = "right" if self.is_right else "WRONG, and certain" if self.is_certain else "wrong"
        return f"{self.case.name:42} {self.case.cause:26} {self.said:50} {mark}"


def judge(case: Case, folder: Path) -> Verdict:
    """Runs a job, writes its snapshot, and asks."""
    process, error = case.run()
    path = write(folder / f"{case.name.replace(' ', '_').replace(',', '')}.pickle", process.snapshot())
    job = kinetoscope.read(path)
    if case.cause in ("leak", "healthy"):
        return _of_growth(case, job)
    assert error is not None, case.name
    text = f"torch.OutOfMemoryError: {error}" if case.has_text else ""
    table = kinetoscope.memory_oom(job, error=text).frame
    rows = table.filter(table["kind"] == "request")
    if not len(rows):
        return Verdict(case, "nothing failed", False, True)
    said, confidence = rows["verdict"][-1], rows["confidence"][-1]
    return Verdict(case, f"{said} ({confidence})", said == case.cause, confidence == CERTAIN)


def _of_growth(case: Case, job: kinetoscope.Job) -> Verdict:
    table = kinetoscope.memory_growth(job).frame
    said = table.filter((table["kind"] == "device") & (table["source"] == "snapshot"))["verdict"][0]
    if case.cause == "healthy":
        return Verdict(case, said, said == "no growth", said == "leak")
    stacks = table.filter(table["kind"] == "stack").sort("per_step", descending=True)
    name = str(stacks["name"][0]) if len(stacks) else "no stack"
    return Verdict(case, f"{said}, {name}", said == "leak" and case.line in name, said not in UNCERTAIN)


def judged(cases: Iterable[Case]) -> list[Verdict]:
    with tempfile.TemporaryDirectory() as folder:
        return [judge(case, Path(folder)) for case in cases]


def main() -> int:
    verdicts = judged([case for case in CASES if not sys.argv[1:] or any(word in case.name for word in sys.argv[1:])])
    print(*verdicts, sep="\n")
    wrong = [verdict for verdict in verdicts if not verdict.is_right]
    certain = sum(each.is_certain for each in wrong)
    print(f"\n{len(verdicts) - len(wrong)} of {len(verdicts)} right, {certain} wrong and certain")
    return len(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
