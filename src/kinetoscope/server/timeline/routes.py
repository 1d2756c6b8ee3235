"""The part of the API that the timeline asks: lanes, tiles, an event, searches, a range as numbers or as a file."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from kinetoscope.algorithms.layout.pyramid import MAX_SCALE
from kinetoscope.model.timeline.cut import rows_between
from kinetoscope.model.timeline.event import EventDetails, event_details
from kinetoscope.model.timeline.replays import place_of
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import BadValueError, MissingError
from kinetoscope.server.http.endpoint import ApiRequest, JsonResponse, cached_response, endpoint, json_response
from kinetoscope.server.query import run_part
from kinetoscope.server.results.routes import Results
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.timeline.answers import PathRuns, RangeAnswer, TimelineLanes
from kinetoscope.server.timeline.area import Areas
from kinetoscope.server.timeline.lanes import lanes_answer, named
from kinetoscope.server.timeline.path import PATH_LANE, path_answer
from kinetoscope.server.timeline.range import range_answer
from kinetoscope.server.timeline.request import row_of, trace_of, traces_of, whole
from kinetoscope.server.timeline.search_routes import SearchRoutes
from kinetoscope.server.timeline.tile import FORM, tile
from kinetoscope.views.exports import perfetto

_MAX_EVENTS_OF_FILE: Final = 1_000_000
"""Events that are taken out into a file; to write them takes half a minute."""

_BY_MODULE: Final = "module"
"""The colour of marks that is by module; without it they have hues by name."""

_BINARY_TYPE: Final = "application/octet-stream"


def timeline_routes(workspace: Workspace, results: Results) -> list[Route]:
    """The routes, below `api/`."""
    areas = Areas(workspace, results, drawn=traces_of)

    def lanes(request: ApiRequest) -> JsonResponse[TimelineLanes]:
        run, about = workspace.run(request.path["run"]), run_part(request.query)
        by = about.select.steps_by
        with_path = bool(request.query.get("path"))
        question = ("timeline lanes", run.id, run.version, about.ranks, about.cycle, by, with_path)
        return cached_response(
            workspace.answers,
            question,
            lambda: lanes_answer(traces_of(run, request), _version(run), by, path=with_path),
        )

    def one_tile(request: ApiRequest) -> Response:
        run = workspace.run(request.path["run"])
        scale, number = whole(request, "z", 0, MAX_SCALE), whole(request, "i")
        names = request.query.get("lanes")
        chosen = None if names is None else [name for name in names.split(",") if name]
        trace, colour = trace_of(run, request), request.query.get("colour", "")
        tag = _tag(run, str(trace.source.rank), str(trace.source.cycle), str(scale), str(number), names or "*", colour)
        headers = {"ETag": tag, "Cache-Control": _caching(run, request)}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        with_path = PATH_LANE in (chosen or ())
        own = None if chosen is None else [name for name in chosen if name != PATH_LANE]
        by_module = colour == _BY_MODULE
        content = tile(trace, scale, number, *named(trace, own), by_module=by_module, with_path=with_path)
        return Response(content, media_type=_BINARY_TYPE, headers=headers)

    def event(request: ApiRequest) -> JsonResponse[EventDetails]:
        trace = trace_of(workspace.run(request.path["run"]), request)
        row = row_of(request, trace, "row")
        if place_of(trace, row).lane is None:
            raise MissingError(f"event {row} is not in the timeline", "It is a name, a flow, a counter or memory.")
        return json_response(event_details(trace, row, run_part(request.query).select.steps_by))

    def in_range(request: ApiRequest) -> JsonResponse[RangeAnswer]:
        run, time = workspace.run(request.path["run"]), _time(request)
        by = run_part(request.query).select.steps_by
        trace = trace_of(run, request)
        modules = request.query.get("colour") == _BY_MODULE
        question = ("timeline range", run.id, run.version, trace.source.rank, trace.source.cycle, time, by, modules)
        return cached_response(workspace.answers, question, lambda: range_answer(trace, *time, by, modules=modules))

    def path(request: ApiRequest) -> JsonResponse[PathRuns]:
        """The line of the critical path in a range."""
        trace, time = trace_of(workspace.run(request.path["run"]), request), _time(request)
        return json_response(path_answer(trace, *time))

    def cut(request: ApiRequest) -> Response:
        trace = trace_of(workspace.run(request.path["run"]), request)
        return _file(trace, *_time(request))

    searches = SearchRoutes(workspace, results)
    answers = {
        "lanes": lanes,
        "tile": one_tile,
        "event": event,
        "search": searches.search,
        "hits": searches.hits,
        "range": in_range,
        "path": path,
        "area": areas.table,
        "occurrence": areas.occurrence,
    }
    routes = [(f"/runs/{{run}}/timeline/{name}", answer) for name, answer in answers.items()]
    routes.append(("/runs/{run}/cut", cut))
    return [Route(path, endpoint(workspace, answer), methods=["GET"]) for path, answer in routes]


def _time(request: ApiRequest) -> tuple[int, int]:
    time = run_part(request.query).select.time
    if time is None:
        raise BadValueError("time is missing: it takes two times, as 10ms..20ms")
    return time


def _file(trace: Trace, begin: int, end: int) -> Response:
    """The range as Perfetto reads it."""
    rows = rows_between(trace, begin, end)
    if len(rows) > _MAX_EVENTS_OF_FILE:
        message = f"there are {len(rows):,} events in this range; {_MAX_EVENTS_OF_FILE:,} can be taken out"
        raise BadValueError(message, "Zoom in on a shorter range.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.json.gz"
        perfetto.write(trace, path, rows=rows)
        content = path.read_bytes()
    name = f"rank{listed([trace.source.rank])}_{begin}-{end}.json.gz"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-cache"}
    return Response(content, media_type="application/gzip", headers=headers)


def _version(run: Run) -> str:
    """Changes with the files of a run, and with the form of tiles."""
    return f"{run.version}.{FORM}"


def _tag(run: Run, *what: str) -> str:
    text = "\n".join((run.id, _version(run), *what))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:20]}"'


def _caching(run: Run, request: ApiRequest) -> str:
    """A tile whose address names the version never changes."""
    if request.query.get("v") == _version(run):
        return "private, max-age=31536000, immutable"
    return "private, no-cache"
