"""The routes: what can be asked of the server, and who answers. `application` is the whole of it as ASGI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from kinetoscope import pages
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import settled
from kinetoscope.pages import View
from kinetoscope.pages.parts.blocks import to_plain
from kinetoscope.server.errors import AbsurdError, MissingError
from kinetoscope.server.http import perfetto
from kinetoscope.server.http.access import Rules
from kinetoscope.server.http.application import front
from kinetoscope.server.http.endpoint import Asked, Work, endpoint, json_response
from kinetoscope.server.http.responses import JSON, refused
from kinetoscope.server.json_encoding import to_json
from kinetoscope.server.query import Part, integer, own, part
from kinetoscope.server.results import metadata as facts
from kinetoscope.server.results.routes import Results
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.source_code import Sources
from kinetoscope.server.sql import routes as sql
from kinetoscope.server.sql.process import stop
from kinetoscope.views.text import nearest

_MOST: Final = 20
"""Runs that a page about all of them is about."""


@dataclass(frozen=True)
class Server:
    """What answers: a workspace, where sources may be read, which editor opens files."""

    workspace: Workspace
    sources: Sources = field(default_factory=Sources)
    editor: str = ""
    auth: bool = False
    _told: dict[str, str] = field(default_factory=dict, init=False)
    """What is being worked on for a page about many runs, by the run that is open."""

    def prepare(self) -> None:
        """Answer what a page asks first, about the newest run, before it asks."""
        for run in self.workspace.runs().runs[:1]:
            with suppress(Exception):  # told, or raised, when it is asked for
                asked = Asked({"run": run.id, "page": next(iter(pages.PAGES))}, QueryParams(), Headers())
                self.page(asked)
                self.run(asked)

    def server(self, _: Asked) -> Response:
        """`api/server`."""
        features = facts.Features(
            auth=self.auth,
            source_roots=bool(self.sources.roots),
            perfetto=perfetto.folder() is not None,
            editor=self.editor,
            maps=self.sources.maps,
        )
        return json_response(facts.of_server(features))

    def runs(self, _: Asked) -> Response:
        """`api/runs`."""
        return json_response(facts.of_runs(self.workspace.runs()))

    def run(self, asked: Asked) -> Response:
        """`api/runs/{run}`."""
        which = part(asked.query)
        rank = which.ranks[0] if which.ranks else None
        run = self.workspace.run(asked.path["run"])
        return json_response(facts.of_run(run, rank, which.cycle or 0, which.select.steps_by))

    def progress(self, asked: Asked) -> Response:
        """`api/runs/{run}/progress`."""
        run = self.workspace.run(asked.path["run"])
        now, told = self.workspace.progress(run), self._told.get(run.id, "")
        return json_response({"done": now.done, "total": now.total, "what": told or now.what})

    def analyses(self, _: Asked) -> Response:
        """`api/analyses`."""
        return json_response(facts.of_analyses())

    def page(self, asked: Asked) -> Response:
        """`api/runs/{run}/pages/{page}`."""
        name, which, params = asked.path["page"], part(asked.query), own(asked.query)
        view = pages.PAGES.get(name)
        if view is None or not view.composed:
            composed = [each for each, about in pages.PAGES.items() if about.composed]
            raise MissingError(f"there is no page {name[:60]!r}{nearest(name[:60], composed)}")
        run, base = self.workspace.run(asked.path["run"]), asked.query.get("base", "")
        ranks = ranks_of(view, which, run.job)
        select = which.select if view.recorded else settled(which.select)
        module = _composer(name)
        key = ("page", name, run.id, run.version, ranks, which.cycle, select, tuple(sorted(params.items())))

        def compose() -> bytes:
            job = run.part(ranks, which.cycle)
            more: dict[str, Any] = {"base": self._like(base, ranks, which.cycle)} if view.runs > 1 else {}
            if view.runs == pages.ALL:
                more = {"runs": self._all_like(run, runs, ranks, which.cycle), "listed": self._readable()}
            page = module.page(job, select, params, **more)
            facts = (*_of_ranks(view, which, job, run.job), *page.facts)
            return to_json(to_plain(replace(page, facts=facts, select=as_query(ranks))))

        if view.runs > 1 and not base:
            raise AbsurdError("choose a run to compare with", "base=, one of the list of runs.")
        version = self.workspace.run(base).version if base else ""
        runs = self._oldest_first(run) if view.runs == pages.ALL else ()
        versions = tuple((each.id, each.version) for each in runs)
        body = self.workspace.answers.get((*key, base, version, versions), compose, len)
        return Response(body, media_type=JSON)

    def _like(self, base: str, ranks: tuple[int, ...] | None, cycle: int | None) -> Job:
        """The same ranks of another run; of one that has none of them, the first."""
        run = self.workspace.run(base)
        there = ranks is None or set(ranks) & set(run.job.ranks)
        return run.part(ranks if there else run.job.ranks[:1], cycle)

    def _readable(self) -> int:
        """How many runs can be read."""
        return sum(not run.error for run in self.workspace.runs().runs)

    def _oldest_first(self, own: Run) -> tuple[Run, ...]:
        """The runs that can be read, at most the newest `_MOST`, and the open one."""
        listed = [run for run in self.workspace.runs().runs if not run.error]
        return tuple(reversed([run for place, run in enumerate(listed) if place < _MOST or run.id == own.id]))

    def _all_like(
        self, own: Run, runs: Sequence[Run], ranks: tuple[int, ...] | None, cycle: int | None
    ) -> Iterator[Job]:
        """The same ranks of each run, as they are asked for; a run that cannot be opened after all is left out."""
        try:
            for place, run in enumerate(runs, 1):
                self._told[own.id] = f"comparing run {place} of {len(runs)}"
                with suppress(KinetoscopeError):
                    yield self._like(run.id, ranks, cycle)
        finally:
            self._told.pop(own.id, None)

    def tables(self, _: Asked) -> Response:
        """`api/runs/{run}/sql`: the tables that a query may name."""
        return json_response(facts.of_tables())

    def sql(self, asked: Asked) -> Response:
        """`api/runs/{run}/sql` as POST."""
        run, query = self.workspace.run(asked.path["run"]), sql.query(asked.body)
        sql.require_harmless(query.text)
        which = part(asked.query)
        ranks = which.ranks if not which.chosen else None
        key = ("sql", run.id, run.version, ranks, which.cycle, query.text)
        result = self.workspace.answers.get(
            key,
            lambda: sql.answered(run.part(ranks, which.cycle), query.text, query.ticket),
            lambda result: int(result.frame.estimated_size()),
        )
        arranged = Asked(asked.path, QueryParams(list(query.options)), asked.headers)
        name = f"{run.files.name}-query"
        return Results(self.workspace).answer(key, result, arranged, name=name, params=result.params)

    def stop_sql(self, asked: Asked) -> Response:
        """`api/runs/{run}/sql/stop` as POST."""
        stop(sql.stopped(asked.body))
        return json_response({})

    def source(self, asked: Asked) -> Response:
        """`api/runs/{run}/source`."""
        line = integer("line", asked.query.get("line", "1"), low=0, high=10**9)
        around = asked.query.get("around", "")
        lines = integer("around", around, low=0, high=10**6) if around else None
        return json_response(self.sources.lines(asked.query.get("file", ""), line, lines))


def ranks_of(view: View, which: Part, job: Job) -> tuple[int, ...] | None:
    """The ranks that a view is about; None for all."""
    if view.ranks == "one" and not which.named:
        return job.ranks[:1]
    if view.ranks == "one" and not view.sums:
        return (which.ranks or job.ranks)[:1]
    return which.of(all_ranks=view.ranks == "all")


def _of_ranks(view: View, which: Part, shown: Job, whole: Job) -> Iterator[str]:
    """What the numbers of a view of one rank are, where several are chosen."""
    several = len(which.ranks or whole.ranks) if which.named else 1
    if view.ranks != "one" or several < 2:
        return
    yield f"sum over {len(shown.ranks)} ranks" if view.sums else f"of rank {shown.ranks[0]}: one rank at a time"


def as_query(ranks: tuple[int, ...] | None) -> dict[str, str]:
    """The same as an address names them."""
    if ranks is None:
        return {"ranks": "all"}
    return {"rank" if len(ranks) == 1 else "ranks": ",".join(map(str, ranks))}


def routes(server: Server) -> list[BaseRoute]:
    """All that can be asked, below `api/`."""
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
        get("/runs/{run}/sql", server.tables, quick=True),
        Route("/runs/{run}/sql", endpoint(workspace, server.sql), methods=["POST"]),
        Route("/runs/{run}/sql/stop", endpoint(workspace, server.stop_sql, quick=True), methods=["POST"]),
        get("/runs/{run}/source", server.source),
        *_timeline(workspace),
    ]


def api(server: Server) -> ASGIApp:
    """The API as ASGI, below `/api`."""
    mount = Mount("/api", routes=routes(server))
    return Starlette(routes=[mount], exception_handlers={HTTPException: _no_such_route})


def application(server: Server, rules: Rules | None) -> ASGIApp:
    """The server with its front end as ASGI; without `rules` whoever reaches it may ask (another server guards it)."""
    return front(lambda: api(server), rules)


async def _no_such_route(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refused(status, {404: "there is no such thing here", 405: "that is not done this way"}.get(status, "no"))


def _timeline(workspace: Workspace) -> list[Route]:
    try:
        from kinetoscope.server.timeline.routes import timeline_routes  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:  # not written yet
        return []
    found: list[Route] = timeline_routes(workspace)
    return found


def _composer(name: str) -> Any:
    try:
        return pages.named(name)
    except ModuleNotFoundError as error:
        if error.name != f"{pages.__name__}.{name}":
            raise
        raise MissingError(f"the page {name!r} is not written yet") from error
