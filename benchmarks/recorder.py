"""What the recorder costs a job: `python -m benchmarks.recorder [idle] [recording] [stall] [always]`; needs torch.

idle       thread CPU time that a step costs while nothing is recorded, the dearest of our ways: at most 20 µs.
recording  steps recorded by us and by torch.profiler with the same options, in pairs whose order alternates: the upper
           bound of the ratio at most 1.03.
stall      what the training thread waits after the last step of a window, torch's own stop not counted, as a share of
           what `export_chrome_trace` to a .gz takes for the same steps: at most 0.15 for files up to 25 MB, else 0.3.
always     what `--every 50` costs a run of five minutes with a budget of 1 %, and another with 5 %: at most that, by
           the CPU time of all threads of the process; `recorder_always` says how it is measured.
"""

from __future__ import annotations

import gc
import gzip
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

_OPTIONS: Final[dict[str, Any]] = {"record_shapes": True, "profile_memory": True}

Clock = Callable[[], float]
"""Seconds: of the thread's CPU time, unless said otherwise."""

_LONG: Final = 300
"""Seconds of a long run."""


def job(width: int = 256, layers: int = 12, device: str = "cpu") -> Callable[[], None]:
    """One step of a small training loop."""
    import torch

    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width, device=device) for _ in range(layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    batch = torch.randn(64, width, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    for _ in range(5):
        step()
    return step


def idle(folder: str, steps: int = 20_000) -> float:
    """Microseconds of thread CPU time a step: a recorder, a `profile` whose cycles are over, `record --idle`.

    The last by steps of an optimizer, and by calls of a module.
    """
    from kinetoscope.record.always_on.running import ProcessRecording
    from kinetoscope.record.profile import profile
    from kinetoscope.record.session.child_config import RecordPlan, control_of
    from kinetoscope.record.session.recorder import Recorder

    recorder = Recorder(folder)
    costs = [_each(recorder.step, steps)]
    recorder.close()
    with profile(folder, wait=0, warmup=0, active=1) as prof:
        prof.step()
        prof.step()
        costs.append(_each(lambda: prof.step(samples=32), steps))
    plan = RecordPlan(dir=folder, control=str(control_of(folder)), idle=True, signal=False)
    costs.append(_called(ProcessRecording(plan), steps // 4))
    costs.append(_hooked(ProcessRecording(plan).stepped, steps // 4))
    return max(costs) * 1e6


def _each(act: Callable[[], Any], times: int) -> float:
    found = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(times):
            act()
        found.append((time.thread_time() - began) / times)
    return min(found)


def _called(recording: Any, steps: int) -> float:
    """What counting adds to a call of the module whose calls are the steps, in blocks with it and without."""
    import torch

    net, batch = torch.nn.Identity(), torch.ones(1)
    net.register_buffer("one", batch)
    recording.attach()
    for _ in range(5):
        net(batch)  # by now it is known which module it is
    pre, post = dict(net._forward_pre_hooks), dict(net._forward_hooks)
    added = []
    for _ in range(9):
        net._forward_pre_hooks.clear()
        net._forward_hooks.clear()
        without = _each(lambda: net(batch), steps // 9)
        net._forward_pre_hooks.update(pre)
        net._forward_hooks.update(post)
        added.append(_each(lambda: net(batch), steps // 9) - without)
    assert pre
    net._forward_pre_hooks.clear()
    net._forward_hooks.clear()
    return statistics.median(added)


def _hooked(hook: Callable[..., None], steps: int) -> float:
    """What a hook adds to the step of an optimizer with nothing to do: blocks with it and without, in turns."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    added = []
    for _ in range(9):
        without = _each(optimizer.step, steps // 9)
        handle = register_optimizer_step_post_hook(hook)
        added.append(_each(optimizer.step, steps // 9) - without)
        handle.remove()
    return statistics.median(added)


def recording(folder: str, pairs: int = 300, steps: int = 10) -> tuple[float, float]:
    """The ratio of ours to torch's, and the upper bound of it (95 %, by resampling the pairs)."""
    step = job()
    ways = (_ours, _theirs)
    ratios = []
    for number in range(pairs):
        order = ways if number % 2 else ways[::-1]
        took = {way: way(step, steps, folder) for way in order}
        if number >= 2:
            ratios.append(took[_ours] / took[_theirs])
    chance = random.Random(1)
    means = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), means[int(0.975 * len(means))]


def beside(folder: str, device: str, wait: Callable[[], object], rounds: int = 30, steps: int = 20) -> dict[str, float]:
    """Seconds of a step by the clock on a device: plain, with torch.profiler, with ours; medians of rounds in turns."""
    step = job(device=device)
    ways: dict[str, Callable[..., float]] = {"plain": _plain, "torch": _theirs, "ours": _ours}
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name in list(ways) if number % 2 else reversed(ways):
            seconds = ways[name](step, steps, folder, clock=lambda: (wait(), time.perf_counter())[1])
            took[name] += [seconds / (steps - 1)] if number else []  # the first of all brings the profiler up
    return {name: statistics.median(each) for name, each in took.items()}


def _plain(step: Callable[[], None], steps: int, folder: str, clock: Clock) -> float:  # noqa: ARG001 - as ours
    return _timed(step, lambda: None, steps, clock)


def _ours(step: Callable[[], None], steps: int, folder: str, clock: Clock = time.thread_time) -> float:
    from kinetoscope.record.session.options import RecordOptions
    from kinetoscope.record.session.recorder import Recorder

    recorder = Recorder(folder, RecordOptions(**_OPTIONS), say=lambda _: None)
    recorder.start_window(0, steps + 1)
    took = _timed(step, recorder.step, steps, clock)
    recorder.discard()
    recorder.close()
    return took


def _theirs(
    step: Callable[[], None],
    steps: int,
    folder: str,  # noqa: ARG001 - as ours
    clock: Clock = time.thread_time,
) -> float:
    import torch

    schedule = torch.profiler.schedule(wait=0, warmup=0, active=steps + 1)
    profiler = torch.profiler.profile(schedule=schedule, **_OPTIONS)
    profiler.start()
    took = _timed(step, profiler.step, steps, clock)
    profiler.stop()
    return took


def _timed(step: Callable[[], None], end: Callable[[], None], steps: int, clock: Clock) -> float:
    """Seconds of so many steps, after one that is not counted."""
    gc.collect()  # what the other one left is not ours to pay for
    step()
    end()
    began = clock()
    for _ in range(steps - 1):
        step()
        end()
    return clock() - began


def stall(folder: str, steps: int, rounds: int = 3) -> tuple[float, float, float, float]:
    """Megabytes of JSON; ms of torch's stop, our stall, torch's export to .gz (the least of each)."""
    import torch

    from kinetoscope.record.output.writing import WindowOutcome
    from kinetoscope.record.session.options import RecordOptions
    from kinetoscope.record.session.recorder import Recorder

    step = job(width=16)
    target = Path(folder) / "theirs.json.gz"
    stops, stalls, exports = [], [], []
    for _ in range(rounds):
        told: list[WindowOutcome] = []
        recorder = Recorder(folder, RecordOptions(**_OPTIONS), say=print)
        recorder.start_window(0, steps, told.append)
        for _ in range(steps):
            step()
            recorder.step()
        recorder.close()
        stops.append(told[0].stop_seconds)
        stalls.append(told[0].stall_seconds)
        profiler = torch.profiler.profile(**_OPTIONS)
        profiler.start()
        for _ in range(steps):
            step()
        profiler.stop()
        began = time.perf_counter()
        profiler.export_chrome_trace(str(target))
        exports.append(time.perf_counter() - began)
    size = len(gzip.decompress(target.read_bytes()))
    return size / 1e6, min(stops) * 1e3, min(stalls) * 1e3, min(exports) * 1e3


def always(budget: float) -> dict[str, Any]:
    """What `recorder_always` tells of a long run with this budget."""
    command = [sys.executable, "-m", "benchmarks.recorder_always", str(_LONG), str(budget)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> int:
    """Measure what is asked for; 0 if all of it is within its limit."""
    asked = sys.argv[1:] or ["idle", "recording", "stall", "always"]
    warnings.simplefilter("ignore")
    held = True
    with tempfile.TemporaryDirectory() as folder:
        if "idle" in asked:
            cost = idle(folder)
            held &= cost <= 20
            print(f"idle: {cost:.2f} µs of thread CPU time a step (at most 20)")
        if "recording" in asked:
            middle, upper = recording(folder)
            held &= upper <= 1.03
            print(f"recording: {middle:.4f} of torch.profiler, upper bound {upper:.4f} (at most 1.03)")
        for steps in (10, 60, 200) if "stall" in asked else ():
            size, stop, wait, export = stall(folder, steps)
            limit = 0.15 if size <= 25 else 0.3
            held &= wait / export <= limit
            said = f"{size:.1f} MB: torch's stop {stop:.0f} ms; then {wait:.1f} ms, which is {wait / export:.3f}"
            print(f"stall: {said} of torch's export to .gz, {export:.0f} ms (at most {limit})")
        for budget in (0.01, 0.05) if "always" in asked else ():
            told = always(budget)
            held &= told["cpu"] <= budget
            said = f"{told['cpu']:.2%} of {told['seconds']:.0f} s ({told['clock']:.2%} by the clock)"
            print(f"always: {said}, {told['windows']} windows of {told['steps']} steps (at most {budget:.0%})")
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
