"""Questions to a run: results as a page's table asks for them, and charts; answered once, and kept."""

from __future__ import annotations

from typing import Any

import polars as pl
from starlette.responses import Response

from kinetoscope.analyses import NAMES, RECORDED, named
from kinetoscope.model.steps.selection import settled
from kinetoscope.schema import Analysis, Result
from kinetoscope.server.errors import MissingError
from kinetoscope.server.http.endpoint import Asked
from kinetoscope.server.http.responses import JSON
from kinetoscope.server.json_encoding import plain, rows_to_json, to_json
from kinetoscope.server.query import parameters, part
from kinetoscope.server.results import table as tables
from kinetoscope.server.runs.run import Run
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.views.charts.chart import specification
from kinetoscope.views.charts.scales import scales as scales_of
from kinetoscope.views.names import short_names
from kinetoscope.views.text import nearest


class Results:
    """What runs of a workspace answer."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._answers = workspace.answers

    def table(self, asked: Asked) -> Response:
        """The rows of an analysis, a window of them or all as a file."""
        tables.arrangement(asked.query), tables.window(asked.query)  # what is wrong is said before anything is read
        run, analysis, result, key = self._asked(asked)
        return self.answer(key, result, asked, name=f"{run.files.name}-{analysis.name}", params=dict(result.params))

    def chart(self, asked: Asked) -> Response:
        """The chart of an analysis."""
        _, analysis, result, _ = self._asked(asked)
        if analysis.chart is None:
            raise MissingError(f"{analysis.name} has no chart")
        dark = asked.query.get("dark", "") in ("1", "true")
        return Response(to_json(specification(result, dark=dark, width=None)), media_type=JSON)

    def answer(self, key: tuple[Any, ...], result: Result, asked: Asked, *, name: str, params: Any) -> Response:
        """The rows of any result that are asked for; `key` is what it is kept by."""
        arrangement, window = tables.arrangement(asked.query), tables.window(asked.query)
        scales = self._answers.get((*key, "scales"), lambda: scales_of(result.frame, result.schema), lambda _: 1000)
        rows = result.frame
        if arrangement != tables.Arrangement():
            rows = self._answers.get(
                (*key, arrangement), lambda: tables.arranged(result, arrangement, scales), _bytes_of_frame
            )
        if window.file:
            return _file(tables.as_file(result, rows, window.file), window.file, name)
        shown = rows.slice(window.offset, window.limit)
        head = {
            "analysis": result.analysis,
            "params": {each: plain(value) for each, value in params.items() if each != "select"},
            "columns": [tables.described(column, column.dtype) for column in result.schema],
            "total": rows.height,
            "all": result.frame.height,
            "ranks": result.frame.n_unique("rank") if "rank" in result.frame.columns else None,
            "notes": list(result.notes),
            "scales": {each: {"label": scale.label, "divisor": scale.divisor} for each, scale in scales.items()},
            "short": short_names(shown),
        }
        return Response(rows_to_json(head, shown), media_type=JSON)

    def _asked(self, asked: Asked) -> tuple[Run, Analysis, Result, tuple[Any, ...]]:
        run, name = self._workspace.run(asked.path["run"]), asked.path["name"]
        if name not in NAMES:
            raise MissingError(f"there is no analysis {name[:60]!r}{nearest(name[:60], NAMES)}")
        analysis, which = named(name), part(asked.query)
        params = parameters(analysis, asked.query)
        ranks = which.of(all_ranks=analysis.across_ranks)
        select = which.select if name in RECORDED else settled(which.select)
        key = (run.id, run.version, name, tuple(sorted(params.items())), ranks, which.cycle, select)

        def ask() -> Result:
            return analysis(run.part(ranks, which.cycle), select=select, **params)

        return run, analysis, self._answers.get(key, ask, _bytes_of), key


def _bytes_of(result: Result) -> int:
    return _bytes_of_frame(result.frame)


def _bytes_of_frame(frame: pl.DataFrame) -> int:
    return int(frame.estimated_size()) + 1000


def _file(data: bytes, form: str, name: str) -> Response:
    media, ending = tables.FORMATS[form]
    safe = "".join(each if (each.isalnum() and each.isascii()) or each in "-_." else "_" for each in name).strip(".")
    return Response(
        data,
        media_type=media,
        headers={"Content-Disposition": f'attachment; filename="{safe[-100:] or "table"}.{ending}"'},
    )
