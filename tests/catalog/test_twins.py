"""Key numbers of the analyses, counted again in plain Python from the JSON: no code is shared but the reading of files.

The twins are slow and simple on purpose: dictionaries, sorted lists and one sweep. Kinds of work and calls are told by
a few words that are enough for these files.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kinetoscope import ANALYSES, Job, Selection, read
from kinetoscope.model.trace.mangled import demangled
from tests.catalog.random_job import RandomJob
from tests.catalog.samples import BUNDLED, SHARED, required
from tests.conftest import first_quick

DEVICE = {"kernel": "kernel", "gpu_memcpy": "memory", "memcpy": "memory", "gpu_memset": "memory", "memset": "memory"}
RUNTIME = {"cuda_runtime", "cuda_driver", "runtime"}
OPERATOR = {"cpu_op", "operator"}
PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm"}
LATENCY = 30_000
LONG = 1_000_000
ACTIVITIES = (
    "data loading",
    "synchronizing call",
    "allocating call",
    "graph capture",
    "other runtime call",
    "host operator",
    "Python",
)


@dataclass
class Work:
    """A piece of device work, and the call that launched it."""

    name: str
    kind: str
    device: int
    stream: int
    start: int
    end: int
    args: dict[str, Any]
    launch: Call | None


@dataclass
class Call:
    """A call of the host."""

    name: str
    category: str
    thread: Any
    start: int
    end: int
    args: dict[str, Any]
    work: list[Work] = field(default_factory=list)


@dataclass
class Twin:
    """A file as plain objects, and the job that is checked by it."""

    job: Job
    work: list[Work]
    calls: list[Call]
    memory: list[dict[str, Any]]
    shadows: list[tuple[str, int]]
    """Name and duration of the shadows of annotations on streams."""

    @property
    def launches(self) -> list[Call]:
        return [call for call in self.calls if call.work]

    @property
    def devices(self) -> list[int]:
        return sorted({each.device for each in self.work})

    def ask(self, name: str, **params: Any) -> list[dict[str, Any]]:
        [analysis] = [each for each in ANALYSES if each.name == name]
        return analysis(self.job, **params).frame.to_dicts()


def ns(number: Any) -> int:
    return int((Decimal(number or 0) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))


def twin_of(file: Path) -> Twin:
    data = file.read_bytes()
    text = gzip.decompress(data) if file.suffix == ".gz" else data
    events = json.loads(text, parse_float=Decimal)["traceEvents"]
    calls, work, memory, shadows = [], [], [], []
    by_correlation: dict[int, Call] = {}
    for event in events:
        category, args = str(event.get("cat", "")).lower(), event.get("args") or {}
        start = ns(event.get("ts"))
        end = start + ns(event.get("dur"))
        if event.get("name") == "[memory]":
            memory.append({**args, "time": start, "thread": (event["pid"], event["tid"])})
        elif event.get("ph") != "X":
            continue
        elif category in RUNTIME | OPERATOR | {"user_annotation", "python_function"}:
            call = Call(str(event.get("name")), category, (event["pid"], event["tid"]), start, end, args)
            calls.append(call)
            if category in RUNTIME and args.get("correlation", 0) > 0:
                by_correlation.setdefault(args["correlation"], call)
        elif category == "gpu_user_annotation":
            shadows.append((str(event["name"]), max(end - start, 0)))
        elif category in DEVICE:
            work.append((event, args, start, max(end, start), DEVICE[category]))
    twin = Twin(read(file, jobs=1, capture="off"), [], calls, memory, shadows)
    for event, args, start, end, kind in work:
        launch = by_correlation.get(args.get("correlation", 0))
        name = str(event["name"])
        if kind == "kernel":
            collective = "nccl" in name or "multimem_" in name or "Collective name" in args
            kind = "communication" if collective else "computation"
        piece = Work(name, kind, args["device"], args["stream"], start, end, args, launch)
        twin.work.append(piece)
        if launch:
            launch.work.append(piece)
    return twin


def seconds(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of intervals, in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in seconds(intervals))


Check = Callable[[Twin], Iterator[tuple[str, object, object]]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


# --- devices


@check
def kinds_of_work(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """One sweep over starts and ends, with a count of what runs of each kind."""
    rows = {(row["device"], row["kinds"]): row["time"] for row in twin.ask("kernel_kinds") if row["time"]}
    found: Counter[tuple[int, str]] = Counter()
    idle = {}
    for device in twin.devices:
        edges = []
        for each in twin.work:
            if each.device == device and each.end > each.start:
                edges += [(each.start, 1, each.kind), (each.end, -1, each.kind)]
        running: Counter[str] = Counter()
        edges.sort()
        before = _before(twin, device)
        for (time, change, kind), (after, _, _) in zip(edges, [*edges[1:], (edges[-1][0], 0, "")], strict=True):
            running[kind] += change
            kinds = [name for name in ("computation", "communication", "memory") if running[name]]
            if kinds or after > before:
                found[device, "+".join(kinds)] += after - time
        idle[device] = found.pop((device, ""), 0)
    yield "kernel_kinds", rows, {key: time for key, time in found.items() if time}
    for row in twin.ask("temporal_breakdown"):
        yield "idle", row["idle"], idle[row["device"]]
        alone = found[row["device"], "communication"] + found[row["device"], "communication+memory"]
        yield "exposed", row["exposed_communication"], alone


def _before(twin: Twin, device: int) -> int:
    """Until when a device did work from before the recording: until the last first work of a stream that was held.

    It was held if it was in the queue for over 1 ms and the greater part of the recording so far, and nothing that was
    recorded ran just before it. A device's first work without a launch is none here: no window begins before it.
    """
    begin = min((call.start for call in twin.calls), default=0)
    pieces = sorted((each for each in twin.work if each.device == device), key=lambda each: (each.start, each.end))
    streams, ran, found = set(), begin, begin
    for piece in pieces:
        if piece.stream not in streams and piece.launch and piece.start - ran > LATENCY:
            queued = piece.start - max(piece.launch.end, begin)
            if queued > LONG and 2 * queued >= piece.start - begin:
                found = piece.start
        streams.add(piece.stream)
        ran = max(ran, piece.end)
    return found


def _gaps(pieces: list[Work], before: int = 0) -> Iterator[tuple[int, list[Work]]]:
    """Since when nothing ran, and the work that ends that: several pieces if they start at once.

    None that end before work from before the recording does.
    """
    pieces = sorted((each for each in pieces if each.end > each.start), key=lambda each: each.start)
    until = pieces[0].end if pieces else 0
    for place, piece in enumerate(pieces):
        if piece.start > max(until, before):
            yield until, [each for each in pieces[place:] if each.start == piece.start]
        until = max(until, piece.end)


def _is_late(until: int, piece: Work) -> bool:
    return piece.launch is not None and piece.launch.start > until


def _late(piece: Work) -> dict[str, int]:
    """What passes from a late launch on: its call, of it the wait for a copy; then the launch; then nobody knows."""
    assert piece.launch
    start = min(piece.launch.start, piece.start)
    called = max(start, min(piece.launch.end, piece.start))
    launched = min(called, start + LATENCY) if _waits(piece.launch) else called
    begun = min(called + LATENCY, piece.start)
    return {
        "launch call": launched - start,
        "synchronizing call": called - launched,
        "launch to start": begun - called,
        "waiting": piece.start - begun,
    }


def _waits(call: Call) -> bool:
    """Does the host wait in it? In a copy by its name; or for pageable memory, or nobody knows which, by the times."""
    if "Memcpy" not in call.name:
        return "Synchronize" in call.name
    if "Async" not in call.name:
        return True
    for copy in call.work:
        if "ageable" in copy.name:
            blocks = copy.start < call.end
        elif re.search("inned|Device -> Device|DtoD", copy.name):
            blocks = False
        else:
            blocks = call.end - call.start > LATENCY and call.end >= copy.end
        if blocks:
            return True
    return False


@check
def reasons_of_idle_time(twin: Twin) -> Iterator[tuple[str, object, object]]:
    for by in ("device", "stream"):
        lanes = defaultdict(list)
        for each in twin.work:
            lanes[each.device, each.stream if by == "stream" else None].append(each)
        found: Counter[Any] = Counter()
        launching: Counter[Any] = Counter()
        ambiguous = False
        for lane, pieces in lanes.items():
            for until, ends in _gaps(pieces, _before(twin, lane[0]) if by == "device" else 0):
                charged = [_charged(by, until, each) for each in ends]
                late = [_late(each) if _is_late(until, each) else {} for each in ends]
                ambiguous |= any(each != charged[0] for each in charged) or any(each != late[0] for each in late)
                found.update({(lane, reason): time for reason, time in charged[0].items()})
                launching.update({(lane, part): late[0].get(part, 0) for part in ("launch call", "launch to start")})
        if ambiguous:
            continue
        rows: Counter[Any] = Counter()
        details: Counter[Any] = Counter()
        for row in twin.ask("idle_breakdown", by=by):
            rows[(row["device"], row["stream"]), row["reason"]] += row["time"]
            if row["detail"].startswith("launch ") and row["detail"] != "launch not recorded":
                details[(row["device"], row["stream"]), row["detail"]] += row["time"]
        yield f"reasons by {by}", dict(rows), {key: time for key, time in found.items() if time}
        if by == "device":
            yield "late launches", dict(details), {key: time for key, time in launching.items() if time}


def _charged(by: str, until: int, piece: Work) -> dict[str, int]:
    """The reasons of a gap, and the time of each: the host is late until its launch should have arrived."""
    gap = piece.start - until
    if piece.launch is None:
        return {"unknown": gap}
    if by == "stream":
        short = "kernel wait" if gap < LATENCY else "other"
        return {"host wait" if _is_late(until, piece) else short: gap}
    if _is_late(until, piece):
        waiting = _late(piece)["waiting"]
        return {"launch late": gap - waiting, "waiting": waiting}
    return {"launch latency" if piece.start - piece.launch.start < LATENCY else "waiting": gap}


@check
def what_threads_did_in_gaps(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """Late launches: each instant until the launch belongs to the first kind of call that its thread is in."""
    threads: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
    captures = _captures(twin)
    for call in twin.calls:
        captured = any(start <= call.start < end for start, end in captures)
        if (name := _activity(call, captured)) is not None:
            threads[call.thread].append((call.start, call.end, ACTIVITIES.index(name)))
    for thread in threads.values():
        thread.sort()
    found: Counter[str] = Counter()
    for device in twin.devices:
        pieces = [each for each in twin.work if each.device == device]
        for until, [piece, *_] in _gaps(pieces, _before(twin, device)):
            if piece.launch and _is_late(until, piece):
                end = min(piece.launch.start, piece.start)
                taken: list[tuple[int, int]] = []
                thread = threads[piece.launch.thread]
                inside = [each for each in thread[: bisect_left(thread, (end,))] if each[1] > until]
                for rank, name in enumerate(ACTIVITIES):
                    longer = length(taken)
                    taken += [(max(low, until), min(high, end)) for low, high, kind in inside if kind == rank]
                    found[name] += length(taken) - longer
                found["nothing recorded"] += end - until - length(taken)
                found["synchronizing call"] += _late(piece)["synchronizing call"]
    rows = {row["detail"]: 0 for row in twin.ask("idle_breakdown")}
    for row in twin.ask("idle_breakdown"):
        rows[row["detail"]] += row["time"]
    names = (*ACTIVITIES, "nothing recorded")
    yield "activities", {name: rows.get(name, 0) for name in names}, {name: found[name] for name in names}


def _captures(twin: Twin) -> list[tuple[int, int]]:
    """When a graph is captured: until the thread that began that ends it, or until the recording is over."""
    found = []
    for call in twin.calls:
        if "StreamBeginCapture" in call.name:
            ends = [each.end for each in twin.calls if each.thread == call.thread and "StreamEndCapture" in each.name]
            found.append((call.start, min((end for end in ends if end >= call.start), default=1 << 63)))
    return found


def _activity(call: Call, captured: bool) -> str | None:
    if call.name.startswith(("enumerate(DataLoader)#", "enumerate(DataPipe)#")):
        return "data loading"
    kind = None
    if call.category in RUNTIME:
        if _waits(call):
            return "synchronizing call"
        if re.search("^(cuda|hip)(Malloc|Free|HostAlloc|HostMalloc)", call.name):
            return "allocating call"
        kind = "other runtime call"
    elif call.category in OPERATOR and not call.name.startswith("ProfilerStep#"):
        kind = "host operator"
    elif call.category == "python_function":
        kind = "Python"
    return "graph capture" if kind and captured else kind


@check
def use_of_devices(twin: Twin) -> Iterator[tuple[str, object, object]]:
    for row in twin.ask("device_utilization"):
        origin = _origin(twin)
        low, high = row["start"] + origin, row["end"] + origin
        kernels = [
            (max(each.start, low), min(each.end, high), each.args)
            for each in twin.work
            if each.device == row["device"] and each.kind != "memory"
        ]
        busy = length((start, end) for start, end, _ in kernels)
        yield "kernel time", row["kernel_time"], busy
        weighted = [
            (max(end - start, 0), float(args["est. achieved occupancy %"]) / 100)
            for start, end, args in kernels
            if "est. achieved occupancy %" in args
        ]
        if weighted and sum(weight for weight, _ in weighted):
            mean = sum(weight * value for weight, value in weighted) / sum(weight for weight, _ in weighted)
            yield "occupancy", round(row["occupancy"], 9), round(mean, 9)
        if any("blocks per SM" in args for _, _, args in kernels):
            edges = [
                edge
                for start, end, args in kernels
                if end > start
                for edge in ((start, float(args.get("blocks per SM", 0))), (end, -float(args.get("blocks per SM", 0))))
            ]
            edges.sort()
            level, filled = 0.0, 0.0
            for (time, change), (after, _) in pairwise(edges):
                level += change
                filled += min(1.0, level) * (after - time)
            yield "SM efficiency", round(row["sm_efficiency"], 6), round(filled / row["window"], 6)


def _origin(twin: Twin) -> int:
    """Where the clock of the answers begins: what `launches` calls the start of its first call."""
    first: int = min(row["start"] for row in twin.ask("launches") if row["work"])
    return min(call.start for call in twin.launches) - first


# --- launches


@check
def statistics_of_launches(twin: Twin) -> Iterator[tuple[str, object, object]]:
    rows = [row for row in twin.ask("launches") if row["work"]]
    found = sorted(
        (
            call.end - call.start,
            max(min(each.start for each in call.work) - call.end, 0),
            length((each.start, each.end) for each in call.work),
            len(call.work),
        )
        for call in twin.launches
    )
    yield "launches", sorted((row["duration"], row["delay"], row["work_duration"], row["work"]) for row in rows), found
    linked = twin.launches
    statistics = {row["name"]: row for row in twin.ask("launch_statistics")}
    if not linked or len(rows) != len(twin.ask("launches")):
        return
    row = statistics["(all)"]
    durations, delays = sorted(call.end - call.start for call in linked), sorted(delay for _, delay, _, _ in found)
    yield "mean", row["mean"], (2 * sum(durations) + len(durations)) // (2 * len(durations))
    for name, values in (("", durations), ("delay_", delays)):
        low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
        yield f"{name}median", row[f"{name}median"], low + (high - low + 1) // 2
        yield f"{name}p99", row[f"{name}p99"], values[-(-len(values) * 99 // 100) - 1]
    yield "short", row["short_kernels"], sum(call > work for call, _, work, _ in found)


@check
def lengths_of_queues(twin: Twin) -> Iterator[tuple[str, object, object]]:
    entries: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for call in twin.launches:
        for place in {(each.device, each.stream) for each in call.work}:
            begun = min(each.start for each in call.work if (each.device, each.stream) == place)
            entries[place].append((call.start, max(begun, call.start)))
    rows = {(row["device"], row["stream"]): row for row in twin.ask("queue_length")}
    yield "streams", sorted(rows), sorted(entries)
    for place, waits in entries.items():
        row = rows[place]
        yield "waits", round(row["mean"] * row["window"]), sum(end - start for start, end in waits)
        yield "calls", row["calls"], len(waits)
        begins = sorted(start for start, end in waits if end > start)
        ends = sorted(end for start, end in waits if end > start)
        most = max((bisect_right(begins, time) - bisect_right(ends, time) for time in begins), default=0)
        yield "max", row["max"], most
        yield "queued", row["queued"], length(waits)


@check
def copies(twin: Twin) -> Iterator[tuple[str, object, object]]:
    found: dict[Any, list[Work]] = defaultdict(list)
    for each in twin.work:
        if each.kind == "memory":
            words = ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH", "CopyHostToDevice", "CopyDeviceToHost")
            word = next((word for word in words if word in each.name), "")
            kind = {"CopyHostToDevice": "HtoD", "CopyDeviceToHost": "DtoH"}.get(word, word)
            found[each.device, "memset" if "emset" in each.name else kind].append(each)
    rows = {(row["device"], row["direction"]): row for row in twin.ask("memory_bandwidth")}
    yield "directions", sorted(rows), sorted(found)
    for place, pieces in found.items():
        row = rows[place]
        yield "calls", (row["calls"], row["total"]), (len(pieces), sum(each.end - each.start for each in pieces))
        yield "busy", row["busy"], length((each.start, each.end) for each in pieces)
        sized = [each for each in pieces if "bytes" in each.args]
        if len(sized) == len(pieces):
            yield "bytes", row["bytes"], sum(each.args["bytes"] for each in sized)
            lasting = [each for each in sized if each.end > each.start]
            if lasting:
                moved = sum(each.args["bytes"] for each in lasting)
                time = length((each.start, each.end) for each in lasting)
                yield "bandwidth", f"{row['bandwidth']:.9g}", f"{moved * 1e9 / time:.9g}"


# --- the host


def _nested(calls: list[Call]) -> Iterator[tuple[Call, list[Call]]]:
    """Each call with the calls around it, by a stack on each thread; None where calls overlap partly."""
    threads: dict[Any, list[Call]] = defaultdict(list)
    for call in calls:
        threads[call.thread].append(call)
    for thread in threads.values():
        thread.sort(key=lambda call: (call.start, -call.end))
        stack: list[Call] = []
        for call in thread:
            while stack and stack[-1].end <= call.start and not (call.start == call.end == stack[-1].end):
                stack.pop()
            around = [other for other in stack if other.end >= call.end]
            yield call, around
            stack = [*around, call] if len(around) == len(stack) else [*stack, call]


@check
def operators_that_launch(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """Device time by the innermost operator or annotation around the launch, and by all those around it."""
    own: Counter[str] = Counter()
    every: Counter[str] = Counter()
    doubled = set()
    for call, around in _nested(twin.calls):
        time = sum(each.end - each.start for each in call.work)
        shown = [other for other in around if other.category != "python_function"]
        if shown and _named(shown[-1]) == _named(call):
            doubled.add(_named(call))  # one call recorded twice, or a recursive one
        if time:
            own[_named(shown[-1] if shown else call)] += time
            for other in [*shown, call]:
                every[_named(other)] += time
    rows = [row for row in twin.ask("operators") if row["kind"] in ("operator", "annotation", "runtime")]
    yield "device_self", _by_name(rows, "device_self"), dict(own)
    if all(each.launch for each in twin.work):
        totals = _by_name(rows, "device_total")
        yield "device_total", _without(totals, doubled), _without(every, doubled)


def _repeats(call: Call, around: list[Call]) -> bool:
    """Is it recorded twice: directly in a call of its name and kind?"""
    last = around[-1] if around and call.end > call.start else None
    return last is not None and (_named(last), last.category) == (_named(call), call.category)


def _without(times: dict[str, int], names: set[str]) -> dict[str, int]:
    return {name: time for name, time in times.items() if name not in names}


def _named(call: Call) -> str:
    """Its name without the number of a step and the name of an overload."""
    if call.name.startswith("ProfilerStep#"):
        return "ProfilerStep*"
    return call.name.partition(".")[0] if call.name.startswith("aten::") else call.name


def _by_name(rows: list[dict[str, Any]], column: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        if row[column]:
            found[row["name"]] += row[column]
    return dict(found)


@check
def calls_of_modules(twin: Twin) -> Iterator[tuple[str, object, object]]:
    calls = Counter(call.name.removeprefix("nn.Module: ") for call in twin.calls if call.name.startswith("nn.Module: "))
    found: Counter[str] = Counter()
    for row in twin.ask("modules"):
        found[row["name"]] += row["calls"] or 0
    if calls:
        yield "modules", {name: count for name, count in found.items() if count}, dict(calls)


@check
def flops_of_products(twin: Twin) -> Iterator[tuple[str, object, object]]:
    expected: Counter[str] = Counter()
    outer = {id(other) for call, around in _nested(twin.calls) if call.name in PRODUCTS for other in around}
    for call in twin.calls:
        dims = call.args.get("Input Dims") or call.args.get("Input dims")
        if id(call) in outer:
            continue  # the innermost call is the one that computes
        if call.name == "aten::mm" and dims:
            [m, k], [_, n] = dims[0], dims[1]
            expected[call.name] += 2 * m * k * n
        elif call.name == "aten::addmm" and dims:
            [m, k], [_, n] = dims[1], dims[2]
            expected[call.name] += 2 * m * k * n
        elif call.name == "aten::bmm" and dims:
            [b, m, k], [_, _, n] = dims[0], dims[1]
            expected[call.name] += 2 * b * m * k * n
    found: Counter[str] = Counter()
    for row in twin.ask("flops"):
        if row["name"] in expected:
            found[row["name"]] += int(row["flop"])
    yield "products", dict(found), dict(expected)


@check
def folded_stacks(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """What a flame graph says of each kernel, whatever is around it."""
    if not twin.work:
        return
    found: Counter[str] = Counter()
    for row in twin.ask("flame", weight="device", python="none"):
        found[row["stack"].rpartition(";")[2]] += row["value"]
    names = {each.name: demangled(each.name) for each in twin.work}
    of_plain = {name: 0 for name in names.values() if ";" not in name and " at 0x" not in name}
    for each in twin.work:
        if names[each.name] in of_plain:
            of_plain[names[each.name]] += each.end - each.start
    for name, time in of_plain.items():
        if "\n" not in name and time:
            yield f"kernel {name[:30]}", found[name], time


@check
def ranges(twin: Twin) -> Iterator[tuple[str, object, object]]:
    calls: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for call, around in _nested(twin.calls):
        if call.category == "user_annotation" and not _repeats(call, around):
            calls[_named(call)] += 1
            times[_named(call)] += call.end - call.start
    rows = {row["name"]: row for row in twin.ask("annotations")}
    spans: Counter[str] = Counter()
    for name, time in twin.shadows:
        spans["ProfilerStep*" if name.startswith("ProfilerStep#") else name] += time
    for name, time in spans.items():
        yield f"shadows of {name}", rows[name]["device_span"], time
    for name in calls:
        if not name.startswith("gloo:"):
            yield name, (rows[name]["calls"], rows[name]["host_total"]), (calls[name], times[name])


@check
def calls_that_wait(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """All calls with Synchronize in their names are counted, with the time that they took."""
    found: Counter[str] = Counter()
    for row in twin.ask("synchronizations"):
        if "Synchronize" in row["call"]:
            found[row["call"]] += row["time"]
    expected: Counter[str] = Counter()
    for call in twin.calls:
        if call.category in RUNTIME and "Synchronize" in call.name:
            expected[call.name] += call.end - call.start
    yield "time in Synchronize", dict(found), {name: time for name, time in expected.items() if time}


# --- memory


@check
def use_of_memory(twin: Twin) -> Iterator[tuple[str, object, object]]:
    by_device: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for each in twin.memory:
        by_device[each.get("Device Type", 0), each.get("Device Id", -1)].append(each)
    rows = twin.ask("memory_peak")
    peaks = {
        device: sum(row["size"] for row in rows if row["device"] == device)
        for device in {row["device"] for row in rows}
    }
    for (kind, number), changes in by_device.items():
        device = "cpu" if kind == 0 else f"{'hip' if kind == 6 else 'cuda'}:{number}"
        said = [each["Total Allocated"] for each in changes if "Total Allocated" in each]
        if kind and len(said) == len(changes):
            yield f"peak of {device}", peaks[device], max(*said, said[0] - changes[0]["Bytes"])
        own: Counter[str] = Counter()
        for row in twin.ask("memory_by_operator"):
            if row["device"] == device:
                own["taken"] += row["self_allocation_size"]
                own["increase"] += row["self_size_increase"]
        yield f"taken on {device}", own["taken"], sum(max(each["Bytes"], 0) for each in changes)
        yield f"increase on {device}", own["increase"], sum(each["Bytes"] for each in changes)


@check
def memory_of_operators(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """Bytes taken by name of the innermost operator or annotation that runs on the thread at that instant."""
    threads: dict[Any, list[Call]] = defaultdict(list)
    for call in twin.calls:
        if call.category in OPERATOR | {"user_annotation"} and not call.name.startswith("gloo:"):
            threads[call.thread].append(call)
    found: Counter[str] = Counter()
    for thread in threads.values():
        thread.sort(key=lambda call: (call.start, -call.end))
    starts = {key: [call.start for call in thread] for key, thread in threads.items()}
    for each in twin.memory:
        if each["Bytes"] <= 0:
            continue
        thread = threads.get(each["thread"], [])
        place = bisect_right(starts.get(each["thread"], []), each["time"]) - 1
        while place >= 0 and thread[place].end <= each["time"]:
            place -= 1
        found[_named(thread[place]) if place >= 0 else "[memory]"] += each["Bytes"]
    rows: Counter[str] = Counter()
    for row in twin.ask("memory_by_operator"):
        if row["self_allocation_size"]:
            rows[row["name"]] += row["self_allocation_size"]
    yield "taken by operator", dict(rows), dict(found)


@check
def blocks_of_memory(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """What was allocated and freed at each address, paired in order of time."""
    if not all("Addr" in each for each in twin.memory):
        return
    taken: dict[Any, tuple[int, int]] = {}
    found: Counter[tuple[int, int | None]] = Counter()
    for each in sorted(twin.memory, key=lambda each: each["time"]):
        place = each.get("Device Type", 0), each.get("Device Id", -1), each["Addr"]
        if each["Bytes"] > 0:
            if place in taken:
                found[taken.pop(place)[0], None] += 1
            taken[place] = each["Bytes"], each["time"]
        elif place in taken:
            size, start = taken.pop(place)
            found[size, each["time"] - start] += 1
        else:
            found[-each["Bytes"], None] += 1
    for size, _ in taken.values():
        found[size, None] += 1
    yield "blocks", Counter((row["size"], row["duration"]) for row in twin.ask("memory_events")), found


@check
def sequences_of_kernels(twin: Twin) -> Iterator[tuple[str, object, object]]:
    """What each call of an operator that stands in no other launched, in order."""
    launched: dict[int, list[Call]] = defaultdict(list)
    outermost: dict[int, Call] = {}
    for call, around in _nested(twin.calls):
        inside = [other for other in [*around, call] if other.category in OPERATOR]
        if call.work and inside:
            outermost[id(inside[0])] = inside[0]
            launched[id(inside[0])].append(call)
    found: Counter[tuple[str, int]] = Counter()
    times: Counter[tuple[str, int]] = Counter()
    for key, calls in launched.items():
        work = [each for call in calls for each in call.work]
        place = _named(outermost[key]), len(work)
        found[place] += 1
        times[place] += sum(each.end - each.start for each in work)
    if not all(each.launch for each in twin.work):
        return
    rows: Counter[tuple[str, int]] = Counter()
    spent: Counter[tuple[str, int]] = Counter()
    for row in twin.ask("kernel_sequences"):
        rows[row["operator"], row["kernels"]] += row["calls"]
        spent[row["operator"], row["kernels"]] += row["device_time"]
    yield "calls", rows, found
    yield "device time", spent, times


# --- all checks over some traces

SERVING = SHARED.parent / "samples" / "serving"
"""Work from before the recording, and the capture of a graph."""

CAPTURE = SERVING / "vllm_decode_full" / "capture_traces" / "graph_capture_rank_0.1773709742341309550.pt.trace.json.gz"

SLOW = pytest.mark.slow
FILES = [
    pytest.param(SHARED / "ddp_nccl_a100" / "nccl_data.json.gz", id="ddp_nccl_a100", marks=SLOW),
    pytest.param(SHARED / "dlrm_ddp_v100_8rank" / "worker1_step_12.1694128201556.pt.trace.json.gz", id="dlrm1"),
    pytest.param(SHARED / "eager_b200" / "eager_trace.json.gz", id="eager_b200", marks=SLOW),
    pytest.param(SHARED / "mi250_train", id="mi250_train"),
    pytest.param(SHARED / "alexnet_a100", id="alexnet_a100"),
    pytest.param(SHARED / "resnet_ddp_mi300", id="resnet_ddp_mi300", marks=SLOW),
    pytest.param(SHARED / "sampled_2rank" / "sampled_rank-1.json.gz", id="sampled", marks=SLOW),
    pytest.param(SHARED / "torch_2_13_cpu" / "transformer.pt.trace.json.gz", id="transformer_cpu", marks=SLOW),
    pytest.param(SERVING / "vllm_decode_full" / "graph_execution.json.gz", id="vllm_decode", marks=SLOW),
    pytest.param(SERVING / "sglang_prefilldecode" / "sglang_Qwen3-8B_prefilldecode.json.gz", id="sglang", marks=SLOW),
    pytest.param(CAPTURE, id="vllm_capture", marks=SLOW),
    pytest.param(BUNDLED / "mlp.pt.trace.json.gz", id="mlp"),
    pytest.param(BUNDLED / "conv.pt.trace.json.gz", id="conv", marks=SLOW),
]


def differences(twin: Twin) -> list[str]:
    found = []
    for each in CHECKS:
        for what, analysis, plain in each(twin):
            if analysis != plain:
                found.append(f"{each.__name__}: {what}: {analysis} is not {plain}")
    return found


@pytest.mark.parametrize("path", FILES)
def test_plain_python_counts_the_same(path: Path) -> None:
    required(path)
    [file] = sorted(path.glob("*.json*")) if path.is_dir() else [path]
    assert not differences(twin_of(file))


@pytest.mark.parametrize("seed", first_quick(range(100, 106)))
def test_plain_python_counts_the_same_in_a_drawn_trace(tmp_path: Path, seed: int) -> None:
    assert not differences(twin_of(RandomJob(seed, annotated=False).written(tmp_path)))


# --- selections


def _chosen(twin: Twin, select: Selection, origin: int) -> list[Work]:
    """The work that a selection chooses: by its launch; where that is not known by its start in the device's step."""
    steps = {
        int(call.name.partition("#")[2]): (call.start, call.end)
        for call in twin.calls
        if call.name.startswith("ProfilerStep#")
    }
    chosen = twin.work
    if isinstance(select.steps, tuple):
        of_device = {
            row["step"]: (origin + row["start"], origin + row["start"] + row["duration"])
            for row in twin.ask("step_breakdown")
        }
        chosen = [
            each
            for each in chosen
            for start, end in ((steps if each.launch else of_device)[number] for number in select.steps)
            if start <= (each.launch or each).start < end
        ]
    if select.threads is not None:
        chosen = [each for each in chosen if each.launch and each.launch.thread[1] in select.threads]
    if select.devices is not None:
        chosen = [each for each in chosen if each.device in select.devices]
    if select.streams is not None:
        chosen = [each for each in chosen if each.stream in select.streams]
    if select.time is not None:
        low, high = (origin + time for time in select.time)
        chosen = [each for each in chosen if each.start < high and each.end > low]
    return chosen


