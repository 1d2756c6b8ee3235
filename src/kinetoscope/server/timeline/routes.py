"""The part of the API that the timeline asks: lanes, tiles, an event, a search, a range as numbers or as a file."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from kinetoscope.algorithms.layout.pyramid import MAX_SCALE
from kinetoscope.model.timeline.cut import rows_between
from kinetoscope.model.timeline.event import event_details
from kinetoscope.model.timeline.layout import timeline
from kinetoscope.model.timeline.search import search
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import JSON, BadValueError, MissingError
from kinetoscope.server.http.endpoint import ApiRequest, endpoint, json_response
from kinetoscope.server.json_encoding import to_json
from kinetoscope.server.query import integer, run_part
from kinetoscope.server.results.routes import Results
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.timeline.area import Areas
from kinetoscope.server.timeline.lanes import lanes_answer, named
from kinetoscope.server.timeline.range import range_answer
from kinetoscope.server.timeline.tile import tile
from kinetoscope.views.exports import perfetto

MAX_RANKS: Final = 64
"""Ranks that are drawn beneath one another."""

_MAX_SEARCH_CHARACTERS: Final = 500
_MAX_EVENTS_OF_FILE: Final = 1_000_000
"""Events that are taken out into a file; to write them takes half a minute."""

_BINARY_TYPE: Final = "application/octet-stream"


def timeline_routes(workspace: Workspace, results: Results) -> list[Route]:
    """The routes, below `api/`."""
    areas = Areas(workspace, results, drawn=_traces)

    def lanes(request: ApiRequest) -> Response:
        run, about = workspace.run(request.path["run"]), run_part(request.query)
        by = about.select.steps_by
        question = ("timeline lanes", run.id, run.version, about.ranks, about.cycle, by)
        body = workspace.answers.get(question, lambda: to_json(lanes_answer(_traces(run, request), run.version, by)))
        return Response(body, media_type=JSON)

    def one_tile(request: ApiRequest) -> Response:
        run = workspace.run(request.path["run"])
        scale, number = _whole(request, "z", 0, MAX_SCALE), _whole(request, "i")
        names = request.query.get("lanes")
        chosen = None if names is None else [name for name in names.split(",") if name]
        trace = _trace(run, request)
        tag = _tag(run, str(trace.source.rank), str(trace.source.cycle), str(scale), str(number), names or "*")
        headers = {"ETag": tag, "Cache-Control": _caching(run, request)}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        content = tile(trace, scale, number, *named(trace, chosen))
        return Response(content, media_type=_BINARY_TYPE, headers=headers)

    def event(request: ApiRequest) -> Response:
        trace = _trace(workspace.run(request.path["run"]), request)
        row = _row(request, trace, "row")
        if timeline(trace).layer[row] < 0:
            raise MissingError(f"event {row} is not in the timeline", "It is a name, a flow, a counter or memory.")
        return json_response(event_details(trace, row, run_part(request.query).select.steps_by))

    def search_events(request: ApiRequest) -> Response:
        trace = _trace(workspace.run(request.path["run"]), request)
        return json_response(search(trace, **_searched(request, trace)))

    def in_range(request: ApiRequest) -> Response:
        run, time = workspace.run(request.path["run"]), _time(request)
        by = run_part(request.query).select.steps_by
        trace = _trace(run, request)
        question = ("timeline range", run.id, run.version, trace.source.rank, trace.source.cycle, time, by)
        body = workspace.answers.get(question, lambda: to_json(range_answer(trace, *time, by)))
        return Response(body, media_type=JSON)

    def cut(request: ApiRequest) -> Response:
        trace = _trace(workspace.run(request.path["run"]), request)
        return _file(trace, *_time(request))

    answers = {"lanes": lanes, "tile": one_tile, "event": event, "search": search_events, "range": in_range}
    answers |= {"area": areas.table, "occurrence": areas.occurrence}
    routes = [(f"/runs/{{run}}/timeline/{name}", answer) for name, answer in answers.items()]
    routes.append(("/runs/{run}/cut", cut))
    return [Route(path, endpoint(workspace, answer), methods=["GET"]) for path, answer in routes]


def _trace(run: Run, request: ApiRequest) -> Trace:
    """The trace of the rank that is named; of the first one if none is."""
    part = run_part(request.query)
    return run.trace(part.ranks[0] if part.ranks else None, part.cycle or 0)


def _traces(run: Run, request: ApiRequest) -> Sequence[Trace]:
    part = run_part(request.query)
    if part.ranks is None:
        return [run.trace(None, part.cycle or 0)]
    if len(part.ranks) > MAX_RANKS:
        raise BadValueError(f"{len(part.ranks):,} ranks are too many to be drawn; {MAX_RANKS} are possible")
    return [run.trace(rank, part.cycle or 0) for rank in part.ranks]


def _whole(request: ApiRequest, name: str, low: int | None = None, high: int | None = None) -> int:
    bounds = {key: value for key, value in (("low", low), ("high", high)) if value is not None}
    return integer(name, request.query.get(name, ""), **bounds)


def _row(request: ApiRequest, trace: Trace, name: str) -> int:
    row = _whole(request, name)
    if not 0 <= row < len(trace):
        raise MissingError(f"rank {trace.source.rank} has no event {row}; it has {len(trace):,}")
    return row


def _searched(request: ApiRequest, trace: Trace) -> dict[str, Any]:
    text = request.query.get("q", "")
    if not text or len(text) > _MAX_SEARCH_CHARACTERS:
        raise BadValueError(f"q has {len(text):,} characters; a search takes 1 to {_MAX_SEARCH_CHARACTERS:,}")
    direction = request.query.get("direction", "next")
    if direction not in ("next", "previous"):
        raise BadValueError("direction is neither next nor previous")
    ends = [_whole(request, name) if request.query.get(name) else None for name in ("start", "end")]
    after = _row(request, trace, "after") if request.query.get("after") else None
    return {"text": text, "after": after, "direction": direction, "begin": ends[0], "end": ends[1]}


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


def _tag(run: Run, *what: str) -> str:
    text = "\n".join((run.id, run.version, *what))
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:20]}"'


def _caching(run: Run, request: ApiRequest) -> str:
    """A tile whose address names the version never changes."""
    if request.query.get("v") == run.version:
        return "private, max-age=31536000, immutable"
    return "private, no-cache"
