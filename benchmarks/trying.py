"""How honest `kinetoscope try` is: `python -m benchmarks.trying [itself] [faults] [healthy] [cost] [N]`; needs torch.

itself   a program against itself, N times (40), as variants that change nothing: how many are kept.
faults   a program with seven faults, N times (10): what is kept each time, and what a try takes.
healthy  a program without a fault, N times (10): nothing is to be kept.
cost     what timing costs a step, µs: the same loop with and without it, the best of several runs.

Only on a machine that does nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.asked import run
from kinetoscope.compare.trials.tried import Tried
from kinetoscope.record.session.child_config import RecordPlan, TimingPlan
from kinetoscope.record.session.launching import environment_of
from kinetoscope.record.trials import by_name
from kinetoscope.trying.options import TryOptions, UserVariant
from kinetoscope.trying.session import TrySession

_PROGRAMS: Final = Path(__file__).with_name("programs")
_TIMES: Final = {"itself": 40, "faults": 10, "healthy": 10, "cost": 3}
_BUDGET: Final = 3600.0

_LOOP: Final = """
import time, torch
torch.set_num_threads(1)
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.0, foreach=False)
def train(count):
    began = time.perf_counter()
    for _ in range(count):
        optimizer.zero_grad()
        (parameter * parameter).sum().backward()
        optimizer.step()
    return (time.perf_counter() - began) / count
train(300)
print(min(train(500) for _ in range(20)) * 1e6)
"""


def tried(program: Path, **options: object) -> Tried:
    """The result of one try of a program."""
    with tempfile.TemporaryDirectory() as folder:
        given = {"budget": _BUDGET, "remember": False, **options}
        session = TrySession(TryOptions(command=(sys.executable, str(program)), folder=folder, **given))  # type: ignore[arg-type]
        session.survey()
        session.measure_noise()
        return session.run()


def itself(times: int) -> Iterator[str]:
    """Lines about a program that is tried against itself."""
    variants = [UserVariant(name=f"nothing {number}", group="nothing") for number in range(times)]
    result = tried(_PROGRAMS / "healthy.py", variants=variants)
    counts = Counter(row.outcome for row in result.trials)
    yield f"noise {result.noise:.1%}; of {times}: {dict(counts)}; {result.runs} runs, {result.seconds:.0f} s"


def faults(times: int) -> Iterator[str]:
    """Lines about a program with seven faults."""
    return _lines(_PROGRAMS / "seven_faults.py", times)


def healthy(times: int) -> Iterator[str]:
    """Lines about a program without a fault."""
    return _lines(_PROGRAMS / "healthy.py", times)


def _lines(program: Path, times: int) -> Iterator[str]:
    for number in range(1, times + 1):
        result = tried(program)
        after = "" if result.step_after is None else f" → {result.step_after / 1e6:.1f} ms"
        rows = ", ".join(f"{row.trial}: {row.outcome}" for row in result.trials if row.was_run)
        kept = " + ".join(result.kept) or "nothing"
        yield (
            f"{number}. {kept}; {result.step / 1e6:.1f} ms{after}; {result.runs} runs, {result.seconds:.0f} s"
            f" (noise {result.noise:.1%}; {rows})"
        )
        for row in result.trials:
            if row.promised_high is not None and row.recorded_step and row.change is not None:
                low, high = (100 * (end or 0) / row.recorded_step for end in (row.promised_low, row.promised_high))
                yield f"     {row.trial}: promised {low:.0f} to {high:.0f} %, brought {-100 * row.change:.0f} %"


def cost(times: int) -> Iterator[str]:
    """Lines about what timing costs a step."""
    names: Sequence[tuple[str, Sequence[str]]] = (("timed", ()), ("timed, all trials look", tuple(by_name())))
    plain = min(_microseconds(None) for _ in range(times))
    yield f"plain: {plain:.1f} µs a step"
    for name, looks in names:
        with tempfile.TemporaryDirectory() as folder:
            timing = TimingPlan(name="cost", steps=10**7, looks=looks)
            options = {"graph_captures": False, "compile_log": False}
            plan = RecordPlan(dir=folder, control=f"{folder}/control", signal=False, options=options, timing=timing)
            took = min(_microseconds(environment_of(plan)) for _ in range(times))
        yield f"{name}: {took:.1f} µs, {took - plain:.1f} more: {(took - plain) / 1e4:.2%} of a step of 10 ms"


def _microseconds(environment: Mapping[str, str] | None) -> float:
    done = subprocess.run([sys.executable, "-c", _LOOP], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    run({"itself": itself, "faults": faults, "healthy": healthy, "cost": cost}, _TIMES)
