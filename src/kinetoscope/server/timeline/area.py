"""The routes of an area of the timeline: a stretch of time in some lanes, as a table, and its events one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from starlette.responses import Response

from kinetoscope.model.matching.match import rank_offsets
from kinetoscope.model.timeline.area import GROUPINGS, LanesOfRank, area_table, occurrence
from kinetoscope.model.timeline.layout import WORK, Lane, timeline
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Result
from kinetoscope.server.errors import BadValueError, MissingError
from kinetoscope.server.http.endpoint import ApiRequest, JsonResponse, json_response
from kinetoscope.server.query import integer, numbers, run_part
from kinetoscope.server.results.answers import TableAnswer
from kinetoscope.server.results.routes import Results
from kinetoscope.server.results.table import arrangement_of, window_of
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.server.timeline.answers import RankOccurrence

_EVERY: Final = "*"
_DEVICE_WORK: Final = "w"
_DIRECTIONS: Final = "next", "previous", "longest"

LanesByRank = dict[int, tuple[str, ...] | None]
"""Ids of lanes by rank; None: all of them."""


class Areas:
    """Areas of the runs of a workspace. `drawn` gives the traces of the ranks that a request names, in order."""

    def __init__(
        self, workspace: Workspace, results: Results, *, drawn: Callable[[Run, ApiRequest], Sequence[Trace]]
    ) -> None:
        self._workspace, self._results, self._drawn = workspace, results, drawn

    def table(self, request: ApiRequest) -> JsonResponse[TableAnswer] | Response:
        """Its events by name, lane or kind, a window of the rows or all as a file."""
        arrangement_of(request.query), window_of(request.query)  # errors in these come before anything is read
        by = request.query.get("by", GROUPINGS[0])
        if by not in GROUPINGS:
            raise BadValueError(f"by is {by[:40]!r}; it can be {', '.join(GROUPINGS)}")
        run, part = self._workspace.run(request.path["run"]), run_part(request.query)
        key = (
            "timeline area", run.id, run.version, part.ranks, part.cycle, part.select.time,
            request.query.get("lanes", ""), by,
        )  # fmt: skip

        def ask() -> Result:
            return area_table(self._parts(run, request), by)

        return self._results.answer(
            key, self._workspace.answers.get(key, ask), request, name=f"{run.files.name}-area", params={"by": by}
        )

    def occurrence(self, request: ApiRequest) -> JsonResponse[RankOccurrence | None]:
        """The next, the previous or the longest event of the area with the name and kind of a row."""
        which = request.query.get("which", _DIRECTIONS[0])
        if which not in _DIRECTIONS:
            raise BadValueError(f"which is {which[:40]!r}; it can be {', '.join(_DIRECTIONS)}")
        run = self._workspace.run(request.path["run"])
        rank, row = (integer(name, request.query.get(name, ""), low=0) for name in ("of", "row"))
        part = next((each for each in self._parts(run, request) if each.trace.source.rank == rank), None)
        if part is None or row >= len(part.trace):
            raise MissingError(f"there is no event {row} of rank {rank} in this area")
        place = occurrence(part, row, which)
        return json_response(RankOccurrence(rank, *place) if place else None)

    def _parts(self, run: Run, request: ApiRequest) -> list[LanesOfRank]:
        time = run_part(request.query).select.time
        if time is None:
            raise BadValueError("time is missing: it takes two times, as 10ms..20ms")
        traces = self._drawn(run, request)
        ranks = tuple(trace.source.rank for trace in traces)
        question = ("rank offsets", run.id, run.version, ranks, traces[0].source.cycle)
        shifts = self._workspace.answers.get(question, lambda: tuple(rank_offsets(traces)[0]))
        wanted = _lanes(request.query.get("lanes", ""), ranks)
        return [
            LanesOfRank(trace, _chosen(trace, wanted[rank]), *(_inside(trace, each - shift) for each in time))
            for trace, rank, shift in zip(traces, ranks, shifts, strict=True)
            if rank in wanted
        ]


def _inside(trace: Trace, time: int) -> int:
    """A time after the origin, no further off than the timeline goes, the last instant included."""
    return min(max(time, 0), timeline(trace).end + 1)


def _lanes(text: str, ranks: Sequence[int]) -> LanesByRank:
    """`12,12w` of the first rank, `3/12` of rank 3, `3-7/w` device work of five ranks, `3-7/*` all of them; "": all."""
    if not text:
        return dict.fromkeys(ranks)
    lanes_of: dict[int, list[str]] = {}
    for each in text.split(","):
        named, _, lane = each.rpartition("/")
        for rank in numbers("lanes", named) if named else ranks[:1]:
            lanes_of.setdefault(rank, []).append(lane)
    if strange := lanes_of.keys() - set(ranks):
        raise MissingError(f"rank {min(strange)} is not drawn")
    return {number: None if _EVERY in names else tuple(names) for number, names in lanes_of.items()}


def _chosen(trace: Trace, names: Sequence[str] | None) -> list[Lane]:
    lanes = timeline(trace).lanes
    if names is None:
        return list(lanes)
    wanted = set(names)
    if _DEVICE_WORK in wanted:
        wanted = wanted - {_DEVICE_WORK} | {
            lane.id for lane in lanes if lane.layer == WORK and lane.group.kind == "device"
        }
    if missing := wanted - {lane.id for lane in lanes}:
        raise MissingError(f"there is no lane {min(missing)[:60]!r} on rank {trace.source.rank}")
    return [lane for lane in lanes if lane.id in wanted]
