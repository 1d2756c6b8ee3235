"""Programs that do what programs do, as `kinetoscope record` records them and without it: the other half of `chaos`.

A loop of steps, in which one thing happens at one moment, both drawn from the seed: forks with every end of the child,
processes of multiprocessing, profilers of the program's own, evaluation, threads that train, signals, every way to die,
and a long tail after the last step. What must hold: result, output and exit code are those of the plain run, and time
and memory are near to it.
"""

from __future__ import annotations

import json
import random
import re
import signal
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.record.jobs import Done, parts, recorded, traces

STEPS: Final = 10
MEMORY: Final = 200_000_000
"""What a window may take."""

SPARE: Final = 150_000_000
"""What the recorder itself and the noise of a heap take beside it, bytes."""

SLOWER: Final = 60.0
"""Seconds beyond ten times the plain run: for a machine that is busy; what hangs takes for ever."""

PROGRAM: Final = """
import atexit, ctypes, hashlib, json, multiprocessing, os, random, resource, signal, sys, threading, time
plan = json.loads(os.environ["CHAOS"])
import torch
torch.manual_seed(3)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters())
small = torch.nn.Linear(4, 4)
seen = []
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def ends(code):  # as an interpreter ends, with what C does then
    atexit._run_exitfuncs(); sys.stdout.flush(); ctypes.CDLL(None).exit(code)
def child(what):
    if what == "exec": os.execv("/bin/true", ["true"])
    if what == "module": net(torch.ones(4, 8)); ends(0)
    if what == "train":
        for _ in range(4): net(torch.ones(4, 8)).sum().backward(); optimizer.step()
        ends(3)
    if what == "profile":
        with torch.profiler.profile() as own: small(torch.ones(2, 4))
        ends(len(own.key_averages()))
    if what == "fork":
        other = os.fork()
        if not other: child("module")
        ends(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
    os._exit(5)
def fork(what):
    made = os.fork()
    if not made: child(what)
    say("child", os.waitstatus_to_exitcode(os.waitpid(made, 0)[1]))
def process(how):
    made = multiprocessing.get_context(how).Process(target=os._exit, args=(4,))
    made.start(); made.join()
    say(how, made.exitcode)
def profiler(how):
    kinds = {"torch": torch.profiler.profile, "autograd": torch.autograd.profiler.profile,
             "stack": lambda: torch.profiler.profile(with_stack=True), "itt": torch.autograd.profiler.emit_itt}
    with kinds[how]() as own:
        for _ in range(3): small(torch.ones(2, 4))
    events = [] if how == "itt" else own.events() if how != "autograd" else own.function_events
    say(how, sorted(each.name for each in events if each.name.startswith("aten::")))
def evaluate(_):
    with torch.no_grad(): say(sum(float(net(torch.ones(4, 8)).sum()) for _ in range(100)))
def thread(how):
    def work():
        parameter = torch.nn.Parameter(torch.ones(3))
        other = torch.optim.SGD([parameter], 0.1)
        for _ in range(6): (parameter ** 2).sum().backward(); other.step(); time.sleep(0.001)
        seen.append(parameter.sum().item())
    made = threading.Thread(target=work)
    made.start()
    if how == "join": made.join()
    threads.append(made)
threads = []
def sent(what):
    if what == "handled":
        signal.signal(signal.SIGTERM, lambda *_: say("handled"))
        os.kill(os.getpid(), signal.SIGTERM)
    elif what == "alarms":
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    elif what == "ignored":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        os.kill(os.getpid(), getattr(signal, what))
        time.sleep(5)
def die(how):
    if how == "exit": sys.exit(6)
    if how == "_exit": os._exit(6)
    if how == "raise": raise KeyError("on purpose")
    if how == "abort": os.abort()
def tail(_): pass
act = {"fork": fork, "process": process, "profiler": profiler, "evaluate": evaluate, "thread": thread, "sent": sent,
       "die": die, "tail": tail, "schedule": tail}[plan["what"]]
def moment(step, name):
    if [step, name] == [plan["step"], plan["moment"]]: act(plan["how"])
def step(number):
    optimizer.zero_grad()
    moment(number, "before")
    loss = net(torch.ones(4, 8) * number).square().mean()
    moment(number, "forward")
    loss.backward()
    moment(number, "backward")
    optimizer.step()
    moment(number, "after")
    return loss.item().hex()
def digest():
    text = hashlib.sha256()
    for each in net.parameters():
        text.update(each.detach().numpy().tobytes())
    return text.hexdigest()
if plan["what"] == "schedule":
    wait, warmup, active = plan["how"]
    said = lambda own: say(sorted(each.name for each in own.events() if each.name.startswith("aten::")))
    with torch.profiler.profile(schedule=torch.profiler.schedule(wait=wait, warmup=warmup, active=active),
                                on_trace_ready=said) as own:
        for number in range(plan["steps"]): say(step(number)); own.step()
else:
    for number in range(plan["steps"]): say(step(number))
signal.setitimer(signal.ITIMER_REAL, 0)
if plan["what"] == "tail":
    weights, until = torch.zeros(4096, dtype=torch.uint8), time.monotonic() + 1.5
    while time.monotonic() < until: sum(int(weights[number]) for number in range(1000))
for each in threads: each.join()
say(seen, digest())
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, file=sys.stderr)
"""

