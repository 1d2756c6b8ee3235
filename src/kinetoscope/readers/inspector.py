"""Files of the Inspector plugin of NCCL or RCCL: a line of JSON for each collective that is done, of a healthy job.

A line has `header` (communicator, rank, ranks), `metadata` (time of writing, host, process) and `coll_perf` or
`p2p_perf` (what, number, bytes, duration). When a collective began is there only with NCCL_INSPECTOR_DUMP_VERBOSE=1;
else the durations are laid one before the other, so that the last one ends when its line was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import mapping
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.left_out import records_left_out
from kinetoscope.readers.reader import MAX_RANK, CandidateFile, Reader

_BEGINS: Final = re.compile(rb'\A\s*\{\s*"(?:header|metadata|id|rank)"\s*:')
_RECORDS: Final = ("coll", "p2p")
"""What the keys of both kinds of records begin with."""

_GATHERED: Final = ("AllGather", "ReduceScatter")
"""Collectives whose bytes are written for one rank, where nccl-tests counts those of all."""

_MAX_TIME_US: Final = 1 << 52
_MAX_BYTES: Final = 1 << 58
_MICROSECOND: Final = 1000

_RECORD: Final = {
    "communicator": pl.String,
    "rank": pl.Int64,
    "ranks": pl.Int64,
    "name": pl.String,
    "number": pl.Int64,
    "bytes": pl.Int64,
    "counted": pl.Float64,
    "took": pl.Float64,
    "time": pl.Float64,
    "began": pl.Float64,
}
"""Facts of a line; times in µs, `counted` as the bytes that its bandwidth and its time say."""


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of a file: an event on the device for each collective.

    Raises:
        NotFoundError, LimitError: the file cannot be read.
        BrokenTraceError: none of its lines is a record.
    """
    with opened(source, progress=progress) as blocks:
        text = b"".join(blocks)
    lines = text.split(b"\n")
    rows = [row for line in lines if (row := _row(line)) is not None]
    if not rows:
        raise BrokenTraceError(f"{source.url}: no line is a record of NCCL's Inspector")
    records = _with_bytes_of_all(pl.DataFrame(rows, _RECORD, orient="row")).sort("time", "number", maintain_order=True)
    start, end = _laid_out(records)
    built = TraceBuilder()
    names, size = records["name"], records["bytes"].to_numpy()
    built.add(
        EventKind.KERNEL,
        [f"ncclDevKernel_{name}" for name in names],
        start,
        end,
        process=0,
        thread=records["communicator"].to_list(),
        collective=names.to_list(),
        process_group=records["communicator"].to_list(),
        group_size=records["ranks"].to_numpy(),
        collective_sequence=records["number"].to_numpy(),
        element_type="Byte",
        elements_in=size,
        elements_out=size,
        device=0,
    )
    largest = records.sort("ranks", descending=True).row(0, named=True)
    return built.build(
        source,
        metadata={"distributedInfo": {"backend": "nccl", "rank": largest["rank"], "world_size": largest["ranks"]}},
        text_bytes=len(text),
        notes=_notes(records, sum(map(bool, lines))),
    )


def _row(line: bytes) -> tuple[object, ...] | None:
    """Facts of a line, as `_RECORD`; None where it is no record, or has values that cannot be."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    said = mapping(said)
    kind = next((kind for kind in _RECORDS if f"{kind}_perf" in said), "")
    header, facts = mapping(said.get("header", said)), mapping(said.get(f"{kind}_perf"))
    times = mapping(facts.get("event_trace_ts"))
    name, communicator = facts.get(kind), header.get("id", "unknown")
    rank, ranks = (_number(header.get(key, 0), MAX_RANK) for key in ("rank", "n_ranks"))
    number, size = (
        _number(facts.get(f"{kind}_sn"), _MAX_BYTES),
        _number(facts.get(f"{kind}_msg_size_bytes", 0), _MAX_BYTES),
    )
    took = _number(facts.get(f"{kind}_exec_time_us"), _MAX_TIME_US)
    time = _number(mapping(said.get("metadata")).get("dump_timestamp_us", 0), _MAX_TIME_US)
    if not (isinstance(name, str) and isinstance(communicator, str)):
        return None
    if rank is None or ranks is None or number is None or size is None or took is None or time is None:
        return None
    rate = _number(facts.get(f"{kind}_algobw_gbs", 0), _MAX_BYTES) or 0.0
    began = _number(times.get(f"{kind}_start_ts"), _MAX_TIME_US) or None
    return communicator, int(rank), int(ranks), name, int(number), int(size), 1000.0 * rate * took, took, time, began


def _number(value: object, most: int) -> float | None:
    """A number from 0 to the most that it can be; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= most else None  # type: ignore[operator, return-value]


def _with_bytes_of_all(records: pl.DataFrame) -> pl.DataFrame:
    """Bytes as nccl-tests counts them: of all ranks where the line counts those of one, as its bandwidth shows."""
    size, counted, ranks = pl.col("bytes"), pl.col("counted"), pl.col("ranks")
    is_of_one = pl.col("name").is_in(_GATHERED) & ((counted - size * ranks).abs() < (counted - size).abs())
    return records.with_columns(bytes=pl.when(is_of_one).then(size * ranks).otherwise(size))


def _laid_out(records: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """When each began and ended, ns: as recorded, else before the next one of its communicator."""
    took = np.rint(records["took"].to_numpy() * _MICROSECOND).astype(np.int64)
    written = _MICROSECOND * np.rint(records["time"].to_numpy()).astype(np.int64)
    end = written.copy()
    following: dict[str, int] = {}
    communicators = records["communicator"].to_list()
    for place in range(len(end) - 1, -1, -1):
        end[place] = min(end[place], following.get(communicators[place], int(end[place])))
        following[communicators[place]] = int(end[place] - took[place])
    began = records["began"]
    recorded = _MICROSECOND * np.rint(began.fill_null(0.0).to_numpy()).astype(np.int64)
    start = np.where(began.is_not_null().to_numpy(), recorded, end - took)
    return start, start + took


def _notes(records: pl.DataFrame, lines: int) -> tuple[Note, ...]:
    notes = [
        Note(
            "OF_INSPECTOR",
            "Collectives are those of NCCL's Inspector: nothing else of the program is here, and durations are whole"
            " microseconds.",
        )
    ]
    if records["began"].has_nulls():
        said = (
            "When collectives began is not recorded, only how long they took: NCCL_INSPECTOR_DUMP_VERBOSE=1 records it."
        )
        notes.append(Note("NO_BEGINNINGS", said))
    notes += records_left_out(lines - len(records))
    return tuple(notes)


def _recognised(_: str, head: bytes) -> bool:
    line = head.partition(b"\n")[0]
    return _BEGINS.match(line) is not None and (b'"coll_perf"' in line or b'"p2p_perf"' in line)


_RANK: Final = re.compile(rb'"rank"\s*:\s*(\d{1,7}).{0,80}?"n_ranks"\s*:\s*(\d{1,7})', re.DOTALL)


def _probe(candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:  # noqa: ARG001 - see `Probe`
    """See `Probe`: its rank in the largest communicator of the first lines."""
    largest = max(((int(ranks), -int(rank)) for rank, ranks in _RANK.findall(text)), default=None)
    if largest is None or -largest[1] >= MAX_RANK:
        return candidate
    return replace(candidate, rank=-largest[1], world=largest[0], basis="text")


READER: Final = Reader(
    "inspector", load, _recognised, probe=_probe, suffixes=(".jsonl", ".jsonl.gz", ".log", ".log.gz")
)
