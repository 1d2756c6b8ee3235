"""Metadata for the page: the server, its runs, the analyses and the tables, without results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from kinetoscope import __version__
from kinetoscope.analyses import groups, named, names
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.device.hardware import device_of
from kinetoscope.model.device.names import device_name
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.program import program_kind
from kinetoscope.model.graphs.lost_work import damage_of
from kinetoscope.model.steps.proposed_steps import step_candidates
from kinetoscope.model.steps.scope import origin_of_time, steady_places
from kinetoscope.model.steps.steps import Steps, steps
from kinetoscope.model.tables.sql import schema_of
from kinetoscope.model.tables.tables import TABLES
from kinetoscope.model.timeline.tracks import track_names
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import HOST_KINDS
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages import ALONE_KINDS, PAGES, first_view, menu, views_of
from kinetoscope.server.json_encoding import MAX_INTEGER
from kinetoscope.server.query import kind_of
from kinetoscope.server.results.answers import (
    AnalysisFacts,
    AnalysisGroup,
    AnalysisList,
    DeviceStream,
    HostThread,
    ListedRun,
    ListedRuns,
    NamedDevice,
    PageName,
    ParameterFacts,
    RunInfo,
    RunStep,
    ServerFeatures,
    ServerInfo,
    SqlTable,
    SqlTables,
)
from kinetoscope.server.runs.run import Run, state_of
from kinetoscope.server.runs.workspace import RunList
from kinetoscope.views.exports.plain import all_fields


def server_info(features: ServerFeatures, *, auth: bool, maps: Sequence[tuple[str, str]]) -> ServerInfo:
    """Version, features, and the views in order."""
    views = [(name, PAGES[name]) for name in menu()]
    listed = [
        PageName(name, view.title, view.ranks, view.recorded, not view.programs and not view.needs)
        for name, view in views
    ]
    return ServerInfo(__version__, auth, features, maps, listed)


def run_list_info(listed: RunList) -> ListedRuns:
    """The runs, newest first."""
    return ListedRuns([_listed_run(run) for run in listed.runs], listed.wrong)


def _listed_run(run: Run) -> ListedRun:
    files = run.files
    return ListedRun(
        id=run.id,
        name=files.name,
        path=files.path,
        state=state_of(run),
        error=run.error,
        version=run.version,
        files=len(files.files),
        bytes=files.bytes,
        modified=files.modified or None,
        ranks=run.ranks,
    )


def run_info(run: Run, rank: int | None, cycle: int, steps_by: str | None) -> RunInfo:
    """A run, and the trace of one rank in it (the first one if none is named), which is read for it.

    Times count from the first instant of the trace.
    """
    job = run.job
    rank = job.ranks[0] if rank is None else rank
    trace = run.trace(rank, cycle)
    origin, work, marks = origin_of_time(trace), device_work(trace), steps(trace, steps_by)
    streams = _device_streams(trace)
    program = trace.source.reader if trace.source.reader in ALONE_KINDS else program_kind(trace)
    files = {kind for source in job.sources for kind in (source.reader, *source.companions)}
    end = max(int(trace.end.max()), int(work.end.max()) if len(work) else origin) if len(trace) else origin
    return RunInfo(
        **{**all_fields(_listed_run(run)), "ranks": job.ranks},
        rank=rank,
        cycle=cycle,
        cycles=sum(source.rank == rank for source in job.sources),
        damage=damage_of(trace) or "",
        duration=min(max(0, end - origin), MAX_INTEGER),
        base=str(trace.base + origin),
        origin=str(origin),
        events=trace.recorded,
        views=views_of(program, files),
        first_view=first_view(program),
        steps=_steps(trace, marks, steps_by),
        steps_rest_on=marks.origin,
        step_names=[each.name for each in step_candidates(trace)],
        devices=[
            NamedDevice(number, device_name(device_of(trace, number)))
            for number in sorted({device for device, _ in streams} - {-1})
        ],
        streams=[DeviceStream(device, stream) for device, stream in streams],
        threads=_threads(trace),
        notes=[*job.notes, *trace.health],
    )


def _steps(trace: Trace, marks: Steps, steps_by: str | None) -> list[RunStep]:
    origin = origin_of_time(trace)
    steady = np.isin(np.arange(len(marks)), steady_places(trace, steps_by))
    columns = (marks.number, marks.device.start - origin, marks.device.end - origin, steady)
    return [RunStep(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


@derived
def _device_streams(trace: Trace) -> tuple[tuple[int, int], ...]:
    """The device and the stream of all device work, each pair once, ascending."""
    work = device_work(trace)
    return tuple(map(tuple, np.unique(np.stack([work.device, work.stream]), axis=1).T.tolist()))


def _threads(trace: Trace) -> list[HostThread]:
    """Host threads with their names, those with most events first."""
    host = trace.track[np.isin(trace.kind, HOST_KINDS)]
    counts = np.bincount(host, minlength=len(trace.tracks))
    numbers, names = trace.tracks.integer_tids(), track_names(trace)
    order = np.argsort(-counts, kind="stable")
    return [
        HostThread(int(numbers[track]), names[track].name, names[track].process)
        for track in order.tolist()
        if counts[track]
    ]


def analyses_info() -> AnalysisList:
    """All analyses: their questions, parameters and columns."""
    return _analyses_info(names())


@cache
def _analyses_info(every: tuple[str, ...]) -> AnalysisList:
    listed = [AnalysisGroup(title, list(members)) for title, members in groups().items()]
    return AnalysisList(listed, {name: _analysis(named(name)) for name in every})


def _analysis(analysis: Analysis) -> AnalysisFacts:
    return AnalysisFacts(
        title=analysis.title,
        question=analysis.question,
        doc=analysis.doc,
        parameters=[
            ParameterFacts(each.name, kind_of(each), each.default, each.doc, each.unit, each.choices)
            for each in analysis.parameters
        ],
        columns=list(analysis.schema),
        chart=analysis.chart is not None,
        all_ranks=analysis.across_ranks,
    )


def tables_info() -> SqlTables:
    """The tables that SQL sees."""
    return SqlTables([SqlTable(name, table.doc, list(schema_of(name))) for name, table in TABLES.items()])