_WHAT: Final[dict[str, tuple[Any, ...]]] = {
    "fork": ("exec", "module", "train", "profile", "fork", "_exit"),
    "process": ("fork", "spawn", "forkserver"),
    "profiler": ("torch", "autograd", "stack", "itt"),
    "schedule": ((1, 1, 1), (0, 0, 2), (0, 2, 2), (2, 1, 3), (3, 2, 1)),
    "evaluate": ("",),
    "thread": ("join", "beside"),
    "sent": ("handled", "ignored", "alarms", "SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"),
    "die": ("exit", "_exit", "raise", "abort"),
    "tail": ("",),
}


@dataclass(frozen=True)
class Happening:
    """What happens in one run, and how it is recorded."""

    seed: int
    what: str
    how: Any
    step: int
    moment: str
    steps: int
    fresh: bool
    record: dict[str, Any] = field(default_factory=dict)


def drawn(seed: int) -> Happening:
    """The happening of a seed."""
    chance = random.Random(seed)
    what = chance.choice((*_WHAT, "fork", "profiler"))
    options = {
        "with_stack": chance.random() < 0.2,
        "all_threads": chance.random() < 0.1,
        "max_memory": MEMORY,
    }
    return Happening(
        seed=seed,
        what=what,
        how=chance.choice(_WHAT[what]),
        step=chance.randrange(STEPS),
        moment=chance.choice(("before", "forward", "backward", "after")),
        steps=chance.choice((3, 4)) if what == "tail" else STEPS,
        fresh=chance.random() < 0.03,
        record={
            "wait": chance.choice((1, 1, 2)),
            "warmup": chance.randrange(2),
            "active": 1 + chance.randrange(5),
            "repeat": chance.randrange(3),
            "spans": chance.random() < 0.8,
            "options": options,
        },
    )


WATCHED: Final = {"hang": True, "hang_after": 0.05}
"""The plan of a watch for which each step hangs, so that it writes again and again."""


def complaints(seed: int, **plan: Any) -> list[str]:
    """What did not hold in the run of this seed; `plan`: what else is asked of the recorder."""
    from tests.record.chaos import unfit

    happening = drawn(seed)
    text = json.dumps(asdict(happening))
    program = f"import os; os.environ['CHAOS'] = {text!r}\n{PROGRAM}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain, plainly = _timed(program, None, happening, plan)
        ours, took = _timed(program, folder, happening, plan)
        wrong = _differences(plain, ours)
        if took > 10 * plainly + SLOWER:
            wrong.append(f"it took {took:.1f} s, and {plainly:.1f} s without us")
        if "recording failed" in ours.err or ours.err.count("Traceback") != plain.err.count("Traceback"):
            wrong.append("we failed")
        wrong += [f"{path.name}: {why}" for path in traces(folder) if (why := unfit(path, read=seed % 4 == 0))]
        if ours.code >= 0 and happening.how not in ("_exit", "SIGKILL") and (left := parts(folder)):
            wrong.append(f"left: {[path.name for path in left]}")
        return [f"{happening}: {each}\n{ours.err[-2000:]}" for each in wrong]


def _timed(program: str, folder: Path | None, happening: Happening, plan: dict[str, Any]) -> tuple[Done, float]:
    began = time.monotonic()
    record = {**happening.record, **plan} if folder is not None else {}
    return recorded(program, folder, fresh=happening.fresh, **record), time.monotonic() - began


def _differences(plain: Done, ours: Done) -> list[str]:
    wrong = [] if ours.code == plain.code else [f"it ended with {_ended(ours)}, not {_ended(plain)}"]
    if ours.out != plain.out:
        pairs = zip([*ours.out.splitlines(), ""], [*plain.out.splitlines(), ""], strict=False)
        wrong.append("the output differs: " + next((f"{a!r}, not {b!r}" for a, b in pairs if a != b), "its length"))
    grown = _peak(ours) - _peak(plain)
    if _peak(plain) and grown > MEMORY + SPARE:
        wrong.append(f"it took {grown >> 20} MB more")
    return wrong


def _ended(done: Done) -> str:
    return signal.Signals(-done.code).name if done.code < 0 else str(done.code)


def _peak(done: Done) -> int:
    found = re.search(r"^peak (\d+)$", done.err, re.MULTILINE)
    return int(found[1]) if found else 0
