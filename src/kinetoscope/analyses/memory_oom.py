"""Why memory ran out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.allocator import CUDA, HOST, MISSING_INTEGER, device_name
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.memory.error_text import OutOfMemoryText, out_of_memory_text, request_of
from kinetoscope.model.memory.failed_requests import FailedRequest, Judgement, judgement_of
from kinetoscope.model.snapshot.bands import categories
from kinetoscope.model.snapshot.failures import Obstacles, RefusedRequest, failures, obstacles
from kinetoscope.model.snapshot.of_trace import known_snapshot, snapshot_of
from kinetoscope.model.snapshot.replay import SnapshotHistory, history
from kinetoscope.model.snapshot.sites import stack_sites
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema
from kinetoscope.views.numbers import shown

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory ran out, as torch names it, such as cuda:0."),
    Column(
        "time", pl.Int64, "When, from the first event of the trace on; null in an error's text.", "ns", instant=True
    ),
    Column("kind", pl.String, "request: what failed; part: a part of the device's memory then; holder: who has it."),
    Column("name", pl.String, "Of a request and a holder its line of the program; the part."),
    Column("operator", pl.String, "Operator that requested it; null without C++ stacks."),
    Column("verdict", pl.String, "Of a request: why it failed."),
    Column("confidence", pl.String, "high: the record excludes other reasons; medium; low."),
    Column("size", pl.Int64, "Bytes requested; of the part; that are held.", "bytes"),
    Column(
        "short", pl.Int64, "Of a request: bytes that were missing on the device; null where that is unknown.", "bytes"
    ),
    Column("blocks", pl.Int64, "How many allocations hold it."),
    Column("use", pl.String, "Of a holder: what its allocations are for, as in `memory_peak`."),
    Column("evidence", pl.String, "What the verdict rests on; what the part is."),
    Column("remedy", pl.String, "What would have made it fit."),
    Column("stack", pl.String, "Frames of the request or holder, outermost first."),
    Column("source", pl.String, "snapshot, trace, or text: the error's."),
    across={"device": "device", "own": "time short", "sum": "size blocks"},
)

_MAX_REQUESTS: Final = 20
_MAX_HOLDERS: Final = 10
MAX_SENTENCES: Final = 3
_MAX_ALIKE: Final = 0.01
"""Difference of the size in a text and in a snapshot, as a share, up to which both are of one request."""

_NOTHING_FAILED: Final = Note("NO_FAILED_REQUEST", "No request for memory failed in what was recorded.")
_UNKNOWN_NOTE: Final = Note(
    "GIVE_ERROR", "Give the text of torch's OutOfMemoryError as `error`: it says how much memory the device has."
)

_PARTS: Final = {
    "fragmentation": "free in pieces, or lost to rounding, in segments that could serve the request",
    "other pool": "free in segments of another stream, size class or pool",
    "graph pool": "not in use, in pools of CUDA graphs or MemPools",
    "pending free": "freed, but still waiting for another stream or the end of a capture",
}


def memory_oom(
    trace: Trace,
    select: Selection,
    *,
    error: Annotated[str, Param("Text of torch's OutOfMemoryError, a whole traceback if you like.", check=_check)] = "",
) -> Partial:
    """Why did memory run out, who held it, and what would have made the request fit?

    Method. A snapshot records each request that failed. The state of the allocator at that moment follows from undoing
    the history from the snapshot backwards. Memory of the device is then: data in use; what was reserved without
    use, by why the request could not have it (in pieces, of another stream or pool, of a CUDA graph, waiting for
    another stream); what was free on the device; what others held, if the device's memory is known. The verdict is
    *live data*, or *limit* of the process, if all of that together would not have been enough or would have left less
    than 2 %. Else it is the largest part that alone would have been enough, or else the largest: *fragmentation*,
    *other pool*, *graph pool*, *pending free*, *outside of the allocator*. Memory that others hold counts beyond what a
    process always takes (1 GiB, or 4 % of the device). *request too large*: the device does not have as much.
    *cannot be told*: a free block would have fitted, or numbers are missing.

    How to read it. Below each request are the parts of the memory, and the holders: for fragmentation the fewest
    bytes without which the request would have fitted; for live data the lines that hold most.

    Limits. A snapshot does not say how much memory the device has: without `error`, without the trace's list of devices
    and without our recorder's note, what others held is not known, and live data is never certain. A text alone, or
    Kineto's record, does not say why reserved memory could not be used. Blocks are known up to 1 MiB. Of many requests
    that failed the last 20 are shown. Time and devices choose requests; all else chooses nothing.
    """
    text = out_of_memory_text(error) if error else None
    rows: list[Row] = []
    snapshot = snapshot_of(trace)
    for device in snapshot.devices if snapshot is not None else ():
        if select.devices is None or device in select.devices:
            refused = failures(trace, device, _MAX_REQUESTS)
            for each in refused:
                rows += _of_snapshot(trace, each, device, text)
    if snapshot is None:
        rows += _of_kineto(trace)
    if select.time is not None:
        rows = [row for row in rows if row["time"] is not None and select.time[0] <= row["time"] < select.time[1]]
    if text is not None and not any(row["kind"] == "request" and _is_same(text, row["size"]) for row in rows):
        request = request_of(text)
        name = device_name(CUDA, max(text.device, 0))
        rows = [_request_row(name, request, judgement_of(request), "text"), *_part_rows(name, request, "text"), *rows]
    requests = [row for row in rows if row["kind"] == "request"]
    notes = [_sentence(row) for row in requests[-MAX_SENTENCES:]] or [_NOTHING_FAILED]
    if any(row["verdict"] == "live data" and row["confidence"] != "high" for row in requests):
        notes.append(_UNKNOWN_NOTE)
    frame = RESULT.per_rank.frame(rows)
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis("Out of memory", memory_oom, RESULT, of_device_work=False, of_calls=False, selection_notes="never")

Row = dict[str, Any]


def _is_same(text: OutOfMemoryText, size: int) -> bool:
    """Whether a text is of a request of a size, which the text has rounded as the allocator asked the device for it."""
    return abs(text.requested - size) <= max(_MAX_ALIKE * size, 20 << 20)


def _row(device: str, kind: str, source: str, **facts: Any) -> Row:
    return {**dict.fromkeys(RESULT.per_rank.names), "device": device, "kind": kind, "source": source, **facts}


def _request_row(device: str, request: FailedRequest, judgement: Judgement, source: str, **facts: Any) -> Row:
    evidence = facts.pop("evidence", None) or _evidence(request, judgement)
    remedy = facts.pop("remedy", None) or _remedy(request, judgement)
    return _row(
        device,
        "request",
        source,
        verdict=judgement.verdict,
        confidence=judgement.confidence,
        size=request.requested,
        short=judgement.short,
        evidence=evidence,
        remedy=remedy,
        **facts,
    )


def _part_rows(device: str, request: FailedRequest, source: str, **facts: Any) -> Iterator[Row]:
    """What the memory of the device was then: the rows sum to all of it, where that is known."""
    unused = sum(request.parts.values())
    parts = []
    if request.reserved is not None:
        parts.append(("live data", request.reserved - unused, "in use, as requested"))
        parts += [(name, size, _PARTS.get(name, "")) for name, size in request.parts.items() if size]
    if request.free is not None:
        parts.append(("free on the device", request.free, "held by nobody"))
    if request.outside is not None:
        parts.append(("outside of the allocator", request.outside, "CUDA context, libraries, other processes"))
    for name, size, evidence in parts:
        yield _row(device, "part", source, name=name, size=size, evidence=evidence, **facts)


# --- from a snapshot


def _of_snapshot(trace: Trace, refused: RefusedRequest, device: int, text: OutOfMemoryText | None) -> Iterator[Row]:
    snapshot, past, sites = known_snapshot(trace), history(trace, device), stack_sites(trace)
    request = refused.request
    if text is not None and text.device in (device, -1) and _is_same(text, request.needed):
        request = replace(request, total=text.total, limit=text.limit)
    judgement = judgement_of(request)
    in_way = obstacles(refused) if judgement.verdict == "fragmentation" else None
    time, stack = int(past.events.time[refused.event]), int(past.events.stack[refused.event])
    facts = {"time": time - origin_of_time(trace) - trace.base if time != NONE else None}
    name = device_name(CUDA, device)
    yield _request_row(
        name,
        request,
        judgement,
        "snapshot",
        name=sites.line(stack) or None,
        operator=sites.operator_of(int(sites.operator[stack])) or None,
        stack=sites.folded(stack) or None,
        evidence=_evidence(request, judgement, refused),
        remedy=_remedy(request, judgement, refused, in_way, snapshot),
        **facts,
    )
    yield from _part_rows(name, request, "snapshot", **facts)
    for row in _holders(trace, past, refused, judgement, in_way):
        yield _row(name, "holder", "snapshot", **facts, **row)


def _holders(
    trace: Trace, past: SnapshotHistory, refused: RefusedRequest, judgement: Judgement, in_way: Obstacles | None
) -> Iterator[Row]:
    """Who holds what was missing, by stack and category, most first."""
    state = refused.heap
    if judgement.verdict in ("graph pool", "other pool"):
        which = refused.private if judgement.verdict == "graph pool" else ~refused.right & ~refused.private
        free = state.bytes_of(state.is_hole)
        held = np.flatnonzero(which & (free > 0))
        yield from _rows_of(trace, state.segments.stack[held], free[held], None)
        return
    if in_way is not None:
        rows = in_way.allocations
    else:
        used = state.is_pending if judgement.verdict == "pending free" else ~state.is_hole & ~state.is_pending
        rows = state.allocation[used]
    yield from _rows_of(trace, past.stack[rows], past.size[rows], categories(trace, past.device)[rows])


def _rows_of(trace: Trace, stack: Int32s, size: Int64s, category: Any) -> Iterator[Row]:
    sites = stack_sites(trace)
    codes, first = group(stack, stack if category is None else category)
    sizes, counts = sum_by(codes, len(first), size), np.bincount(codes, minlength=len(first))
    for place in np.argsort(-sizes, kind="stable")[:_MAX_HOLDERS].tolist():
        of = int(stack[first[place]])
        yield {
            "name": sites.line(of) or ("[no line]" if of != NONE else "[no stack]"),
            "operator": sites.operator_of(int(sites.operator[of])) or None,
            "size": int(sizes[place]),
            "blocks": int(counts[place]),
            "use": None if category is None else CATEGORIES[int(category[first[place]])],
            "stack": sites.folded(of) or None,
        }


# --- from Kineto's records


def _of_kineto(trace: Trace) -> Iterator[Row]:
    which = rows_named(trace, lambda name: name == "[OutOfMemory]", EventKind.INSTANT)
    rows = np.flatnonzero(which)[-_MAX_REQUESTS:].astype(np.int32)
    names = ("memory_bytes", "allocated", "reserved", "memory_device_type", "memory_device")
    columns = [arguments.integers(trace, name, rows, missing=MISSING_INTEGER).tolist() for name in names]
    for row, requested, allocated, reserved, kind, number in zip(rows.tolist(), *columns, strict=True):
        known = MISSING_INTEGER not in (allocated, reserved)
        request = FailedRequest(
            requested=max(requested, 0),
            needed=max(requested, 0),
            free=None,
            total=None,
            reserved=reserved if known else None,
            live=allocated if known else None,
            parts={"fragmentation": max(reserved - allocated, 0)} if known else {},
            is_divided=False,
        )
        name = device_name(CUDA if kind == MISSING_INTEGER else kind, number if number >= 0 or kind == HOST else 0)
        facts = {"time": int(trace.start[row]) - origin_of_time(trace)}
        yield _request_row(name, request, judgement_of(request), "trace", **facts)
        yield from _part_rows(name, request, "trace", **facts)


# --- sentences


def _sentence(row: Row) -> Note:
    """The answer about one request, for those who read no columns."""
    said = " ".join(filter(None, (failure_in_short(row), row["evidence"], row["remedy"])))
    return Note("REQUEST_FAILED", said, about=row["device"])


def failure_in_short(row: Row) -> str:
    """Which request failed, and why, of a row of the answer that is a request."""
    where = f" at {row['name']}" if row["name"] else ""
    sure = "" if row["confidence"] == "high" else f" ({row['confidence']} confidence)"
    return f"{row['device']} had no {_bytes(row['size'])} for the request{where}: {row['verdict']}{sure}."


def _evidence(request: FailedRequest, judgement: Judgement, refused: RefusedRequest | None = None) -> str:
    size = _bytes
    if judgement.verdict == "request too large":
        return f"The device has {size(request.total or 0)} in all."
    if judgement.verdict == "cannot be told":
        if request.fits:
            return f"A free block of {size(request.fits)} was there, as far as the record tells."
        return "The record does not say how much the allocator had reserved and how much of it was in use."
    held = f"{size(request.reserved or 0)} were reserved, {size(request.live or 0)} of them in use"
    words = [f"{held}; {size(request.free)} were free on the device." if request.free is not None else f"{held}."]
    if judgement.verdict == "fragmentation":
        largest = f"; the largest free block had {size(refused.largest)}" if refused is not None else ""
        words.append(f"{size(judgement.part)} of the rest were free in pieces{largest}.")
        if not request.is_divided and refused is None:
            words.append("Or they were of other streams: the record does not say.")
    elif judgement.verdict == "limit":
        allowed = (
            f"{size(request.limit)} are allowed." if request.limit is not None else "It was not allowed to take it."
        )
        words.append(f"The device had enough. {allowed}")
    elif judgement.verdict == "live data":
        wasted = sum(request.parts.values())
        words.append(f"All that was reserved and not in use, {size(wasted)}, would not have made enough room.")
        if request.outside is None:
            words.append("How much others held cannot be told.")
    elif judgement.verdict == "outside of the allocator":
        words.append(f"{size(request.outside if request.outside is not None else judgement.part)} were held by others.")
    else:
        words.append(f"{size(judgement.part)} were {_PARTS[judgement.verdict]}.")
    return " ".join(words)


def _remedy(
    request: FailedRequest,
    judgement: Judgement,
    refused: RefusedRequest | None = None,
    in_way: Obstacles | None = None,
    snapshot: Snapshot | None = None,
) -> str:
    """What would have made it fit."""
    verdict = judgement.verdict
    if verdict == "live data":
        missing = request.needed - (request.free or 0) - sum(request.parts.values())
        least = f"At least {_bytes(missing)} less in use" if missing > 0 and request.free is not None else "Less in use"
        return f"{least}: a smaller batch, recomputed activations, a sharded or 8-bit optimizer; see the holders."
    if verdict == "fragmentation":
        words = []
        expandable = snapshot is not None and snapshot.settings.get("expandable_segments") is True
        if not expandable:
            words.append("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: free memory need not lie in one segment.")
        if in_way is not None:
            blocks = number_of(len(in_way.allocations), "allocation")
            words.append(
                f"Without {blocks} of {_bytes(in_way.size)} in all, {_bytes(in_way.gain)} would have been free."
            )
        return " ".join(words) or "Take first what lives long, and lengths of few sizes."
    return {
        "other pool": _remedy_of_pools(refused),
        "graph pool": "Graphs that share a pool (`pool=torch.cuda.graph_pool_handle()`), or fewer of them: what a"
        " deleted graph held comes back with torch.cuda.empty_cache().",
        "pending free": "Let the stream that frees wait for the other one (`Stream.wait_stream`) and free then,"
        " instead of `record_stream`; free before a capture begins.",
        "outside of the allocator": f"{_bytes(judgement.part)} less outside: other processes (nvidia-smi lists them),"
        " buffers of NCCL and other libraries.",
        "limit": "A higher limit: torch.cuda.set_per_process_memory_fraction.",
        "request too large": "See whether the shapes at that line are what they should be.",
    }.get(verdict, "")


def _remedy_of_pools(refused: RefusedRequest | None) -> str:
    if refused is not None and refused.request.parts and bool(refused.private[refused.right].any()):
        return "torch.cuda.empty_cache() before the capture: during one the allocator gives nothing back."
    return "The same stream for what is allocated in turns, or torch.cuda.empty_cache() between the phases."


def _bytes(size: int) -> str:
    return shown(size, "bytes")


def _check(error: str) -> None:
    if error and out_of_memory_text(error) is None:
        raise UsageError("error has no `out of memory. Tried to allocate …`; give the text of torch's OutOfMemoryError")
