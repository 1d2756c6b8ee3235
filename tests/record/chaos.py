"""Jobs that are recorded while all kinds of things go wrong: `python -m tests.record.chaos [RUNS] [FIRST_SEED]`.

`python -m tests.record.chaos 1 SEED` runs one seed again. Odd seeds are programs that do what programs do, recorded
without a line of code (see `chaos_programs`); even ones are of this module.

Each run of this module trains a small model in a process of its own, recorded in one of our ways, and draws from its
seed what happens to it: SIGTERM at some moment, an exception in a step, a disk that is full (a small tmpfs where one
can be mounted, else a limit on the size of files), windows asked for by another thread while one runs, loaders that
fork. One run in eight is a Python that was started for it, the others are forks (see `processes`). What must hold: each
loss is, bit for bit, that of the same job without us, as far as the run came; the process ends as it would have without
us, in time; whatever has a final name is a whole valid trace that our reader reads; nothing half is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.record import chaos_programs, processes
from tests.record.jobs import document, parts, sidecar, traces

STEPS: Final = 40
PATIENCE: Final = 180.0
"""Seconds after which a run hangs; it takes a few, and more where the machine is busy."""

JOB: Final = """
import contextlib, json, os, random, resource, signal, sys, threading
import torch
plan = json.loads(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(11)
if plan["limit"]: resource.setrlimit(resource.RLIMIT_FSIZE, (plan["limit"], plan["limit"]))
class Data(torch.utils.data.Dataset):
    def __len__(self): return 8 * plan["steps"]
    def __getitem__(self, number): return torch.full((16,), float(number % 13)).sin()
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Dropout(0.2), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
chance = random.Random(plan["seed"])
end = threading.Event()
def batches():
    return iter(torch.utils.data.DataLoader(Data(), batch_size=8, shuffle=True, num_workers=plan["workers"]))
def train(number, batch):
    optimizer.zero_grad()
    loss = model(batch + torch.randn(8, 16) / 8).square().sum()
    if number == plan["fails_at"]: raise ArithmeticError("this step fails")
    loss.backward()
    optimizer.step()
    os.write(1, f"{number} {loss.item().hex()}\\n".encode())  # whole, or not at all, should a signal end it here
def loop(step):
    for number, batch in enumerate(batches()):
        train(number, batch)
        step()
if plan["how"] != "none":
    from kinetoscope.record.session.options import RecordOptions
    options = RecordOptions(keep_free=0)
how = plan["how"]
if how == "none":
    loop(lambda: None)
elif how == "profile":
    from kinetoscope.record.profile import profile
    stack = plan["stack"]
    with profile(sys.argv[1], wait=chance.randrange(3), warmup=chance.randrange(2), active=1 + chance.randrange(6),
                 repeat=chance.randrange(3), with_stack=stack, options=options) as prof:
        loop(lambda: prof.step(samples=8))
elif how == "handler":
    from kinetoscope.record.trace_handler import trace_handler
    schedule = torch.profiler.schedule(wait=chance.randrange(2), warmup=1, active=1 + chance.randrange(4))
    with torch.profiler.profile(schedule=schedule, on_trace_ready=trace_handler(sys.argv[1], options)) as prof:
        loop(prof.step)
else:
    from kinetoscope.record.session.recorder import Recorder
    recorder = Recorder(sys.argv[1], options)
    def ask():
        while not end.wait(chance.random() * 0.02):
            recorder.request(1 + chance.randrange(5), warmup=chance.randrange(3))
    threading.Thread(target=ask, daemon=True).start()
    try:
        loop(recorder.step)
    finally:
        end.set()
        if chance.random() < 0.5: recorder.close()
"""


@dataclass(frozen=True)
class Plan:
    """What happens in one run."""

    seed: int
    how: str
    workers: int = 0
    fails_at: int = -1
    killed_at: int = -1
    limit: int = 0
    tmpfs: int = 0
    stack: bool = False
    fresh: bool = False
    steps: int = STEPS


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(seed)
    what = chance.choice(("nothing", "killed", "killed", "fails", "full", "full and killed"))
    full = "full" in what
    small = full and chance.random() < 0.5
    return Plan(
        seed=seed,
        how=chance.choice(("profile", "recorder", "recorder", "handler")),
        workers=chance.choice((0, 0, 2)),
        fails_at=chance.randrange(STEPS) if what == "fails" else -1,
        killed_at=chance.randrange(STEPS) if "killed" in what else -1,
        limit=chance.randrange(1000, 300_000) if full and not small else 0,
        tmpfs=chance.randrange(1, 100) * 4096 if small else 0,
        stack=chance.random() < 0.3,
        fresh=chance.random() < 0.125,
    )


def losses(plan: Plan, folder: Path) -> tuple[int, list[str], str]:
    """Run the job; how it ended, its losses, and what it said on standard error."""
    found: list[str] = []
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        read, write = os.pipe()
        task = [str(folder), json.dumps(asdict(plan))]
        with os.fdopen(read) as lines, processes.python(JOB, task, write, errors.fileno(), fresh=plan.fresh) as job:
            os.close(write)
            alarm = threading.Timer(PATIENCE, job.send_signal, [signal.SIGKILL])
            alarm.start()
            try:
                for line in lines:
                    found.append(line.strip())
                    if len(found) == plan.killed_at + 1:
                        time.sleep(random.Random(plan.seed).random() * 0.01)
                        job.send_signal(signal.SIGTERM)
                code = job.wait()
            finally:
                alarm.cancel()
        errors.seek(0)
        return code, found, errors.read()


@cache
def expected(workers: int) -> list[str]:
    """The losses of the same job without us."""
    with tempfile.TemporaryDirectory() as folder:
        code, found, said = losses(Plan(0, "none", workers), Path(folder))
    assert (code, len(found)) == (0, STEPS), said
    return found


def complaints(seed: int, *, read: bool = True) -> list[str]:
    """What did not hold in the run of this seed."""
    plan = drawn(seed)
    with place(plan) as folder:
        code, found, said = losses(plan, folder)
        wrong = ["it hangs"] if code == -signal.SIGKILL else []
        pairs = zip(found, [*expected(plan.workers), ""], strict=False)
        wrong += [f"the losses differ: {ours!r}, not {theirs!r}" for ours, theirs in pairs if ours != theirs][:2]
        came = {0} if plan.fails_at < 0 else {1}
        # A job that had ended when it was to be killed ends by itself.
        came |= {-signal.SIGTERM} if plan.killed_at >= 0 else set()
        if code not in came or (code == 0 and len(found) != STEPS):
            wrong.append(f"it ended with {code} after {len(found)} steps")
        if "recording failed" in said:
            wrong.append("we failed")
        wrong += [f"{path.name}: {why}" for path in traces(folder) if (why := unfit(path, read=read))]
        # Who is killed while the rest is written leaves what the next run sweeps.
        if code != -signal.SIGTERM and parts(folder):
            wrong.append(f"left: {[path.name for path in parts(folder)]}")
        return [f"{plan}: {each}\n{said[-2000:]}" for each in wrong]


def unfit(path: Path, *, read: bool) -> str:
    """Why a trace with a final name is none; `read`: our reader is to read it, too."""
    try:
        events = document(path)["traceEvents"]
        if not any(each.get("cat") == "cpu_op" for each in events) and sidecar(path).get("last_step", 1) > 0:
            return "no operator in it" if not sidecar(path).get("truncated") else ""
        if read:
            import kinetoscope

            if len(kinetoscope.read(path)) != 1:
                return "it is not one trace"
    except Exception as error:  # noqa: BLE001 - whatever it is, the file is not what it should be
        return f"{type(error).__name__}: {error}"
    return ""


@contextlib.contextmanager
def place(plan: Plan) -> Iterator[Path]:
    """A folder for the traces; on a disk of its own, and a small one, if the plan says so and this machine can."""
    with tempfile.TemporaryDirectory() as name:
        mounted = False
        if plan.tmpfs and os.geteuid() == 0:
            size = f"size={plan.tmpfs}"
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", name], capture_output=True, check=False)
            mounted = done.returncode == 0
        try:
            yield Path(name)
        finally:
            if mounted:
                subprocess.run(["umount", "-l", name], capture_output=True, check=False)


def main() -> int:
    """Run so many, from a seed on; 0 if all held."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    first = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 30)
    print(f"{count} runs from seed {first} on; one of them again: python -m tests.record.chaos 1 SEED", flush=True)
    wrong: list[int] = []
    began = time.monotonic()
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        for number, said in enumerate(pool.map(run_of, range(first, first + count)), 1):
            wrong += [first + number - 1] * bool(said)
            for each in said:
                print(each, flush=True)
            if number % 20 == 0 or number == count:
                print(f"{number} runs in {time.monotonic() - began:.0f} s, {len(wrong)} went wrong {wrong}", flush=True)
    return int(bool(wrong))


def run_of(seed: int) -> list[str]:
    """What did not hold, in whichever of the two kinds of runs it is."""
    try:
        return chaos_programs.complaints(seed) if seed % 2 else complaints(seed)
    except Exception as error:  # noqa: BLE001 - a fault of the test itself is one run's
        return [f"seed {seed}: {type(error).__name__}: {error}"]


if __name__ == "__main__":
    sys.exit(main())
