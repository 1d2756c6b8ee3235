"""The part of the API that the picture of a snapshot asks: a stretch of its history, an instant, an allocation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, get_args

from starlette.responses import Response
from starlette.routing import Route

from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.model.snapshot.replay import SnapshotHistory, history
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import BadValueError, MissingError
from kinetoscope.server.http.endpoint import ApiRequest, JsonResponse, endpoint, json_response
from kinetoscope.server.memory.allocation import allocation_answer
from kinetoscope.server.memory.answers import Axis, MemoryAllocation, MemoryBands, MemoryHeap
from kinetoscope.server.memory.bands import MAX_COLUMNS, bands_answer
from kinetoscope.server.memory.heap import MAX_PIECES, heap_answer
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.timeline.request import trace_of, whole

Answer = Callable[[ApiRequest, Trace, SnapshotHistory], Response]

_AXES: Final[tuple[Axis, ...]] = get_args(Axis)


def memory_routes(workspace: Workspace) -> list[Route]:
    """The routes, below `api/`."""

    def route(path: str, answer: Answer) -> Route:
        @wraps(answer)
        def work(request: ApiRequest) -> Response:
            trace = trace_of(workspace.run(request.path["run"]), request)
            device = whole(request, "device", 0)
            snapshot = snapshot_of(trace)
            if snapshot is None or device not in snapshot.devices:
                raise MissingError(f"rank {trace.source.rank} has no memory snapshot of device {device}")
            return answer(request, trace, history(trace, device))

        return Route(f"/runs/{{run}}/memory/{path}", endpoint(workspace, work), methods=["GET"])

    return [route("bands", _bands), route("heap", _heap), route("allocation", _allocation)]


def _bands(request: ApiRequest, trace: Trace, past: SnapshotHistory) -> JsonResponse[MemoryBands]:
    by = next((axis for axis in _AXES if axis == request.query.get("by", _AXES[0])), None)
    if by is None:
        raise BadValueError(f"by is {request.query['by'][:60]!r}; it can be {' or '.join(_AXES)}")
    stretch = (whole(request, "from"), whole(request, "to")) if request.query.get("from") else None
    if stretch is not None and stretch[0] >= stretch[1]:
        raise BadValueError("a stretch ends after it begins")
    columns = whole(request, "columns", 1, MAX_COLUMNS)
    return bands_answer(trace, past, by=by, stretch=stretch, columns=columns)


def _heap(request: ApiRequest, trace: Trace, past: SnapshotHistory) -> JsonResponse[MemoryHeap]:
    event, pieces = whole(request, "event", -1, len(past.events) - 1), whole(request, "pieces", 1, MAX_PIECES)
    return heap_answer(trace, past, event, pieces)


def _allocation(request: ApiRequest, trace: Trace, past: SnapshotHistory) -> JsonResponse[MemoryAllocation]:
    return json_response(allocation_answer(trace, past, whole(request, "row", 0, len(past) - 1)))
