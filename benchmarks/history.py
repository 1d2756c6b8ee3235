"""The cost of a run's history: `python -m benchmarks.history [cost] [bytes] [reading] [N]`; the first two need torch.

cost     what a step takes with `record --history` and without, in blocks of 250 steps that take turns, N times (3):
         of a loop with next to nothing in a step, of steps of 1 ms, and of a small training program with a loader.
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

_TRAIN: Final = """
import gc, json, sys, time, torch
import torch.optim.optimizer as hooks
from torch.utils.data.dataloader import _BaseDataLoaderIter as Batches
torch.set_num_threads(1)
kind, steps = sys.argv[1], int(sys.argv[2])
parameter = torch.nn.Parameter(torch.ones(1))
sgd = torch.optim.SGD([parameter], lr=0.0, foreach=False)
def least():
    sgd.zero_grad()
    (parameter * parameter).sum().backward()
    sgd.step()
def millisecond():
    until = time.perf_counter() + 0.00085
    while time.perf_counter() < until:
        pass
    least()
net = torch.nn.Sequential(*(layer for _ in range(6) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())))
adam = torch.optim.Adam(net.parameters(), lr=0.0)
def batches():
    while True:
        yield from torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(6400, 256)), batch_size=64)
loader = batches()
def small():
    (batch,) = next(loader)
    adam.zero_grad()
    net(batch).square().mean().backward()
    adam.step()
step = {"least": least, "1 ms": millisecond, "small": small}[kind]
for _ in range(100):
    step()
dictionaries = (
    hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks, net._forward_hooks, net._forward_pre_hooks
)
places = [(torch.autograd, "backward"), (Batches, "__next__"), (Batches, "__init__")]
places += [(torch.autograd.profiler.record_function, name) for name in ("__enter__", "__exit__")]
ours = [dict(each) for each in dictionaries], [getattr(*each) for each in places], list(gc.callbacks)
plain = [{}] * 4, [each.__wrapped__ for each in ours[1]], []
def put(state):
    for dictionary, values in zip(dictionaries, state[0]):
        dictionary.clear()
        dictionary.update(values)
    for place, value in zip(places, state[1]):
        setattr(*place, value)
    gc.callbacks[:] = state[2]
took, cpu = ([], []), [0, 0]
for block in range(steps // 250 * 2):
    which = (block + block // 2) % 2
    put((plain, ours)[which])
    for _ in range(20):  # the interpreter adapts to what was put in place
        step()
    began, before = time.thread_time_ns(), time.perf_counter_ns()
    for _ in range(250):
        step()
        now = time.perf_counter_ns()
        took[which].append(now - before)
        before = now
    cpu[which] += time.thread_time_ns() - began
for which in (0, 1):
    each = sorted(took[which])
    found = {"cpu": cpu[which] / len(each), "mean": sum(each) / len(each)}
    found |= {"median": each[len(each) // 2], "p99": each[len(each) * 99 // 100]}
    print(json.dumps({name: value / 1e3 for name, value in found.items()}))
"""

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
    for kind, steps in (("least", 20_000), ("1 ms", 3_000), ("small", 2_000)):
        rows = [_taken(kind, steps) for _ in range(rounds)]
        for name in rows[0][0]:
            without, added = (
                statistics.median(each)
                for each in ([row[0][name] for row in rows], [row[1][name] - row[0][name] for row in rows])
            )
            yield f"{kind}, {name}: {without:.1f} µs without, {added:+.1f} with it ({added / without:+.2%})"


def _taken(kind: str, steps: int) -> list[dict[str, float]]:
    """Times of a step without and with it."""
    with tempfile.TemporaryDirectory() as folder:
        lines = _output(_TRAIN, [kind, str(steps)], environment_of(_plan(folder))).splitlines()
    return [json.loads(line) for line in lines]


def _plan(folder: str) -> RecordPlan:
    options = {"graph_captures": False, "compile_log": False}
    return RecordPlan(dir=folder, control=f"{folder}/control", idle=True, history=True, signal=False, options=options)


def _output(program: str, arguments: list[str], environment: Mapping[str, str] | None) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def stored(seconds: int) -> Iterator[str]:
    """Lines about the size of files."""
    with tempfile.TemporaryDirectory() as folder:
        steps = int(_output(_SLOW, [str(seconds)], environment_of(_plan(folder))))
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
