"""What would be reserved under another setting of the allocator, on another device or with smaller tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.allocator import CUDA, device_name
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.snapshot.allocator import (
    TRUSTED_SHARE,
    ReplayedAllocator,
    Trust,
    default_pool,
    device_limit,
    replayed,
    trust_of,
)
from kinetoscope.model.snapshot.failures import total_memory
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.model.snapshot.owners import owners
from kinetoscope.model.snapshot.releases import EMPTIED, RETRY, UNTOLD, releases
from kinetoscope.model.snapshot.replay import SnapshotHistory, history, level, level_of
from kinetoscope.model.snapshot.segment_history import segment_history
from kinetoscope.model.snapshot.settings import AllocatorSettings, changed, recorded_settings
from kinetoscope.model.snapshot.snapshot import (
    NONE,
    OUT_OF_MEMORY,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    Snapshot,
)
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Result, Schema
from kinetoscope.views.numbers import shown
from kinetoscope.views.sentences import Sentence, cell, say

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory, as torch names it, such as cuda:0."),
    Column("settings", pl.String, "recorded; replayed: the same, from an empty allocator; else what is changed."),
    Column("reserved", pl.Int64, "Most bytes reserved on the device; null if that is not known.", "bytes"),
    Column("saved", pl.Int64, "How much less that is than what was recorded.", "bytes"),
    Column("in_use", pl.Int64, "Most bytes of blocks in use, as rounded; without private pools.", "bytes"),
    Column("time", pl.Int64, "When most was reserved first; null before the history.", "ns", instant=True),
    Column("device_allocations", pl.Int64, "Calls for memory of the device: cudaMalloc, or mappings."),
    Column("device_frees", pl.Int64, "Calls that freed it."),
    Column("retries", pl.Int64, "How often the cache was emptied because the device had no more; null if unknown."),
    Column("failed", pl.Int64, "Requests that failed; null if it is not known how much the device had."),
    Column("ended", pl.Int64, "When a request failed that had not: the replay ends there.", "ns", instant=True),
    Column("trust", pl.Float64, "Share of the recorded addresses that the replica predicts.", "fraction"),
    across={
        "device": "device",
        "key": "settings",
        "sum": "reserved saved in_use device_allocations device_frees retries failed",
        "own": "time ended",
        "least": "trust",
    },
)

RECORDED: Final = "recorded"
REPLAYED: Final = "replayed"
GROWING_SEGMENTS: Final = "expandable_segments:True"
ALTERNATIVES: Final = (
    *(GROWING_SEGMENTS, "max_split_size_mb:128", "max_split_size_mb:512", "roundup_power2_divisions:4"),
)
"""Settings that are tried, as `PYTORCH_CUDA_ALLOC_CONF` has them; those that the job had already are left out."""

MIN_GAIN: Final = 0.02
"""Share of what was reserved from which on a setting, or a difference, is worth a sentence."""


def memory_what_if(
    trace: Trace,
    select: Selection,
    *,
    conf: Annotated[
        str,
        Param(
            "Settings to try, as PYTORCH_CUDA_ALLOC_CONF has them; several choices are parted by ;.", check=_check_conf
        ),
    ] = "",
    memory: Annotated[int | None, Param("Memory that the device has for the allocator.", "bytes", least=1)] = None,
    scale: Annotated[str, Param("Uses whose tensors have another size, such as activation=0.5.", check=_factors)] = "",
) -> Partial:
    """What would the allocator reserve with other settings, on another device, or with smaller tensors?

    Method. A replica of torch's caching allocator plays the requests and frees of a memory snapshot: best fit by
    stream and size class, splitting and merging, segments that grow, retries, as torch does it. First it predicts the
    recorded addresses, with the recorded segments; the share that is right is `trust`. Below 99 % there are no other
    numbers. Then it starts empty, allocates anew what was in use when the history begins, and plays the history:
    *replayed* under the recorded settings, then under each other one.

    How to read it. `saved` is what a setting would bring. Where *replayed* reserves less than *recorded*, part of what
    was reserved came before the history, and each setting starts without that. `failed` counts requests for which the
    device would have had no memory; the first that had not failed in the job ends the replay.

    Limits. Private pools, of CUDA graphs say, reserve what they did. Memory comes back from other streams when it did,
    and the driver's own losses do not count. How much the device had is known only if a request failed, or from
    `memory`. `garbage_collection_threshold` counts only if `conf` has it and that is known: torch ignores it without
    `set_per_process_memory_fraction`. Uses are those of `memory_peak`. Steps choose nothing: the whole history is
    played. Numbers of devices choose those whose memory it is.
    """
    snapshot = snapshot_of(trace)
    rows: list[Row] = []
    notes: list[Note] = [] if snapshot is not None else [not_recorded("memory snapshot")]
    for device in snapshot.devices if snapshot is not None else ():
        past = history(trace, device)
        if snapshot is None or (select.devices is not None and device not in select.devices):
            continue
        name = device_name(CUDA, device)
        limit = memory if memory is not None else device_limit(past, level(trace, device, "reserved"))
        trust = trust_of(
            snapshot, past, segment_history(trace, device), memory=total_memory(trace, snapshot, device) or limit
        )
        here = [_recorded(trace, snapshot, past)]
        if trust.share is not None and trust.share >= TRUSTED_SHARE:
            here += _replays(trace, snapshot, past, limit, _choices(conf), _factors(scale))
        rows += [{"device": name, "trust": trust.share, **row} for row in here]
        notes += _notes(name, snapshot, trust, here, scale)
    return Partial(RESULT.per_rank.frame(rows), tuple(notes))


ANALYSIS = Analysis(
    "Memory under other settings",
    memory_what_if,
    RESULT,
    chart=Bars("settings", "reserved"),
    of_device_work=False,
    of_calls=False,
    selection_notes="never",
)

Row = dict[str, Any]
_TYPES: Final = RESULT.per_rank.types


def _choices(conf: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in conf.split(";") if each.strip())


def _factors(scale: str) -> dict[int, float]:
    """By category what its sizes are multiplied by.

    Raises:
        UsageError: it is not of the form `activation=0.5,temporary=2`.
    """
    factors = {}
    for each in filter(None, (part.strip() for part in scale.split(","))):
        use, _, number = (part.strip() for part in each.partition("="))
        try:
            factors[CATEGORIES.index(use)] = float(number)
        except ValueError:
            raise UsageError(f"{each!r} is not as activation=0.5 is; uses are {', '.join(CATEGORIES)}") from None
        if not 0 < factors[CATEGORIES.index(use)] < math.inf:
            raise UsageError(f"{each!r}: sizes are multiplied by a number above 0")
    return factors


def _recorded(trace: Trace, snapshot: Snapshot, past: SnapshotHistory) -> Row:
    held, used = level(trace, past.device, "reserved"), level_of(snapshot, default_pool(snapshot, past), "active")
    peak = int(held.argmax())
    action, went = past.events.action, releases(trace, past.device)
    return {
        "settings": RECORDED,
        "reserved": int(held[peak]),
        "saved": 0,
        "in_use": int(used.max()),
        "time": _time(trace, past, peak - 1),
        "device_allocations": int(np.isin(action, (SEGMENT_ALLOC, SEGMENT_MAP)).sum()),
        "device_frees": int(np.isin(action, (SEGMENT_FREE, SEGMENT_UNMAP)).sum()),
        "retries": None if len(went.of(UNTOLD)) else len(went.of(RETRY)),
        "failed": int((action == OUT_OF_MEMORY).sum()),
    }


def _replays(
    trace: Trace,
    snapshot: Snapshot,
    past: SnapshotHistory,
    limit: int | None,
    choices: tuple[str, ...],
    factors: dict[int, float],
) -> Iterator[Row]:
    settings = recorded_settings(snapshot.settings)
    base = replace(settings, garbage_collection_threshold=0.0)
    went = releases(trace, past.device)
    requested = _requested(trace, past, factors)
    recorded = int(level(trace, past.device, "reserved").max())
    for choice in ("", *(choices or ALTERNATIVES)):
        tried = changed(base, choice)
        if choice and tried == base:
            continue
        answer = replayed(
            snapshot,
            past,
            segment_history(trace, past.device),
            tried,
            memory=total_memory(trace, snapshot, past.device) or limit,
            limit=limit,
            emptied=went.last[went.of(EMPTIED)].astype(np.int64),
            requested=requested,
        )
        yield _replayed(trace, past, answer, choice or REPLAYED, recorded, limit is not None)


def _replayed(
    trace: Trace, past: SnapshotHistory, answer: ReplayedAllocator, settings: str, recorded: int, is_limited: bool
) -> Row:
    return {
        "settings": settings,
        "reserved": answer.reserved,
        "saved": recorded - answer.reserved,
        "in_use": answer.in_use,
        "time": _time(trace, past, answer.event),
        "device_allocations": answer.device_allocations,
        "device_frees": answer.device_frees,
        "retries": answer.retries if is_limited else None,
        "failed": answer.failures if is_limited else None,
        "ended": None if answer.failed is None else _time(trace, past, max(answer.failed, 0)),
    }


def _requested(trace: Trace, past: SnapshotHistory, factors: dict[int, float]) -> Int64s | None:
    """Bytes that are requested with the sizes of some uses changed; None where none are."""
    own = owners(trace, past.device)
    if not factors or own is None:
        return None
    factor = np.ones(len(CATEGORIES))
    for category, number in factors.items():
        factor[category] = number
    return np.maximum(np.ceil(past.requested * factor[own.category]), 1).astype(np.int64)


def _time(trace: Trace, past: SnapshotHistory, event: int) -> int | None:
    if event < 0 or int(past.events.time[event]) == NONE:
        return None
    return int(past.events.time[event]) - trace.base - origin_of_time(trace)


def _notes(name: str, snapshot: Snapshot, trust: Trust, rows: list[Row], scale: str) -> Iterator[Note]:
    if trust.share is None:
        yield Note("NO_REQUESTS", f"The history of {name} has no requests: there is nothing to replay.")
        return
    share = f"{trust.predicted:,} of {trust.requests:,} recorded addresses of {name}"
    if trust.share < TRUSTED_SHARE:
        yield Note(
            "REPLICA_NOT_TRUSTED",
            f"The replica of the allocator predicts only {share}: it gives no numbers for other settings.",
        )
        return
    yield Note(
        "REPLICA_TRUSTED", f"The replica of the allocator predicts {share} ({math.floor(trust.share * 1000) / 10:g} %)."
    )
    recorded, control = rows[:2]
    if scale:
        yield Note("SIZES_SCALED", f"All but the recorded row has other sizes: {scale}.")
    elif abs(control["saved"]) >= MIN_GAIN * recorded["reserved"]:
        yield Note(
            "REPLAY_FROM_EMPTY",
            f"From an empty allocator, {name} reserves {shown(control['reserved'], 'bytes')} at most with the recorded"
            f" settings, not {shown(recorded['reserved'], 'bytes')}: the rest is from before the history.",
        )
    if control["ended"] is not None:
        yield Note(
            "REPLAY_FAILS",
            f"With the recorded settings, a request on {name} fails that had not failed: the replay ends there.",
        )
    frame = pl.DataFrame([{"device": name, **row} for row in rows], schema=_TYPES, orient="row")
    yield from (
        Note("BEST_SETTING", each)
        for each in what_if_sentences(Result(frame, RESULT, (), "memory_what_if"), device=name)
    )
    if trust.private:
        yield Note(
            "PRIVATE_POOLS",
            f"{trust.private:,} requests of private pools are not replayed: these reserve what they did.",
        )
    if recorded_settings(snapshot.settings).garbage_collection_threshold:
        yield Note("NO_GARBAGE_COLLECTION", "The recorded garbage_collection_threshold is not replayed.")


def what_if_sentences(rows: Result, **of: Any) -> Iterator[Sentence]:
    """What the best setting would bring to a device: that nothing fails, or else that least is reserved.

    Args:
        rows: an answer.
        of: the columns that choose the rows of one device of one rank.
    """
    here = [row for row in rows.frame.iter_rows(named=True) if all(row[name] == value for name, value in of.items())]
    control = next((row for row in here if row["settings"] == REPLAYED), None)
    others = [row for row in here if row["settings"] not in (RECORDED, REPLAYED)]
    if control is None or not others:
        return
    fitting = [row for row in others if control["failed"] and row["failed"] == 0]
    best = min(fitting or others, key=lambda row: int(row["reserved"]))
    gain = control["reserved"] - best["reserved"]
    device, settings = (cell(rows, name, **of, settings=best["settings"]) for name in ("device", "settings"))
    held, instead, recorded = (
        cell(rows, "reserved", **of, settings=name) for name in (best["settings"], REPLAYED, RECORDED)
    )
    if fitting:
        yield say(
            "Replayed with {settings}, no request on {device} fails, and at most {held} are reserved (recorded:"
            " {recorded}).",
            settings=settings, device=device, held=held, recorded=recorded,
        )  # fmt: skip
    elif not best["failed"] and not control["failed"] and gain >= MIN_GAIN * control["reserved"]:
        sentence = say(
            "Replayed from an empty allocator, at most {held} are reserved on {device} with {settings}, and {instead}"
            " with the recorded settings",
            held=held, device=device, settings=settings, instead=instead,
        )  # fmt: skip
        if instead.text == recorded.text:
            yield say("{sentence}, as was recorded.", sentence=sentence)
        else:
            yield say("{sentence}; recorded are {recorded}.", sentence=sentence, recorded=recorded)


def _check_conf(conf: str) -> None:
    for each in _choices(conf):
        changed(AllocatorSettings(), each)
