"""Dumps of the Flight Recorder opened by themselves: a trace of the calls that they have, as Kineto would name them.

A call is an instant on its thread, as nothing says how long the host was in it. What is done on a device is work there,
of the length that the dump has, and ends when the watchdog has seen it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kinetoscope.algorithms.grouping import group
from kinetoscope.model.trace.event_kinds import COMMUNICATION_RECORD, EventKind
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.stream import is_url, opened
from kinetoscope.readers.flight_recorder import is_dump
from kinetoscope.readers.flight_recorder import load as load_dump
from kinetoscope.readers.reader import HEAD_BYTES, CandidateFile, Reader

if TYPE_CHECKING:
    from kinetoscope.algorithms.arrays import Bools, Int32s
    from kinetoscope.model.flight_recorder.dump import FlightDump
    from kinetoscope.model.trace.build import TraceBuilder
    from kinetoscope.readers.files.cache import Cache

NAME: Final = "flight_recorder"

_NAMED: Final = re.compile(r"(?!\.).*\d(?:\.(?:json|pickle|pkl))?(?:\.(?:gz|zst))?")
"""Names of dumps: torch adds the rank to a prefix, and no ending."""

_RANKS: Final = re.compile(rb"\[(0(?:, ?\d{1,8})+)\]")
"""Members of a group as a text, of JSON or of a pickle."""

ON_HOST: Final = ("gloo", "ucc", "mpi")
"""Backends whose collectives are work of the host."""


def is_named(name: str) -> bool:
    """True if a file of this name may be a dump; what it begins with decides."""
    return _NAMED.fullmatch(name) is not None


def dump_at(source: Source, url: str, progress: Callable[[int], None] | None = None) -> FlightDump:
    """The dump in a file, read with the options of a source.

    Raises:
        NotFoundError, NotATraceError, BrokenTraceError, LimitError: it cannot be read, or is none.
    """
    with opened(source, url=url, progress=progress, ahead=is_url(url)) as blocks:
        return load_dump(url, blocks)


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of the dumps of a rank, which it keeps.

    Raises: as `dump_at`.
    """
    urls = source.files(NAME) or (source.url,)
    dumps = [dump_at(source, url, progress) for url in urls]
    return trace_of(replace(source, companions={**source.companions, NAME: urls}), dumps)


def trace_of(source: Source, dumps: Sequence[FlightDump]) -> Trace:
    """The trace of dumps that were read; without events if its source wants none."""
    from kinetoscope.model.flight_recorder.of_trace import DAMAGED, by_age
    from kinetoscope.model.trace.build import TraceBuilder

    built = TraceBuilder()
    seen = np.zeros((2, 0), np.int64)
    for dump in reversed(by_age(dumps)) if source.options.events else ():
        calls = np.stack([dump.entries.record, dump.entries.created])
        _add(built, dump, ~(np.isin(calls[0], seen[0]) & np.isin(calls[1], seen[1])))
        seen = np.concatenate([seen, calls], axis=1)
    notes = tuple(each for dump in dumps for each in dump.notes if each.code == DAMAGED)
    if source.options.events:
        trace = built.build(source, metadata=_facts(source, dumps), notes=notes)
    else:  # the facts are those of the dumps, which are kept
        trace = built.build(source)
    for dump in dumps:
        _keep(trace, dump)
    return trace


def _keep(trace: Trace, dump: FlightDump) -> None:
    trace.keep((NAME, dump.url), lambda: dump)


