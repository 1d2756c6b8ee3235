"""Real runs with planted changes: `python -m tests.history.recorded [--first N] [--last N] [--keep DIR]`, a line each.

Thirty runs of `programs/training.py` with something planted, and ten healthy ones of 10,000 steps, each recorded with
`record --history`, and asked what changed. Needs torch; it may run beside other work: that is what machines are like.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from kinetoscope.model.history.history import history
from kinetoscope.readers.history.history import by_rank
from tests.history.drawn import Planted, Run
from tests.history.scored import Score, verdict

_PROGRAM: Final = Path(__file__).parent / "programs" / "training.py"
_STEPS: Final = 3000
_LONG_STEPS: Final = 10_000
_SECONDS: Final = 900


@dataclass(frozen=True)
class Case:
    """A run to record: what is planted, from or every how many steps, and ms; on one rank of two, or on all of one."""

    kind: str
    first: int = 1
    ms: float = 0.0
    rank: int | None = None

    @property
    def run(self) -> Run:
        """What the answers are held against."""
        name = f"{self.kind} {self.first} {self.ms:g}" + ("" if self.rank is None else f" rank {self.rank}")
        if self.kind == "none":
            return Run(name, steps=_LONG_STEPS, ranks=1)
        ranks = None if self.rank is None else (self.rank,)
        steps = _LONG_STEPS if self.kind == "creep" else _STEPS  # memory is asked for once a second
        return Run(name, steps=steps, ranks=1 if self.rank is None else 2, planted=(self._planted(ranks),))

    def _planted(self, ranks: tuple[int, ...] | None) -> Planted:
        if self.kind == "drift":
            return Planted("drift", 0, ranks, "forward")
        if self.kind == "creep":
            return Planted("creep", 0, ranks, "resident")
        if self.kind in ("save", "collection", "stall"):
            mark, part = {"save": ("save", "gap"), "collection": ("collection", "gap"), "stall": ("", "data")}[
                self.kind
            ]
            return Planted("period", 0, ranks, part, period=self.first, mark=mark)
        return Planted("shift", self.first, ranks, self.kind)


CASES: Final = (
    *(Case(part, 1200, ms) for part in ("data", "forward", "gap", "backward", "optimizer") for ms in (0.3, 1.0, 3.0)),
    *(Case(part, 2200, 1.5) for part in ("data", "forward", "gap")),
    *(Case("drift", 1, ms) for ms in (1.5, 3.0)),
    *(Case("save", every, 20.0) for every in (150, 400)),
    *(Case("collection", every, 3000.0) for every in (120, 300)),
    *(Case("stall", every, 30.0) for every in (100, 250)),
    *(Case("creep", 1, ms) for ms in (5.0, 10.0)),
    *(Case(part, 1500, 2.0, rank) for part, rank in (("data", 1), ("gap", 0))),
    *(Case("none"),) * 10,
)


def recorded(case: Case, folder: Path) -> Score:
    """Record the run of a case into a folder, and ask."""
    run = case.run
    program = [str(_PROGRAM), str(run.steps), case.kind, str(case.first), str(case.ms)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    rank = [] if case.rank is None else [str(case.rank)]
    command = [sys.executable, *(torchrun if rank else []), *program, *rank]
    record = [sys.executable, "-m", "kinetoscope", "record", "--history", "-o", str(folder), "--", *command]
    done = subprocess.run(record, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        return Score(run, False, False, (done.stderr[-500:],))
    tables = [*by_rank(folder)]
    return verdict(run, history([each.steps for each in tables], pl.concat(each.marks for each in tables)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Record what the command line chooses, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1, help="number of the first case")
    parser.add_argument("--last", type=int, default=len(CASES), help="number of the last one")
    parser.add_argument("--only", type=int, nargs="*", default=[], metavar="N", help="numbers of cases, instead")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the runs there")
    given = parser.parse_args(arguments)
    scores: list[Score] = []
    for number in given.only or range(given.first, given.last + 1):
        case = CASES[number - 1]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(given.keep or temporary) / f"{number:02}"
            scores.append(recorded(case, folder))
        print(f"{number:2} {scores[-1]}", flush=True)
    planted, healthy = ([each for each in scores if bool(each.run.planted) is has] for has in (True, False))
    print(
        f"{sum(each.is_there for each in planted)} of {len(planted)} at their place,"
        f" {sum(each.is_caused for each in planted)} with their cause,"
        f" {sum(not each.is_there for each in healthy)} false alarms in {len(healthy)} healthy runs"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
