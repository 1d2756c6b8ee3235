"""The page in a real browser: how long until it is drawn, what panning costs, how much memory it takes.

    python -m benchmarks.page                        all of it: about five minutes
    python -m benchmarks.page --trace T --filter overview

Each line starts a server of its own, `kinetoscope view`, and a Chromium. Needs Playwright for Python and a Chromium
(`$CHROMIUM`, else what is on the path). Frames are measured by the page: work of the main thread between a frame's
begin and its end. Machines with a GPU draw faster; here frames are drawn by the processor.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.data import FOLDER, large, source
from benchmarks.run import RESULTS, machine

_SAMPLES = 3
_EVENTS = 10_000_000
_POINTS = 20_000
_SNAPSHOT_EVENTS = 8_000_000
_WAIT = 120_000  # ms


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what was measured, the value, its unit, the limit, a remark."""

    name: str
    value: float
    unit: str
    limit: float
    remark: str = ""

    @property
    def kept(self) -> bool:
        """Is it within its limit?"""
        return self.value <= self.limit


@dataclass(frozen=True, slots=True)
class Opened:
    """A server, a page, and when the command was typed."""

    page: Any
    address: str
    began: float

    def go(self, view: str, query: str = "") -> None:
        """Another view of the only run."""
        run = self.page.evaluate("fetch('api/runs').then(r => r.json()).then(r => r.runs[0].id)")
        self.page.evaluate("hash => { location.hash = hash }", f"#/{run}/{view}{query}")


@contextmanager
def opened(browser: Any, path: Path) -> Iterator[Opened]:
    """`kinetoscope view PATH`, and the page that it prints, in a browser that is running already."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    began = time.perf_counter()
    command = [sys.executable, "-m", "kinetoscope", "view", str(path), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[1]
        page.goto(address)
        yield Opened(page, address, began)
    finally:
        page.close()
        server.terminate()
        server.communicate()


def drawn(page: Any, sentence: str) -> None:
    """Wait until the view's sentence and its first picture are there."""
    page.wait_for_function(
        "text => document.querySelector('h1')?.textContent.includes(text)", arg=sentence, timeout=_WAIT
    )
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def overview(browser: Any, trace: Path) -> Iterator[Row]:
    """From the command to the drawn Overview, code compiled before."""
    took = []
    for _ in range(_SAMPLES + 1):
        with opened(browser, trace) as opened_:
            drawn(opened_.page, "step")
            took.append(time.perf_counter() - opened_.began)
    best = ", ".join(f"{seconds:.2f}" for seconds in took[1:])
    yield Row(
        "overview drawn", statistics.median(took[1:]), "s", 3.0, f"{trace.stat().st_size / 1e6:.0f} MB file; {best}"
    )


def timeline(browser: Any, trace: Path) -> Iterator[Row]:
    """Panning and zooming ten million events, dragging a selection over them: frames, and the heap afterwards."""
    events = _count(trace)
    path = large(trace, ".json.gz", repeat=max(1, round(_EVENTS / events)))
    with opened(browser, path) as opened_:
        page = opened_.page
        page.wait_for_function("() => !!document.querySelector('h1')", timeout=_WAIT)
        opened_.go("timeline")
        page.wait_for_selector("canvas", timeout=_WAIT)
        page.wait_for_timeout(5_000)
        remark = f"{events * max(1, round(_EVENTS / events)):,} events"
        yield from _dragged(page, remark)
        yield from _moved(page, remark)


