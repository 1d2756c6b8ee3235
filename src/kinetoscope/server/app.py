"""The routes of the API and what answers them; `application` is the whole server as ASGI."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from kinetoscope import pages
from kinetoscope.compare.trials.tried import FILE, folder_of
from kinetoscope.errors import KinetoscopeError, nearest
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import default_to_steady
from kinetoscope.pages import View
from kinetoscope.pages.answered import page_of
from kinetoscope.pages.blocks import Page
from kinetoscope.readers.files.stream import is_url
from kinetoscope.schema import Result
from kinetoscope.server.errors import BadValueError, MissingError, refused
from kinetoscope.server.history.routes import history_routes
from kinetoscope.server.http import perfetto
from kinetoscope.server.http.access import Rules
from kinetoscope.server.http.application import front
from kinetoscope.server.http.endpoint import ApiRequest, JsonResponse, Work, cached_response, endpoint, json_response
from kinetoscope.server.http.in_process_client import InProcessClient
from kinetoscope.server.memory.routes import memory_routes
from kinetoscope.server.query import RunPart, integer, numbers, own_parameters, run_part
from kinetoscope.server.report import page_of_run, pages_of_report
from kinetoscope.server.results import metadata
from kinetoscope.server.results.answers import (
    AnalysisList,
    ListedRuns,
    RunInfo,
    ServerFeatures,
    ServerInfo,
    SqlTables,
    TableAnswer,
)
from kinetoscope.server.results.routes import Results
from kinetoscope.server.runs.notes import Notes, TimelineNotes, change
from kinetoscope.server.runs.progress import ReadProgress
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.source_code import Sources, SourceText
from kinetoscope.server.sql.lane import QueryLanes, lane_answer, require_places
from kinetoscope.server.sql.process import stop
from kinetoscope.server.sql.routes import Query, parsed_query, query_result, require_harmless, ticket_to_stop
from kinetoscope.server.timeline.request import MAX_RANKS
from kinetoscope.server.timeline.routes import timeline_routes

MAX_RUNS_OF_A_PAGE: Final = 20
"""Runs on a page about all of them: the newest."""


@dataclass(frozen=True)
class Server:
    """A workspace, the folders whose sources may be read, the editor that opens files; a method for each route."""

    workspace: Workspace
    sources: Sources = field(default_factory=Sources)
    editor: str = ""
    auth: bool = False
    _activity: dict[str, str] = field(default_factory=dict, init=False)
    """The run that a page about many runs is reading, by the run that is open."""

    def prepare(self) -> None:
        """Answer in advance what a page asks first about the newest run."""
        for run in self.workspace.runs().runs[:1]:
            with suppress(Exception):  # raised again when the page asks
                first = pages.first_view(self.workspace.run(run.id).trace().source.reader)
                if first == pages.HISTORY:  # its page shows the run before it says what it did
                    return
                request = ApiRequest({"run": run.id, "page": first}, QueryParams(), Headers())
                self.page(request)
                self.run(request)

    def server(self, _: ApiRequest) -> JsonResponse[ServerInfo]:
        """`api/server`."""
        features = ServerFeatures(bool(self.sources.roots), perfetto.folder() is not None, self.editor)
        return json_response(metadata.server_info(features, auth=self.auth, maps=self.sources.maps))

    def runs(self, _: ApiRequest) -> JsonResponse[ListedRuns]:
        """`api/runs`."""
        return json_response(metadata.run_list_info(self.workspace.runs()))

    def run(self, request: ApiRequest) -> JsonResponse[RunInfo]:
        """`api/runs/{run}`."""
        part = run_part(request.query)
        rank = part.ranks[0] if part.ranks else None
        run = self.workspace.run(request.path["run"])
        return json_response(metadata.run_info(run, rank, part.cycle or 0, part.select.steps_by))

    def progress(self, request: ApiRequest) -> JsonResponse[ReadProgress]:
        """`api/runs/{run}/progress`."""
        run = self.workspace.run(request.path["run"])
        progress = self.workspace.progress(run)
        return json_response(replace(progress, what=self._activity.get(run.id) or progress.what))

    def analyses(self, _: ApiRequest) -> JsonResponse[AnalysisList]:
        """`api/analyses`."""
        return json_response(metadata.analyses_info())

    def page(self, request: ApiRequest) -> JsonResponse[Page]:
        """`api/runs/{run}/pages/{page}`."""
        name, part, params = request.path["page"], run_part(request.query), own_parameters(request.query)
        view = pages.PAGES.get(name)
        if view is None or not view.composed:
            composed = [each for each, about in pages.PAGES.items() if about.composed]
            raise MissingError(f"there is no page {name[:60]!r}{nearest(name[:60], composed)}")
        run, base = self.workspace.run(request.path["run"]), request.query.get("base", "")
        ranks = ranks_of(view, part, run.job)
        select = part.select if view.recorded else default_to_steady(part.select)
        key = ("page", name, run.id, run.version, ranks, part.cycle, select, tuple(sorted(params.items())))

        def compose() -> Page:
            job = run.part(ranks, part.cycle)
            more: dict[str, Any] = {"base": self._same_ranks(base, ranks, part.cycle)} if view.runs > 1 else {}
            if view.runs == pages.ALL:
                readable = sum(not each.error for each in self.workspace.runs().runs)
                more = {"runs": self._same_ranks_of_all(run, runs, ranks, part.cycle), "listed": readable}
            page = page_of(name, job, part.select, params, **more)
            facts = (*_about_ranks(view, part, job, run.job), *page.facts)
            return replace(page, facts=facts, select=as_query(ranks))

        if view.runs > 1 and not base:
            raise BadValueError("choose a run to compare with", "base=, one of the list of runs.")
        version = self.workspace.run(base).version if base else ""
        runs = self._oldest_first(run, params.get(pages.CHOSEN, "")) if view.runs == pages.ALL else ()
        versions = (*((each.id, each.version) for each in runs), _version_of_trials(run) if runs else "")
        return cached_response(self.workspace.answers, (*key, base, version, versions), compose)

    def _same_ranks(self, base: str, ranks: tuple[int, ...] | None, cycle: int | None) -> Job:
        """The same ranks of another run; of one that has none of them, the first."""
        run = self.workspace.run(base)
        has_some = ranks is None or set(ranks) & set(run.job.ranks)
        return run.part(ranks if has_some else run.job.ranks[:1], cycle)

    def _oldest_first(self, own: Run, chosen: str) -> tuple[Run, ...]:
        """The chosen runs, else at most the newest `MAX_RUNS_OF_A_PAGE`; readable ones, and the open one."""
        readable = [run for run in self.workspace.runs().runs if not run.error]
        wanted = set(chosen.split(",")) if chosen else {run.id for run in readable[:MAX_RUNS_OF_A_PAGE]}
        return tuple(run for run in reversed(readable) if run.id in wanted or run.id == own.id)

    def _same_ranks_of_all(
        self, own: Run, runs: Sequence[Run], ranks: tuple[int, ...] | None, cycle: int | None
    ) -> Iterator[tuple[str, Job]]:
        """Id and the same ranks of each run, one after another, without the runs that cannot be opened after all."""
        try:
            for place, run in enumerate(runs, 1):
                self._activity[own.id] = f"comparing run {place} of {len(runs)}"
                with suppress(KinetoscopeError):
                    yield run.id, self._same_ranks(run.id, ranks, cycle)
        finally:
            self._activity.pop(own.id, None)

    def notes(self, request: ApiRequest) -> JsonResponse[TimelineNotes]:
        """`api/runs/{run}/notes`; as POST with one that is new or changed, or the id of one to delete."""
        notes = Notes(self.workspace.run(request.path["run"]).files.path)
        if request.body:
            change(notes, request.body)
        return json_response(notes.read())

    def report(self, request: ApiRequest) -> Response:
        """`api/runs/{run}/report`: the page about a run as one HTML file, with the selection of the header."""
        run_part(request.query)  # errors in these come before anything is read
        run = self.workspace.run(request.path["run"])
        body = report_of(self, run.id, pages_of_report(), dict(request.query))
        return Response(body, media_type="text/html", headers={"Content-Disposition": "attachment"})

    def tables(self, _: ApiRequest) -> JsonResponse[SqlTables]:
        """`api/runs/{run}/sql`: the tables that a query may name."""
        return json_response(metadata.tables_info())

    def sql(self, request: ApiRequest) -> JsonResponse[TableAnswer] | Response:
        """`api/runs/{run}/sql` as POST."""
        run, query, key, result = self._query(request)
        arranged = ApiRequest(request.path, QueryParams(list(query.options)), request.headers)
        name = f"{run.files.name}-query"
        return Results(self.workspace).answer(key, result, arranged, name=name, params=result.params)

    def sql_lane(self, request: ApiRequest) -> JsonResponse[QueryLanes]:
        """`api/runs/{run}/sql/lane` as POST: the rows on the timelines of the ranks in `drawn`."""
        cycle = run_part(request.query).cycle or 0
        run, _, _, result = self._query(request, cycle)
        drawn = numbers("drawn", request.query.get("drawn", "") or str(run.job.ranks[0]))[:MAX_RANKS]
        require_places(result, len(run.job.ranks))
        return json_response(lane_answer(result, [run.trace(rank, cycle) for rank in drawn]))

    def _query(self, request: ApiRequest, cycle: int | None = None) -> tuple[Run, Query, tuple[Any, ...], Result]:
        run, query = self.workspace.run(request.path["run"]), parsed_query(request.body)
        require_harmless(query.text)
        part = run_part(request.query)
        ranks = part.ranks if not part.by_header else None
        cycle = part.cycle if cycle is None else cycle
        key = ("sql", run.id, run.version, ranks, cycle, query.text)
        result = self.workspace.answers.get(key, lambda: query_result(run.part(ranks, cycle), query.text, query.ticket))
        return run, query, key, result

    def stop_sql(self, request: ApiRequest) -> JsonResponse[Mapping[str, Any]]:
        """`api/runs/{run}/sql/stop` as POST."""
        stop(ticket_to_stop(request.body))
        return JsonResponse(b"{}")

    def source(self, request: ApiRequest) -> JsonResponse[SourceText]:
        """`api/runs/{run}/source`."""
        line = integer("line", request.query.get("line", "1"), low=0, high=10**9)
        around = request.query.get("around", "")
        lines = integer("around", around, low=0, high=10**6) if around else None
        return json_response(self.sources.lines(request.query.get("file", ""), line, lines))


def _version_of_trials(run: Run) -> str:
    """Changes when the result of the trials of which this is a run does; "" where there is none."""
    folder = None if is_url(run.files.path) else folder_of(run.files.path)
    with suppress(OSError):
        return "" if folder is None else str((folder / FILE).stat().st_mtime_ns)
    return ""


def ranks_of(view: View, part: RunPart, job: Job) -> tuple[int, ...] | None:
    """The ranks that a view is about; None for all."""
    if view.ranks == "one" and not part.named:
        return job.ranks[:1]
    if view.ranks == "one" and not view.sums:
        return (part.ranks or job.ranks)[:1]
    return part.ranks_to_ask(all_ranks=view.ranks == "all")


def _about_ranks(view: View, part: RunPart, shown: Job, whole: Job) -> Iterator[str]:
    """The ranks whose numbers a view of one rank shows, where several are selected."""
    several = len(part.ranks or whole.ranks) if part.named else 1
    if view.ranks == "one" and several > 1:
        yield f"sum over {len(shown.ranks)} ranks" if view.sums else f"of rank {shown.ranks[0]}: one rank at a time"


def as_query(ranks: tuple[int, ...] | None) -> dict[str, str]:
    """Ranks as the query of a URL."""
    if ranks is None:
        return {"ranks": "all"}
    return {"rank" if len(ranks) == 1 else "ranks": ",".join(map(str, ranks))}


def routes(server: Server) -> list[BaseRoute]:
    """All routes below `api/`."""
    workspace, results = server.workspace, Results(server.workspace)

    def get(path: str, work: Work, *, quick: bool = False) -> Route:
        return Route(path, endpoint(workspace, work, quick=quick), methods=["GET"])

    return [
        get("/server", server.server, quick=True),
        get("/analyses", server.analyses, quick=True),
        get("/runs", server.runs, quick=True),
        get("/runs/{run}", server.run),
        get("/runs/{run}/progress", server.progress, quick=True),
        get("/runs/{run}/analyses/{name}", results.table),
        get("/runs/{run}/analyses/{name}/chart", results.chart),
        get("/runs/{run}/pages/{page}", server.page),
        get("/runs/{run}/report", server.report),
        get("/runs/{run}/sql", server.tables, quick=True),
        Route("/runs/{run}/sql", endpoint(workspace, server.sql), methods=["POST"]),
        Route("/runs/{run}/sql/lane", endpoint(workspace, server.sql_lane), methods=["POST"]),
        Route("/runs/{run}/sql/stop", endpoint(workspace, server.stop_sql, quick=True), methods=["POST"]),
        get("/runs/{run}/source", server.source),
        Route("/runs/{run}/notes", endpoint(workspace, server.notes, quick=True), methods=["GET", "POST"]),
        *timeline_routes(workspace, results),
        *memory_routes(workspace),
        *history_routes(workspace),
    ]


def answered(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """The type that each endpoint answers with as JSON, by method and path; what answers with bytes is not here."""
    types: dict[str, Any] = {}
    for route in (each for each in routes if isinstance(each, Route)):
        hint = get_type_hints(inspect.unwrap(route.endpoint))["return"]
        for each in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
            if get_origin(each) is JsonResponse:
                method = "GET" if "GET" in (route.methods or ()) else "POST"
                (types[f"{method} {route.path}"],) = get_args(each)
    return types


def api(server: Server) -> ASGIApp:
    """The API as ASGI, below `/api`."""
    mount = Mount("/api", routes=routes(server))
    return Starlette(routes=[mount], exception_handlers={HTTPException: _no_such_route})


def application(server: Server, rules: Rules | None) -> ASGIApp:
    """The server with its front end as ASGI; without `rules` any client may ask (another server guards it)."""
    return front(lambda: api(server), rules)


def client_of(server: Server) -> InProcessClient:
    """Asks the server in this process."""
    return InProcessClient(application(server, None))


def report_of(server: Server, run: str, sections: Sequence[str], select: Mapping[str, str]) -> bytes:
    """The report of a run as an HTML file, see `page_of_run`; of trials with what came of them."""
    if tuple(sections) == pages_of_report() and _version_of_trials(server.workspace.run(run)):
        sections = (*sections, "ledger")
    inside = client_of(server)
    with inside.asked_often():
        return page_of_run(inside, run, sections, select, shows_sources=bool(server.sources.roots))


async def _no_such_route(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refused(status, {404: "there is no such page", 405: "this address takes another method"}.get(status, "no"))
