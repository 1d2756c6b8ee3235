"""The cost of a run's history: `python -m benchmarks.history [cost] [bytes] [reading] [N]`; the first two need torch.

cost     what a step takes with `record --history` and without, in blocks of 250 steps that take turns, N times (3):
         of ten programs (`programs/ten.py`), from one with next to nothing in a step on.
bytes    what a day of steps of 100 ms takes on the disk, by a job of N seconds (60) that takes such steps.
reading  how long it takes to read N (1,000) ranks of 100,000 steps, all columns and three, rank by rank.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.asked import run
from kinetoscope.model.history.series import STEPS
from kinetoscope.readers.history.history import by_rank
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.launching import environment_of

_TIMES: Final = {"cost": 3, "bytes": 60, "reading": 1000}

_PROGRAMS: Final = Path(__file__).parent / "programs" / "ten.py"

_SLOW: Final = """
import sys, time, torch
torch.set_num_threads(1)
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.0)
until, number = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    parameter.sum().backward()
    optimizer.step()
    number += 1
    time.sleep(0.1)
print(number)
"""


def cost(rounds: int) -> Iterator[str]:
    """Lines about what a step takes."""
    from benchmarks.programs.ten import PROGRAMS

    for name in PROGRAMS:
        rows = [_taken(name, 20_000 if name == "least" else 2_000) for _ in range(rounds)]
        said = []
        for figure in rows[0][0]:
            without = statistics.median(row[0][figure] for row in rows)
            added = statistics.median(row[1][figure] - row[0][figure] for row in rows)
            said.append(f"{figure} {without:,.0f} {added:+.1f}")
        yield f"{name}, µs without and added: {'; '.join(said)}"


def _taken(program: str, steps: int) -> list[dict[str, float]]:
    """Times of a step without and with it."""
    with tempfile.TemporaryDirectory() as folder:
        printed = _output([str(_PROGRAMS), program, str(steps)], environment_of(_plan(folder)))
    rows: list[dict[str, float]] = json.loads(printed)
    return rows


def _plan(folder: str) -> RecordPlan:
    options = {"graph_captures": False, "compile_log": False}
    return RecordPlan(dir=folder, control=f"{folder}/control", idle=True, history=True, signal=False, options=options)


def _output(arguments: list[str], environment: Mapping[str, str] | None) -> str:
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def stored(seconds: int) -> Iterator[str]:
    """Lines about the size of files."""
    with tempfile.TemporaryDirectory() as folder:
        steps = int(_output(["-c", _SLOW, str(seconds)], environment_of(_plan(folder))))
        size = sum(path.stat().st_size for path in Path(folder, "history").iterdir())
    each = size / steps
    yield f"{steps} steps, {size} bytes: {each:.1f} a step, {each * 864_000 / 1e6:.1f} MB a day of steps of 100 ms"


def reading(ranks: int) -> Iterator[str]:
    """Lines about how long reading takes."""
    from tests.history import written

    chance = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder, size = Path(name), 0
        rows = written.records(100_000)
        for part in ("data", "forward", "backward", "optimizer"):
            rows[part] = chance.lognormal(16, 0.1, len(rows))
        content = written.write(folder, rows).read_bytes()
        body = content[len(content) - len(written.blocks(rows)) :]
        for rank in range(ranks):
            path = written.write(folder, rows[:0], rank=rank)
            with path.open("ab") as file:
                size += file.write(body)
        for columns in (["step", "start", "end"], STEPS.names):
            began, cpu, count = time.perf_counter(), time.process_time(), 0
            for tables in by_rank(folder, columns=columns):
                count += len(tables.steps)
            took, cpu = time.perf_counter() - began, time.process_time() - cpu
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            said = f"{took:.1f} s, {cpu:.1f} s of processors, at most {peak:.2f} GB"
            yield f"{ranks} ranks, {count} steps, {size / 1e9:.2f} GB, {len(columns)} columns: {said}"


if __name__ == "__main__":
    run({"cost": cost, "bytes": stored, "reading": reading}, _TIMES)
