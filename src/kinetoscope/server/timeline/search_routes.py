"""Searches of the timeline: the next hit, the list of all hits or of all events of a name."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl
from starlette.responses import Response

from kinetoscope.model.timeline import search
from kinetoscope.model.timeline.search import Hits, SearchResult
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import BadValueError, refused
from kinetoscope.server.http.endpoint import ApiRequest, JsonResponse, json_response
from kinetoscope.server.results.answers import TableAnswer
from kinetoscope.server.results.routes import Results
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.timeline.hits import hits_table
from kinetoscope.server.timeline.request import row_of, trace_of, traces_of, whole

_MAX_SEARCH_CHARACTERS: Final = 10_000
"""Names of templates of C++ have hundreds to thousands; a search for one is no dearer for that."""

MAX_CLIENTS: Final = 256
"""Clients whose latest search is remembered."""


class SupersededError(Exception):
    """The client asked something else meanwhile."""


@dataclass
class LatestSearches:
    """The number of the latest search of each client, so that an older one that still runs ends."""

    _numbers: OrderedDict[str, int] = field(default_factory=OrderedDict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def begin(self, client: str, number: int) -> Callable[[], None]:
        """Take note of a search; the function raises SupersededError from the client's next search on."""
        with self._lock:
            self._numbers[client] = max(number, self._numbers.pop(client, number))
            while len(self._numbers) > MAX_CLIENTS:
                self._numbers.popitem(last=False)

        def go_on() -> None:
            if self._numbers.get(client, number) > number:
                raise SupersededError

        return go_on


class SearchRoutes:
    """The answers to searches in the runs of a workspace."""

    def __init__(self, workspace: Workspace, results: Results) -> None:
        self._workspace, self._results = workspace, results
        self._latest = LatestSearches()

    def search(self, request: ApiRequest) -> JsonResponse[SearchResult] | Response:
        """The next or previous hit of `q`, and where all of them are."""
        run = self._workspace.run(request.path["run"])
        trace = trace_of(run, request)
        where = _place_of_search(request, trace)
        try:
            return json_response(search.search(trace, self._every(run, trace, request), **where))
        except SupersededError:
            return _replaced()

    def hits(self, request: ApiRequest) -> JsonResponse[TableAnswer] | Response:
        """The hits of `q` on the ranks that are named, as a table; of `same` all events of the name of that one."""
        run = self._workspace.run(request.path["run"])
        traces = traces_of(run, request)
        ranks = tuple((trace.source.rank, trace.source.cycle) for trace in traces)
        wanted = tuple(request.query.get(name, "") for name in ("q", "arguments", "same"))
        question = ("timeline list", run.id, run.version, ranks, wanted)
        try:
            result = self._workspace.answers.get(
                question, lambda: hits_table([(trace, self._every(run, trace, request)) for trace in traces])
            )
        except SupersededError:
            return _replaced()
        return self._results.answer(question, result, request, name=f"{run.files.name}-hits", params={})

    def _every(self, run: Run, trace: Trace, request: ApiRequest) -> Hits:
        if request.query.get("same"):
            return search.same_name_hits(trace, row_of(request, trace, "same"))
        text = request.query.get("q", "")
        if not text or len(text) > _MAX_SEARCH_CHARACTERS:
            raise BadValueError(f"q has {len(text):,} characters; a search takes 1 to {_MAX_SEARCH_CHARACTERS:,}")
        if not request.query.get("arguments"):
            return search.hits(trace, text)
        go_on = self._latest.begin(request.query.get("client", "")[:80], whole(request, "turn", low=0))
        question = ("timeline hits", run.id, run.version, trace.source.rank, trace.source.cycle, text)
        rows = self._workspace.answers.get(
            question, lambda: pl.DataFrame({"row": search.rows_with_text_or_argument(trace, text, go_on)})
        )
        return search.argument_hits(trace, rows["row"].to_numpy())


def _replaced() -> Response:
    return refused(409, "this search was replaced by a newer one")


def _place_of_search(request: ApiRequest, trace: Trace) -> dict[str, Any]:
    direction = request.query.get("direction", "next")
    if direction not in ("next", "previous"):
        raise BadValueError("direction is neither next nor previous")
    ends = [whole(request, name) if request.query.get(name) else None for name in ("start", "end")]
    after = row_of(request, trace, "after") if request.query.get("after") else None
    return {"after": after, "direction": direction, "begin": ends[0], "end": ends[1]}
