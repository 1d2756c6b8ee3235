"""What always-on recording costs a long run: `python -m benchmarks.recorder_always SECONDS BUDGET`, a JSON object.

A loop trains under the same code that `kinetoscope record --every 50 --budget BUDGET` puts into it. A step in which a
window was open, or a trace was being written, costs what it took beyond the mean of the steps around it that were left
alone: so what else this machine does at that moment does not count, nor what drifts. Taken twice: by the CPU time of
all threads of the process (another thread delays the one that trains by that much at the most), and by the clock. What
a step costs that is left alone is not in this; `idle` of `benchmarks.recorder` measures it.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

_NEAR: Final = 50
"""Steps before, and as many after, that say what a step would have taken."""

EVERY: Final = 50


def steps(seconds: float, budget: float, folder: str) -> tuple[list[tuple[float, float, bool]], int, float]:
    """CPU and clock seconds of each step, and whether recording was at work in it; windows; the recorder's estimate."""
    from benchmarks.recorder import job
    from kinetoscope.record.always_on import running
    from kinetoscope.record.session.child_config import RecordPlan, control_of

    step = job()
    plan = RecordPlan(dir=folder, control=str(control_of(folder)), every=EVERY, budget=budget, signal=False)
    running.begin(plan.as_text())
    step()
    work: Any = running._current._job  # type: ignore[union-attr]
    recorder = work._recorder
    found = []
    end = time.perf_counter() + seconds
    cpu, clock = time.process_time(), time.perf_counter()
    while clock < end:
        before = recorder.state != "idle" or recorder.writing > 0
        step()
        after = recorder.state != "idle" or recorder.writing > 0
        cpu_now, clock_now = time.process_time(), time.perf_counter()
        found.append((cpu_now - cpu, clock_now - clock, before or after))
        cpu, clock = cpu_now, clock_now
    recorder.discard()
    recorder.flush()
    count = len(list((Path(plan.control) / "written").iterdir()))
    return found, count, work._always.cost(time.monotonic())


def share(took: list[tuple[float, bool]]) -> float:
    """What the steps at which recording was at work took beyond those around them, of all the time."""
    alone = [place for place, (_, busy) in enumerate(took) if not busy]
    lost, at = 0.0, 0
    for place, (seconds, busy) in enumerate(took):
        while at < len(alone) and alone[at] < place:
            at += 1
        if busy:
            near = alone[max(at - _NEAR, 0) : at + _NEAR]
            lost += seconds - sum(took[each][0] for each in near) / len(near)
    return lost / sum(seconds for seconds, _ in took)


def main() -> None:
    """Run, and tell."""
    seconds, budget = float(sys.argv[1]), float(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        found, windows, told = steps(seconds, budget, folder)
    by_cpu = share([(cpu, busy) for cpu, _, busy in found])
    by_clock = share([(clock, busy) for _, clock, busy in found])
    facts = {"steps": len(found), "windows": windows, "cpu": by_cpu, "clock": by_clock, "told": told}
    print(json.dumps({"seconds": sum(clock for _, clock, _ in found), **facts}))


if __name__ == "__main__":
    main()