def _in_range(select: Selection, origin: int, start: int, end: int) -> int:
    if select.time is None:
        return end - start
    low, high = (origin + time for time in select.time)
    return max(min(end, high) - max(start, low), 0)


SELECTIONS = [
    Selection(steps=(1,), devices=(0,)),
    Selection(steps=(0, 2), streams=(7,)),
    Selection(steps=(1, 3), time=(500, 3_200)),
    Selection(threads=(2,), time=(1_100, 2_700)),
    Selection(threads=(1,), steps=(2,), devices=(1,)),
    Selection(devices=(0, 1), streams=(20,), time=(0, 1_500)),
]


@pytest.mark.parametrize("seed", first_quick(range(200, 206)))
def test_selections_choose_the_same_work(tmp_path: Path, seed: int) -> None:
    twin = twin_of(RandomJob(seed, annotated=False).written(tmp_path))
    origin = min(call.start for call in twin.calls)
    for select in SELECTIONS:
        chosen = _chosen(twin, select, origin)
        times = [_in_range(select, origin, each.start, each.end) for each in chosen]
        assert sum(row["total"] for row in twin.ask("kernels", select=select, copies=True)) == sum(times), select
        linked = sum(time for each, time in zip(chosen, times, strict=True) if each.launch)
        assert sum(row["device_self"] or 0 for row in twin.ask("operators", select=select)) == linked, select
        assert sum(row["value"] for row in twin.ask("flame", select=select, weight="device")) == sum(times), select
        for row in twin.ask("kernel_kinds", select=select):
            if row["kinds"] == "computation" and select.steps is None:
                mine = [each for each in chosen if (each.device, each.kind) == (row["device"], "computation")]
                low, high = select.time or (-origin, 1 << 60)
                spans = [(max(each.start, origin + low), min(each.end, origin + high)) for each in mine]
                assert row["total"] == length(spans), select
