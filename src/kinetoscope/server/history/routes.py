"""The part of the API that the page History asks: how far the run is, a tile of it, and an event when there is more."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Final

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.history.bands import STRIDE, Bands
from kinetoscope.model.history.growing import GrowingRun
from kinetoscope.pages.history import windows_of
from kinetoscope.pages.pictures.run_steps import ROWS, marks_between, words_of
from kinetoscope.server.errors import MissingError, refused, status_of
from kinetoscope.server.history.answers import HistoryState, HistoryTile
from kinetoscope.server.history.live import LiveHistories, LiveHistory
from kinetoscope.server.http.endpoint import ApiRequest, JsonResponse, endpoint, json_response
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.timeline.request import whole

BUCKETS: Final = 256
"""Buckets of a tile."""

_MAX_SCALE: Final = 12
_MAX_TILE: Final = 1 << 22
_EVERY_SECONDS: Final = 1.0
_ALIVE_SECONDS: Final = 15.0
"""After which something is sent, so that no proxy thinks that the connection is dead."""


def history_routes(workspace: Workspace) -> list[Route]:
    """The routes, below `api/`."""
    lives = LiveHistories()

    def live_of(run: Run) -> LiveHistory:
        files = [url for source in run.job.sources for url in source.files("history")]
        if not files:
            raise MissingError(f"{run.files.name} has no history", "kinetoscope record --history keeps one.")
        return lives.of(sorted(set(files)), run.files.path)

    def route(path: str, answer: Callable[[ApiRequest, Run, LiveHistory], Response]) -> Route:
        @wraps(answer)
        def work(request: ApiRequest) -> Response:
            run = workspace.run(request.path["run"])
            return answer(request, run, live_of(run))

        return Route(f"/runs/{{run}}/history{path}", endpoint(workspace, work), methods=["GET"])

    async def events(http: Request) -> Response:
        """`api/runs/{run}/history/events`: how many rows there are, whenever there are more."""
        try:
            live = await anyio.to_thread.run_sync(lambda: live_of(workspace.run(http.path_params["run"])))
        except KinetoscopeError as error:
            return refused(status_of(error), str(error))
        return StreamingResponse(_said(live), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return [route("", _state), route("/tile", _tile), Route("/runs/{run}/history/events", events, methods=["GET"])]


async def _said(live: LiveHistory) -> AsyncIterator[str]:
    sent, last = -1, 0.0
    while True:
        run = await anyio.to_thread.run_sync(live.ask)
        rows, now = run.rows, time.monotonic()
        if rows != sent:
            yield f"data: {json.dumps({'rows': rows})}\n\n"
            sent, last = rows, now
        elif now - last > _ALIVE_SECONDS:
            yield ": nothing new\n\n"
            last = now
        await anyio.sleep(_EVERY_SECONDS)


def _state(_: ApiRequest, __: Run, live: LiveHistory) -> JsonResponse[HistoryState]:
    run = live.ask()
    age = (time.time_ns() - run.newest) / 1e9 if run.newest else None
    return json_response(
        HistoryState(
            rows=run.rows,
            reading=live.reading,
            ranks=len(run.ranks),
            first=run.first,
            end=run.end,
            age=age,
            ended=run.has_ended and not live.reading,
            error=live.error,
        )
    )


def _tile(request: ApiRequest, run: Run, live: LiveHistory) -> JsonResponse[HistoryTile]:
    scale, number = whole(request, "z", 0, _MAX_SCALE), whole(request, "i", 0, _MAX_TILE)
    growing, size = live.ask(), STRIDE**scale
    low = number * BUCKETS
    is_whole = not live.reading and (growing.has_ended or growing.settled >= (low + BUCKETS) * size)
    return json_response(tile_of(growing, size, low, run, is_whole=is_whole))


def tile_of(growing: GrowingRun, size: int, low: int, run: Run, *, is_whole: bool) -> HistoryTile:
    """The tile that begins with bucket `low`."""
    buckets = growing.bands(size, low, low + BUCKETS, ROWS)
    if buckets is None:
        return HistoryTile(size, low * size, [], [], [], [], [], [], [], whole=False)
    first, last = buckets.first, buckets.first + BUCKETS * size - 1
    return HistoryTile(
        size,
        first,
        fastest=_times(buckets.fastest),
        median=_times(buckets.median),
        slowest=_times(buckets.slowest),
        rank=buckets.rank.tolist(),
        ranks=_labels(buckets),
        behind=_behind(buckets),
        marks=list(marks_between(growing.marks(first, last), size, windows_of(run.job))),
        whole=is_whole,
    )


def _times(values: NDArray[np.float32]) -> list[float | None]:
    return [None if np.isnan(value) else round(value) for value in values.tolist()]


def _behind(buckets: Bands) -> list[list[int | None]]:
    if len(buckets.ranks) == 1:  # behind nobody
        return []
    return [[None if np.isnan(value) else round(value * 1000) for value in row] for row in buckets.behind.tolist()]


def _labels(buckets: Bands) -> list[str]:
    if len(buckets.ranks) == 1:
        return []
    ends = zip(buckets.rows[:-1].tolist(), buckets.rows[1:].tolist(), strict=True)
    return [words_of(int(buckets.ranks[begin]), int(buckets.ranks[end - 1])) for begin, end in ends]
