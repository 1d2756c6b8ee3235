"""Metadata for the page: the server, its runs, the analyses and the tables, without results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kinetoscope import __version__
from kinetoscope.analyses import groups, named, names
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.device.hardware import device_of
from kinetoscope.model.device.names import device_name
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.program import program_kind
from kinetoscope.model.health.check import examine
from kinetoscope.model.job import damage_of
from kinetoscope.model.snapshot.of_trace import is_snapshot_alone
from kinetoscope.model.steps.proposed_steps import step_candidates
from kinetoscope.model.steps.scope import origin_of_time, steady_places
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.tables.sql import schema_of
from kinetoscope.model.tables.tables import TABLES
from kinetoscope.model.timeline.tracks import track_names
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import HOST_KINDS
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages import PAGES, SNAPSHOT, menu
from kinetoscope.server.json_encoding import MAX_INTEGER
from kinetoscope.server.query import kind_of
from kinetoscope.server.runs.run import Run, state_of
from kinetoscope.server.runs.workspace import RunList
from kinetoscope.views.exports.plain import all_fields


@dataclass(frozen=True, slots=True)
class Features:
    """Optional features of this server: a login, folders of sources, Perfetto, an editor, and where files are here."""

    auth: bool = False
    source_roots: bool = False
    perfetto: bool = False
    editor: str = ""
    maps: tuple[tuple[str, str], ...] = ()


def server_info(features: Features) -> dict[str, Any]:
    """Version, features, and the views in order."""
    return {
        "version": __version__,
        "auth": features.auth,
        "features": {
            "source_roots": features.source_roots,
            "perfetto": features.perfetto,
            "editor": features.editor,
        },
        "maps": [list(pair) for pair in features.maps],
        "pages": [
            {
                "name": name,
                "title": PAGES[name].title,
                "ranks": PAGES[name].ranks,
                "recorded": PAGES[name].recorded,
                "programs": list(PAGES[name].programs),
                "snapshots": PAGES[name].snapshots,
            }
            for name in menu()
        ],
    }


def run_list_info(listed: RunList) -> dict[str, Any]:
    """The runs, newest first."""
    return {"runs": [_listed_run(run) for run in listed.runs], "wrong": list(listed.wrong)}


def _listed_run(run: Run) -> dict[str, Any]:
    files = run.files
    return {
        "id": run.id,
        "name": files.name,
        "path": files.path,
        "state": state_of(run),
        "error": run.error,
        "version": run.version,
        "files": len(files.files),
        "bytes": files.bytes,
        "modified": files.modified or None,
        "ranks": None if run.ranks is None else list(run.ranks),
    }


def run_info(run: Run, rank: int | None, cycle: int, steps_by: str | None) -> dict[str, Any]:
    """A run, and the trace of one rank in it (the first one if none is named), which is read for it."""
    job = run.job
    rank = job.ranks[0] if rank is None else rank
    trace = run.trace(rank, cycle)
    return {
        **_listed_run(run),
        "ranks": list(job.ranks),
        "rank": rank,
        "cycle": cycle,
        "cycles": sum(source.rank == rank for source in job.sources),
        "damage": damage_of(trace),
        **_trace_info(trace, steps_by),
        "notes": [*job.notes, *(symptom.message for symptom in examine(trace))],
    }


def _trace_info(trace: Trace, steps_by: str | None) -> dict[str, Any]:
    """Steps, length, devices, streams and threads of a trace; times count from its first instant."""
    origin, work = origin_of_time(trace), device_work(trace)
    marks = steps(trace, steps_by)
    times = (marks.number, marks.device.start - origin, marks.device.end - origin)
    steady = set(steady_places(trace, steps_by).tolist())
    streams = _device_streams(trace)
    numbers = sorted({device for device, _ in streams} - {-1})
    end = max(int(trace.end.max()), int(work.end.max()) if len(work) else origin) if len(trace) else origin
    return {
        "duration": min(max(0, end - origin), MAX_INTEGER),
        "base": str(trace.base + origin),
        "origin": str(origin),  # time 0 of the page as the file counts: what `start` in tables of SQL counts from
        "events": trace.recorded,
        "program": SNAPSHOT if is_snapshot_alone(trace) else program_kind(trace),
        "steps": [
            {"step": step, "start": start, "end": end, "steady": place in steady}
            for place, (step, start, end) in enumerate(zip(*(each.tolist() for each in times), strict=True))
        ],
        "steps_rest_on": marks.origin,
        "step_names": [each.name for each in step_candidates(trace)],
        "devices": [{"device": number, "name": device_name(device_of(trace, number))} for number in numbers],
        "streams": [{"device": device, "stream": stream} for device, stream in streams],
        "threads": _threads(trace),
    }


@derived
def _device_streams(trace: Trace) -> tuple[tuple[int, int], ...]:
    """The device and the stream of all device work, each pair once, ascending."""
    work = device_work(trace)
    return tuple(map(tuple, np.unique(np.stack([work.device, work.stream]), axis=1).T.tolist()))


def _threads(trace: Trace) -> list[dict[str, Any]]:
    """Host threads with their names, those with most events first."""
    host = trace.track[np.isin(trace.kind, HOST_KINDS)]
    counts = np.bincount(host, minlength=len(trace.tracks))
    numbers, names = trace.tracks.integer_tids(), track_names(trace)
    order = np.argsort(-counts, kind="stable")
    return [
        {"thread": int(numbers[track]), "name": names[track].name, "process": names[track].process}
        for track in order.tolist()
        if counts[track]
    ]


def analyses_info() -> dict[str, Any]:
    """All analyses: their questions, parameters and columns."""
    return _analyses_info(names())


@cache
def _analyses_info(every: tuple[str, ...]) -> dict[str, Any]:
    listed = [{"title": title, "names": list(members)} for title, members in groups().items()]
    return {"groups": listed, "analyses": {name: _analysis(named(name)) for name in every}}


def _analysis(analysis: Analysis) -> dict[str, Any]:
    return {
        "title": analysis.title,
        "question": analysis.question,
        "doc": analysis.doc,
        "parameters": [{**all_fields(each), "type": kind_of(each)} for each in analysis.parameters],
        "columns": list(analysis.schema),
        "chart": analysis.chart is not None,
        "all_ranks": analysis.across_ranks,
    }


def tables_info() -> dict[str, Any]:
    """The tables that SQL sees."""
    tables = [{"name": name, "doc": table.doc, "columns": list(schema_of(name))} for name, table in TABLES.items()]
    return {"tables": tables}