_FRAMES = """() => {
  const frames = [];
  window.benchmarkFrames = frames;
  const next = now => { frames.push(now); if (window.benchmarkFrames === frames) requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def _dragged(page: Any, remark: str) -> Iterator[Row]:
    """A selection is dragged over all lanes in sight and back, then let go."""
    page.wait_for_function("() => document.querySelector('.tl-stage')?.dataset.waiting === '0'", timeout=_WAIT)
    page.evaluate("performance.clearMeasures()")
    canvas = page.locator(".tl-stage").bounding_box()
    left, top = canvas["x"] + 200, canvas["y"] + 90
    wide, tall = canvas["width"] - 240, canvas["height"] - 120
    page.mouse.move(left, top)
    page.mouse.down()
    page.evaluate(_FRAMES)
    for move in range(300):
        share = 1 - abs(1 - 2 * ((move + 1) / 200 % 1))
        page.mouse.move(left + share * wide, top + share * tall)
        page.wait_for_timeout(8)
    page.mouse.move(left + wide, top + tall)
    frames = page.evaluate("() => { const all = window.benchmarkFrames; window.benchmarkFrames = null; return all; }")
    between = sorted(after - before for before, after in pairwise(frames))
    costs = sorted(page.evaluate("performance.getEntriesByName('timeline-frame').map(each => each.duration)"))
    high, cost = between[int(0.95 * len(between))], costs[int(0.95 * len(costs))]
    said = f"{len(between)} frames, longest {between[-1]:.0f} ms; {remark}"
    yield Row("between frames of a drag, p95", high, "ms", 17.0, said)
    yield Row("work in a frame of it, p95", cost, "ms", 8.0, remark)
    began = time.perf_counter()
    with page.expect_response(lambda response: "/timeline/area" in response.url) as first:
        page.mouse.up()
    page.locator(".tl-area .grid-body .grid-row").first.wait_for()
    took = 1000 * (time.perf_counter() - began)
    timing = first.value.request.timing
    said = f"{timing['responseStart'] - timing['requestStart']:.0f} ms of it at the server; {remark}"
    yield Row("table of the area, the first", took, "ms", 5000.0, said)
    with page.expect_response(lambda response: "by=lane" in response.url) as another:
        began = time.perf_counter()
        page.locator(".tl-area .segments button", has_text="Lane").last.click()
    took = 1000 * (time.perf_counter() - began)
    timing = another.value.request.timing
    said = f"{timing['responseStart'] - timing['requestStart']:.0f} ms of it at the server; {remark}"
    yield Row("table of the area, another", took, "ms", 500.0, said)
    page.locator(".tl-stage").focus()
    page.keyboard.press("Escape")


def _moved(page: Any, remark: str) -> Iterator[Row]:
    page.evaluate("performance.clearMeasures()")
    canvas = page.locator("canvas").last.bounding_box()
    page.mouse.move(canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 3)
    for key, times in (("w", 14), ("d", 20), ("s", 10), ("a", 20), ("w", 20), ("d", 20), ("s", 40)):
        for _ in range(times):
            page.keyboard.press(key)
            page.wait_for_timeout(30)
    page.wait_for_timeout(1_000)
    frames = page.evaluate("performance.getEntriesByName('timeline-frame').map(each => each.duration)")
    costs = sorted(frames)
    if not costs:
        raise SystemExit("the timeline measured no frame")
    p95 = costs[min(len(costs) - 1, int(0.95 * len(costs)))]
    yield Row("timeline frame, p95", p95, "ms", 8.0, f"{len(costs)} frames, longest {costs[-1]:.1f} ms; {remark}")
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    held = (usage["usedSize"] + usage.get("backingStorageSize", 0)) / 1e6
    yield Row("browser's heap", held, "MB", 250.0, remark)


def gigabyte(browser: Any, trace: Path) -> Iterator[Row]:
    """A trace of 1 GB of text: until the Overview and the timeline can be used."""
    path = large(trace, ".json.gz", size=1_000_000_000)
    for view in ("overview", "timeline"):
        with opened(browser, path) as opened_:
            page = opened_.page
            if view == "timeline":
                opened_.go("timeline")
                page.wait_for_selector("canvas", timeout=_WAIT)
                drawn(page, "In view")
            else:
                drawn(page, "step")
            seconds = time.perf_counter() - opened_.began
        yield Row(f"1 GB, {view} usable", seconds, "s", 10.0, f"{path.stat().st_size / 1e6:.0f} MB packed")


def roofline(browser: Any, _: Path) -> Iterator[Row]:
    """Panning a roofline of 20,000 points: what passes between frames."""
    path = FOLDER / f"roofline-{_POINTS}.json.gz"
    if not path.exists():
        _draw_points(path)
    with opened(browser, path) as opened_:
        page = opened_.page
        page.wait_for_function("() => !!document.querySelector('h1')", timeout=_WAIT)
        opened_.go("efficiency")
        canvas = page.locator(".block-roofline canvas")
        canvas.wait_for(timeout=_WAIT)
        page.wait_for_timeout(2_000)
        box = canvas.bounding_box()
        left, top = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.get_by_role("button", name="Zoom in").click()
        page.mouse.move(left, top)
        page.mouse.down()
        page.evaluate(_FRAMES)
        for move in range(200):
            share = 1 - abs(1 - 2 * (move / 100 % 1))
            page.mouse.move(left - 300 * share, top + 90 * share)
            page.wait_for_timeout(8)
        frames = page.evaluate(
            "() => { const all = window.benchmarkFrames; window.benchmarkFrames = null; return all; }"
        )
        page.mouse.up()
        between = sorted(after - before for before, after in pairwise(frames))
        said = f"{len(between)} frames, longest {between[-1]:.0f} ms; {_POINTS:,} points"
        yield Row("between frames of a roofline, p99", between[int(0.99 * len(between))], "ms", 17.0, said)


def snapshot(browser: Any, _: Path) -> Iterator[Row]:
    """A memory snapshot of eight million events: until its memory can be used, and what passes between frames."""
    from tests.snapshots.large import write_large

    path = FOLDER / f"snapshot-{_SNAPSHOT_EVENTS}.pickle"
    if not path.exists():
        write_large(path, events=_SNAPSHOT_EVENTS)
    with opened(browser, path) as opened_:
        page = opened_.page
        page.wait_for_function(
            "() => +document.querySelector('.bands')?.dataset.drawn > 0 && !!document.querySelector('.heap')",
            timeout=_WAIT,
        )
        remark = f"{path.stat().st_size / 1e6:.0f} MB, {_SNAPSHOT_EVENTS:,} events"
        yield Row("snapshot, memory usable", time.perf_counter() - opened_.began, "s", 25.0, remark)
        page.wait_for_timeout(2_000)
        box = page.locator(".bands canvas").bounding_box()
        page.mouse.move(box["x"] + 100, box["y"] + 10)
        page.mouse.down()
        page.evaluate(_FRAMES)
        for move in range(200):
            page.mouse.move(box["x"] + 100 + 900 * (1 - abs(1 - 2 * (move / 100 % 1))), box["y"] + 10)
            page.wait_for_timeout(8)
        frames = page.evaluate(
            "() => { const all = window.benchmarkFrames; window.benchmarkFrames = null; return all; }"
        )
        page.mouse.up()
        between = sorted(after - before for before, after in pairwise(frames))
        said = f"{len(between)} frames, longest {between[-1]:.0f} ms; {remark}"
        yield Row("between frames of a scrub, p95", between[int(0.95 * len(between))], "ms", 17.0, said)


def _draw_points(path: Path) -> None:
    """A trace of an H100 with so many distinct shapes of products, sums and copies."""
    events: list[dict[str, Any]] = []
    for at in range(_POINTS):
        name = ("aten::mm", "aten::add", "aten::copy_")[at % 3]
        rows, columns = 64 * (1 + at // 3 % 90), 64 * (1 + at // 270)
        inner = 64 * (1 + at % 61)
        dims = (
            [[rows, inner], [inner, columns]] if at % 3 == 0 else [[rows, columns + at % 2], [rows, columns + at % 2]]
        )
        floor = max(2 * rows * inner * columns / 989e6, 6 * rows * columns / 3.35e6) * (1.1 + at * 7919 % 97 / 16) + 2
        common = {"ph": "X", "pid": 1, "tid": 1, "ts": 10 * at}
        args = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * 2, "External id": at + 1}
        events += [
            {**common, "cat": "cpu_op", "name": name, "dur": 9, "args": args},
            {**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10 * at + 1, "dur": 2}
            | {"args": {"correlation": at + 1}},
            {"ph": "X", "cat": "kernel", "name": f"{name[6:]}_kernel", "pid": 0, "tid": 7, "ts": 1e6 * (at + 1)}
            | {"dur": round(floor, 3), "args": {"correlation": at + 1, "device": 0, "stream": 7}},
        ]
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "numSms": 132}
    with gzip.open(path, "wt") as file:
        json.dump({"deviceProperties": [device], "traceEvents": events}, file)


TASKS: dict[str, Callable[[Any, Path], Iterator[Row]]] = {
    "overview": overview,
    "timeline": timeline,
    "gigabyte": gigabyte,
    "roofline": roofline,
    "snapshot": snapshot,
}


def _count(trace: Path) -> int:
    from kinetoscope.reading import read

    return len(read(str(trace)).trace())


def main(arguments: Sequence[str] | None = None) -> int:
    from playwright.sync_api import sync_playwright

    from tests.web.browser import ABSENT, chromium

    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--filter", default="", help=f"only those of {', '.join(TASKS)} with this text")
    parser.add_argument("--trace", type=Path, help="a real trace, instead of the demo's with a drawn device")
    given = parser.parse_args(arguments)
    if (program := chromium()) is None:
        raise SystemExit(ABSENT)
    FOLDER.mkdir(exist_ok=True)
    trace = given.trace or source()
    rows = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, task in TASKS.items():
            if given.filter in name:
                for row in task(browser, trace):
                    rows.append(row)
                    mark = "" if row.kept else f"  above {row.limit:g}"
                    print(f"{row.name:<28}{row.value:8.2f} {row.unit:<3}{mark:<12} {row.remark}", flush=True)
        browser.close()
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"page-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(json.dumps({"machine": machine(), "rows": [asdict(row) for row in rows]}, indent=1))
    print(f"kept in {kept}")
    return int(any(not row.kept for row in rows))


if __name__ == "__main__":
    sys.exit(main())
