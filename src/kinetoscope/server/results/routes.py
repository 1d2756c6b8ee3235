"""Routes of analyses: the rows that a table asks for, and charts; each answer is cached."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from kinetoscope.analyses import RECORDED, named, names
from kinetoscope.errors import nearest
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.steps.selection import default_to_steady
from kinetoscope.model.trace.symptoms import DAMAGED
from kinetoscope.schema import Result
from kinetoscope.server.errors import MissingError
from kinetoscope.server.http.endpoint import ApiRequest, JsonResponse, json_response, rows_response
from kinetoscope.server.json_encoding import plain
from kinetoscope.server.query import parameters, run_part
from kinetoscope.server.results.answers import TableAnswer
from kinetoscope.server.results.table import FORMATS, arrangement_of, exported, window_of
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.views.charts.chart import specification
from kinetoscope.views.charts.scales import scales as scales_of
from kinetoscope.views.names import short_names
from kinetoscope.views.rows import Arrangement, arranged


class Results:
    """Answers of the runs of a workspace: tables and charts."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._answers = workspace.answers

    def table(self, request: ApiRequest) -> JsonResponse[TableAnswer] | Response:
        """The rows of an analysis, a window of them or all as a file."""
        arrangement_of(request.query), window_of(request.query)  # errors in these come before anything is read
        run, analysis, result, key = self._result(request)
        return self.answer(key, result, request, name=f"{run.files.name}-{analysis.name}", params=dict(result.params))

    def chart(self, request: ApiRequest) -> JsonResponse[Mapping[str, Any]]:
        """The chart of an analysis."""
        _, analysis, result, _ = self._result(request)
        if analysis.chart is None:
            raise MissingError(f"{analysis.name} has no chart")
        dark = request.query.get("dark", "") in ("1", "true")
        return json_response(specification(result, dark=dark, width=None))

    def answer(
        self, key: tuple[Any, ...], result: Result, request: ApiRequest, *, name: str, params: Any
    ) -> JsonResponse[TableAnswer] | Response:
        """The requested rows of any result; `key` is the question that the result is cached by."""
        arrangement, window = arrangement_of(request.query), window_of(request.query)
        scales = self._answers.get((*key, "scales"), lambda: scales_of(result.frame, result.schema))
        rows = result.frame
        if arrangement != Arrangement():
            rows = self._answers.get((*key, arrangement), lambda: arranged(result, arrangement).frame)
        if window.file:
            return _file(exported(dataclasses.replace(result, frame=rows), window.file), window.file, name)
        shown = rows.slice(window.offset, window.limit)
        head = TableAnswer(
            analysis=result.analysis,
            params={each: plain(value) for each, value in params.items() if each != "select"},
            columns=list(result.schema),
            total=rows.height,
            all=result.frame.height,
            ranks=result.frame.n_unique("rank") if "rank" in result.frame.columns else None,
            notes=[note for note in result.notes if note.code != DAMAGED],
            scales=scales,
            short=short_names(shown),
        )
        return rows_response(head, shown)

    def _result(self, request: ApiRequest) -> tuple[Run, Analysis, Result, tuple[Any, ...]]:
        run, name = self._workspace.run(request.path["run"]), request.path["name"]
        if name not in names():
            raise MissingError(f"there is no analysis {name[:60]!r}{nearest(name[:60], names())}")
        analysis, part = named(name), run_part(request.query)
        params = parameters(analysis, request.query)
        ranks = part.ranks_to_ask(all_ranks=analysis.across_ranks)
        select = part.select if name in RECORDED else default_to_steady(part.select)
        key = (run.id, run.version, name, tuple(sorted(params.items())), ranks, part.cycle, select)

        def ask() -> Result:
            return analysis(run.part(ranks, part.cycle), select=select, **params)

        return run, analysis, self._answers.get(key, ask), key


def _file(data: bytes, form: str, name: str) -> Response:
    media, ending = FORMATS[form]
    safe = "".join(each if (each.isalnum() and each.isascii()) or each in "-_." else "_" for each in name).strip(".")
    return Response(
        data,
        media_type=media,
        headers={"Content-Disposition": f'attachment; filename="{safe[-100:] or "table"}.{ending}"'},
    )