def _add(built: TraceBuilder, dump: FlightDump, is_new: Bools) -> None:
    """Add the new calls of a dump: on the host, and on the device where they are done there."""
    from kinetoscope.model.trace.build import Coded

    entries, label = dump.entries, dump.strings.label
    on_host = np.array([*(each.backend in ON_HOST for each in dump.groups), False], np.bool_)[entries.group]
    known = is_new & (entries.created > 0)
    pairs, rows = group(entries.group, entries.name)
    texts = [f"{dump.groups[entries.group[row]].backend}:{label(int(entries.name[row]))}" for row in rows.tolist()]
    threads, first = group(entries.thread)
    thread = [label(code) or "host" for code in entries.thread[first].tolist()]
    for mask, kind in ((known & on_host, EventKind.ANNOTATION), (known & ~on_host, EventKind.HOST_OP)):
        if mask.any():
            names = Coded(pairs[mask], texts) if kind == EventKind.ANNOTATION else COMMUNICATION_RECORD
            at, where = entries.created[mask], Coded(threads[mask], thread)
            built.add(kind, names, at, at, process="host", thread=where, **_arguments(dump, mask))
    done = known & ~on_host & (entries.completed > 0)
    if done.any():
        between = np.where(entries.started > 0, entries.completed - entries.started, 0)
        length = np.maximum(np.where(entries.duration >= 0, entries.duration, between), 0)[done]
        start = np.maximum(entries.completed[done] - length, entries.created[done])
        streams = Coded(entries.group[done], [str(place) for place in range(len(dump.groups))])
        names, arguments = Coded(pairs[done], texts), _arguments(dump, done)
        built.add(EventKind.KERNEL, names, start, start + length, process=0, thread=streams, **arguments)


def _arguments(dump: FlightDump, rows: Bools) -> dict[str, Any]:
    """The arguments of calls, by the names of `model.trace.arguments`."""
    from kinetoscope.model.trace.build import Coded

    entries, groups, place = dump.entries, dump.groups, dump.entries.group[rows]

    def texts(codes: Int32s, after: str) -> Coded:
        places, first = group(codes[rows])
        return Coded(places, [dump.strings.label(code).partition(after)[0] for code in codes[rows][first].tolist()])

    return {
        "collective": texts(entries.name, " "),
        "process_group": Coded(place, [each.name for each in groups]),
        "process_group_description": Coded(place, [each.desc for each in groups]),
        "process_group_ranks": Coded(place, [str([*each.ranks]) for each in groups]),
        "group_size": np.array([len(each.ranks) for each in groups], np.int64)[place],
        "collective_sequence": np.where(entries.is_p2p, entries.p2p_seq, entries.seq)[rows],
        "elements_in": entries.input_elements[rows],
        "elements_out": entries.output_elements[rows],
        "element_type": texts(np.where(entries.input_types >= 0, entries.input_types, entries.output_types), ","),
    }


def _facts(source: Source, dumps: Sequence[FlightDump]) -> dict[str, Any]:
    """The groups as `distributedInfo` has them."""
    groups = [each for dump in dumps for each in dump.groups if each.ranks]
    config = [
        {"pg_name": each.name, "pg_desc": each.desc, "pg_size": len(each.ranks), "ranks": [*each.ranks]}
        for each in groups
    ]
    world = max((len(each.ranks) for each in groups if each.name == "0" or each.desc == "default_pg"), default=0)
    facts = {"rank": source.rank, "pg_config": config} | ({"world_size": world} if world else {})
    return {"distributedInfo": facts}


def probe(candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:  # noqa: ARG001 - see `Probe`
    """A candidate with the size of the job, where its group of all ranks is near the beginning."""
    matches = (each for each in _RANKS.finditer(text[:HEAD_BYTES]) if _is_text(text, each.start()))
    longest = max((each[1] for each in matches), key=len, default=b"")
    world = _whole_job(longest)
    return replace(candidate, world=world) if world > 1 else candidate


def _is_text(data: bytes, place: int) -> bool:
    """Test for the beginning of a text: behind a quotation mark, or (SHORT_)BINUNICODE and a length."""
    before = data[max(place - 5, 0) : place]
    return before.endswith(b'"') or before[:1] == b"X" or before[-2:-1] == b"\x8c"


@lru_cache(64)
def _whole_job(members: bytes) -> int:
    """How many ranks a list has that names all of a job; 0 of another one."""
    ranks = [*map(int, members.split(b","))] if members else []
    return len(ranks) if ranks == [*range(len(ranks))] else 0


READER: Final = Reader(NAME, load, lambda _, head: is_dump(head), probe, named=is_named)
