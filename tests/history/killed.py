"""Jobs that are killed at any moment: `python -m tests.history.killed [N] [SEED] [AT ONCE]` says what is left of each.

A job writes the number of each step, and when it ended, into a file of its own before the next one begins. It is killed
by SIGKILL after a random time. All steps that had ended a second before (and what the writer's thread may be late on
a busy machine) must be in its history, each once, with the times that the job saw.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kinetoscope.errors import NotFoundError
from kinetoscope.readers.history.history import read_history
from kinetoscope.record.history.writer import INTERVAL_S
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.launching import environment_of
from tests.record.processes import environment

JOB: Final = """
import os, struct, sys, time, torch
torch.set_num_threads(1)
ended = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
pause = float(sys.argv[2])
parameter = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([parameter], lr=0.0)
for number in range(10**9):
    (parameter * parameter).sum().backward()
    optimizer.step()
    os.write(ended, struct.pack("<qq", number, time.time_ns()))
    if number % 100 == 99:
        torch.save(parameter, os.devnull)
    time.sleep(pause)
"""

_CLOCK_NS: Final = 50_000_000
"""The job notes its time a little after the hook; a thread may lose its core between."""

_WAIT_S: Final = 120.0


@dataclass(frozen=True)
class KilledJob:
    """What is left of a job.

    Attributes:
        seconds: from its first step to its end.
        ended, kept: steps that it took, and those in its history.
        late: seconds before its end of the last step in the history; without any, of its first step.
        problem: what is wrong with the history; "" if nothing is.
    """

    seconds: float
    ended: int
    kept: int
    late: float
    problem: str


def killed(folder: Path, after: float, pause: float, slack: float = 1.0) -> KilledJob:
    """Kill a job so many seconds after its first step; `slack`: seconds that the writer may be late."""
    log = folder / "ended"
    plan = RecordPlan(dir=str(folder), control=str(folder / "control"), history=True, idle=True, signal=False)
    given = {**environment_of(plan), **{name: value for name, value in environment().items() if name != "PYTHONPATH"}}
    with subprocess.Popen([sys.executable, "-c", JOB, str(log), str(pause)], env=given) as process:
        try:
            until = time.monotonic() + _WAIT_S
            while not (log.exists() and log.stat().st_size) and time.monotonic() < until and process.poll() is None:
                time.sleep(0.002)
            time.sleep(after)
        finally:
            process.send_signal(signal.SIGKILL)
            when = time.time_ns()
            process.wait()
    content = log.read_bytes()
    seen = np.frombuffer(content[: len(content) // 16 * 16], "<i8").reshape(-1, 2)
    try:
        steps = read_history(folder).steps
        numbers, ends = steps["step"].to_numpy(), steps["end"].to_numpy()
    except NotFoundError:  # not even its head
        numbers = ends = np.empty(0, np.int64)
    due = int((seen[:, 1] < when - int((INTERVAL_S + slack) * 1e9)).sum())
    problem = ""
    if (numbers != np.arange(len(numbers))).any():
        problem = "steps are missing, or there twice"
    elif len(numbers) < due:
        problem = f"{due - len(numbers)} steps are missing that had ended {INTERVAL_S + slack:g} s before"
    elif len(ends) and (np.abs(ends[: len(seen)] - seen[: len(ends), 1]) > _CLOCK_NS).mean() > 0.01:
        problem = "times are wrong"
    last = int(ends[-1]) if len(ends) else int(seen[0, 1])
    return KilledJob((when - int(seen[0, 1])) / 1e9, len(seen), len(numbers), (when - last) / 1e9, problem)


def drawn(number: int) -> KilledJob:
    """A job of steps of 0.2 to 300 ms that is killed up to 6 s after its first."""
    chance = random.Random(number)
    with tempfile.TemporaryDirectory() as folder:
        return killed(Path(folder), chance.uniform(0, 6), 10 ** chance.uniform(-3.7, -0.5))


def main() -> int:
    """Kill as many as are asked for, and say what was left."""
    count, seed, workers = (*(int(word) for word in sys.argv[1:]), *(500, 0, 2)[len(sys.argv) - 1 :])
    bad, late, steps = 0, [], 0
    with ThreadPoolExecutor(workers) as pool:
        for number, job in enumerate(pool.map(drawn, range(seed, seed + count)), 1):
            late.append(job.late)
            steps += job.ended
            if job.problem:
                bad += 1
                print(f"{seed + number - 1}: {job}", flush=True)
            if number % 20 == 0:
                print(f"{number} of {count}: {bad} bad, {steps} steps, at most {max(late):.2f} s lost", flush=True)
    print(f"{count} jobs killed, {bad} bad; lost: median {sorted(late)[count // 2]:.2f} s, at most {max(late):.2f} s")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
