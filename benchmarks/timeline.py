"""The timeline of a large trace: what opening it costs, and then each tile, search, event and range.

    python -m benchmarks.timeline                     ten million events, made of the demo's trace
    python -m benchmarks.timeline --trace T           made of the trace T
    python -m benchmarks.timeline --events 1000000    fewer of them; the file is kept in .data/ and made once

Tiles are asked for at every scale, from single nanoseconds to all in one, at random places, with all lanes and
counters, as the server makes them; the time to send them is not in it. Beside the time that passed stands that of the
processor: where the machine has other work to do, the first says little.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks import data
from benchmarks.measure import measured
from benchmarks.run import RESULTS, machine

_MB, _MS = 1e6, 1e3
_EVENTS = 10_000_000
_PLACES = 40
_TILE, _SEARCH, _AREA, _OPEN = 0.030, 0.050, 0.100, 10.0
_WORDS = "addmm", "conv", "backward", "a", "nowhere to be found"


@dataclass(frozen=True, slots=True)
class Row:
    """One line: what was done; seconds that passed (middle, 95th percentile, greatest) and of the processor (95th)."""

    name: str
    middle: float
    high: float
    greatest: float
    processor: float
    remark: str = ""
    limit: float | None = None

    @property
    def kept(self) -> bool | None:
        """Whether it kept its limit; None if it has none."""
        return None if self.limit is None else self.high <= self.limit


class _Clock:
    """Takes times of calls and makes lines of them."""

    def __init__(self) -> None:
        self.passed: list[float] = []
        self.processor: list[float] = []

    def __call__(self, call: Callable[[], Any]) -> Any:
        passed, processor = time.perf_counter(), time.process_time()
        answer = call()
        self.passed.append(time.perf_counter() - passed)
        self.processor.append(time.process_time() - processor)
        return answer

    def row(self, name: str, remark: str = "", limit: float | None = None) -> Row:
        passed, processor = sorted(self.passed), sorted(self.processor)
        high = min(int(0.95 * len(passed)), len(passed) - 1)
        return Row(name, passed[len(passed) // 2], passed[high], passed[-1], processor[high], remark, limit)


def _once(name: str, call: Callable[[], Any], remark: Callable[[Any], str] = lambda _: "") -> tuple[Row, Any]:
    clock = _Clock()
    answer = clock(call)
    return clock.row(name, remark(answer)), answer


def work(path: str) -> list[Row]:
    """All of it, in this process."""
    from kinetoscope.model.execution.call_tree import call_tree
    from kinetoscope.model.execution.device_work import device_work
    from kinetoscope.model.steps.steps import steps
    from kinetoscope.model.timeline.layout import timeline
    from kinetoscope.model.trace.trace import Trace
    from kinetoscope.reading import read
    from kinetoscope.server.timeline.lanes import lanes_answer, named
    from kinetoscope.server.timeline.tile import tile

    def known(trace: Trace) -> None:
        for derive in (call_tree, device_work, steps):
            derive(trace)

    row, trace = _once("read", lambda: read(path, jobs=1).trace(), lambda trace: f"{len(trace):,} events")
    rows = [row]
    rows.append(_once("call tree, links, steps", lambda: known(trace))[0])
    row, found = _once("lay out lanes and marks", lambda: timeline(trace))
    size = _bytes(found) / max(len(found.pyramid.order), 1)
    rows.append(Row(**{**asdict(row), "remark": f"{len(found.lanes)} lanes, {size:.0f} bytes a mark"}))
    rows.append(_once("lanes and minimap", lambda: lanes_answer([trace], ""))[0])
    lanes, counters = named(trace, None)
    scale = max(found.end // 1024, 1).bit_length()
    rows.append(_once("first tile, without counters", lambda: tile(trace, scale, 0, lanes, []))[0])
    opened = sum(row.greatest for row in rows)
    rows.append(Row("until there is something to see", opened, opened, opened, sum(row.processor for row in rows)))
    rows.append(_once("first tile with counters", lambda: tile(trace, scale, 0, lanes, counters))[0])
    rows += _tiles(trace, found.end, scale, lanes, counters)
    return rows + _questions(trace, found.end)


def _bytes(found: Any) -> int:
    """Of what is kept beyond the trace."""
    kept = found.pyramid
    arrays = (kept.order, kept.rows, *kept.spans, *kept.nodes, found.depth, found.layer)
    return sum(array.nbytes for array in arrays)


def _tiles(trace: Any, end: int, top: int, lanes: Any, counters: Any) -> list[Row]:
    from kinetoscope.server.timeline.tile import tile

    chance = random.Random(0)
    rows, every = [], _Clock()
    for scale in range(top + 1):
        clock, largest = _Clock(), 0
        for _ in range(_PLACES):
            number = chance.randrange((end >> (scale + 10)) + 1)
            body = clock(lambda scale=scale, number=number: tile(trace, scale, number, lanes, counters))  # type: ignore[misc]
            largest = max(largest, len(body))
        rows.append(clock.row(f"tiles of 1024 × 2^{scale} ns", f"{largest / 1e3:,.0f} kB at most", _TILE))
        every.passed += clock.passed
        every.processor += clock.processor
    return [every.row("tiles of all scales", limit=_TILE), *rows]


def _questions(trace: Any, end: int) -> list[Row]:
    from kinetoscope.model.timeline.area import GROUPINGS, LanesOfRank, area_table
    from kinetoscope.model.timeline.event import event_details
    from kinetoscope.model.timeline.layout import timeline
    from kinetoscope.model.timeline.search import hits, search
    from kinetoscope.server.json_encoding import to_json
    from kinetoscope.server.timeline.range import range_answer

    first, another, following, event, part, area = _Clock(), _Clock(), _Clock(), _Clock(), _Clock(), _Clock()
    first(lambda: search(trace, hits(trace, "first"), None, "next", None, None))
    for word in _WORDS:
        row = another(lambda word=word: search(trace, hits(trace, word), None, "next", None, None)).row  # type: ignore[misc]
        for _ in range(20 if row is not None else 0):
            row = following(lambda word=word, row=row: search(trace, hits(trace, word), row, "next", None, None)).row  # type: ignore[misc]
    chance = random.Random(1)
    drawn = timeline(trace).pyramid.order
    one = _once("first event", lambda: to_json(event_details(trace, int(drawn[0]))))[0]
    for place in (chance.randrange(len(drawn)) for _ in range(_PLACES)):
        event(lambda place=place: to_json(event_details(trace, int(drawn[place]))))  # type: ignore[misc]
    whole = _once("first range", lambda: range_answer(trace, 0, end))[0]
    for begin in (chance.randrange(max(end - end // 100, 1)) for _ in range(_PLACES)):
        part(lambda begin=begin: range_answer(trace, begin, begin + max(end // 100, 1)))  # type: ignore[misc]
    lanes = timeline(trace).lanes
    table = _once("first area", lambda: area_table([LanesOfRank(trace, lanes, 0, 1)], "name"))[0]
    for by in GROUPINGS:
        area(lambda by=by: area_table([LanesOfRank(trace, lanes, 0, end)], by))  # type: ignore[misc]
    return [
        table,
        area.row("area of all events", limit=_AREA),
        first.row("first search"),
        another.row("search for another name", limit=_SEARCH),
        following.row("next hit", limit=_SEARCH),
        one,
        event.row("another event"),
        whole,
        part.row("range of a hundredth"),
    ]


def line(row: Row) -> str:
    """As it is printed."""
    verdict = {True: "kept", False: "NOT KEPT", None: ""}[row.kept]
    times = " ".join(f"{_MS * value:>9,.1f}" for value in (row.middle, row.high, row.greatest, row.processor))
    return f"{row.name:<32} {times}  {verdict:<8} {row.remark}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.timeline", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--trace", type=Path, help="what the large trace is made of; by default the demo with a device")
    parser.add_argument("--events", type=int, default=_EVENTS, help="events of the large trace (10000000)")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.work:
        print(json.dumps([asdict(row) for row in work(given.work)]))
        return 0
    source = given.trace or data.source()
    path = data.large(source, ".json.gz", repeat=_copies(source, given.events))
    found = measured([sys.executable, "-m", "benchmarks.timeline", "--work", path])
    if found.status != "done":
        raise SystemExit(f"{found.status}\n{found.error}")
    rows = [Row(**row) for row in json.loads(found.out.splitlines()[-1])]
    print(f"{path.name}: {data.json_size(path) / _MB:,.0f} MB of JSON; peak {found.peak / _MB:,.0f} MB")
    print(f"{'ms':<32} {'p50':>9} {'p95':>9} {'max':>9} {'cpu p95':>9}")
    print("\n".join(map(line, rows)))
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"timeline-{time.strftime('%Y%m%d-%H%M%S')}.json"
    kept.write_text(
        json.dumps({"machine": machine(), "peak": found.peak, "rows": [asdict(row) for row in rows]}, indent=1)
    )
    print(f"kept in {kept}")
    return int(any(row.kept is False for row in rows))


def _copies(trace: Path, events: int) -> int:
    """How often a trace is repeated to have about so many events."""
    import kinetoscope

    return max(1, round(events / len(kinetoscope.read(trace, jobs=1).trace())))


if __name__ == "__main__":
    sys.exit(main())
