"""A result as a file: JSON (a stable contract), CSV, Parquet, Markdown, folded stacks. The same result, the same bytes.

Values are exact. JSON is `{"analysis", "params", "columns": [{"name", "dtype", "unit", "doc"}], "rows": [[...]],
"notes": [{"code", "severity", "about", "text"}]}`, with "sentence" before the notes where an answer has one: one row a
line, integers whole however long, what is missing or not a number null, everything beyond ASCII escaped.

CSV has one header line and empty fields for what is missing. A text that a spreadsheet would run as a formula (it
begins with `=`, `+`, `-`, `@`, a tab or a carriage return) gets a `'` before it, because a trace is untrusted; JSON and
Parquet keep it as it is.

Markdown is for people and language models: numbers are rounded and have units, names are shortened.

Folded stacks are lines `frame;frame;frame value`, as flamegraph.pl, inferno and speedscope read them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Final

import polars as pl

from kinetoscope.errors import UsageError
from kinetoscope.schema import Result
from kinetoscope.views import markdown
from kinetoscope.views.exports.budget import within
from kinetoscope.views.exports.excel import to_xlsx
from kinetoscope.views.exports.plain import flat, plain

_FORMULA = r"^[=+\-@\t\r]"


def to_bytes(result: Result, form: str, budget: int | None = None) -> bytes:
    """The whole file in one of `FORMATS`, or "folded"; one of `BUDGETED` in about `budget` tokens at most.

    Raises:
        UsageError: the result holds no stacks to be folded, too many rows for a sheet, or the budget holds none.
        MissingExtraError: a format needs a library that is not installed.
    """
    write = _WRITERS[form]
    if budget is None:
        return write(result)
    return within(result, budget, write if form != "json" else lambda cut: to_json(cut, docs=False))


def to_markdown(result: Result) -> bytes:
    """All rows as a table of Markdown."""
    return markdown.table(result, limit=0).encode()


def to_json(result: Result, *, docs: bool = True) -> bytes:
    """The stable contract; the module's docstring says how it looks. Without `docs` columns have no description."""
    described = ({name: text for name, text in column.items() if docs or name != "doc"} for column in _columns(result))
    columns = ",\n".join("  " + _dumps(column) for column in described)
    rows = ",\n".join("  " + _dumps([plain(value) for value in row]) for row in result.frame.iter_rows())
    parts = [
        f'"analysis": {_dumps(result.analysis)}',
        f'"params": {_dumps(plain(result.params))}',
        f'"columns": [\n{columns}\n ]',
        f'"rows": [\n{rows}\n ]' if rows else '"rows": []',
        *([f'"sentence": {_dumps(result.sentence)}'] if result.sentence else []),
        f'"notes": {_dumps(_notes(result))}',
    ]
    return ("{" + ",\n ".join(parts) + "}\n").encode("ascii")


def _notes(result: Result) -> list[dict[str, str]]:
    """The notes, each with its code and severity, and what it is about where a code is of several things."""
    return [
        {"code": note.code, "severity": note.severity, **({"about": note.about} if note.about else {}), "text": note}
        for note in result.notes
    ]


def to_csv(result: Result) -> bytes:
    """Comma-separated values in UTF-8, lines ended by a newline alone."""
    frame = flat(result.frame)
    safe = frame.with_columns(_guarded(name) for name, dtype in frame.schema.items() if dtype == pl.String)
    safe = safe.with_columns(pl.col(pl.Float64, pl.Float32).fill_nan(None))
    return safe.write_csv().encode("utf-8", "surrogatepass")


def _guarded(name: str) -> pl.Expr:
    """The text column, with what a spreadsheet would run as a formula made text."""
    text = pl.col(name)
    return pl.when(text.str.contains(_FORMULA)).then(pl.concat_str(pl.lit("'"), text)).otherwise(text).alias(name)


def to_parquet(result: Result) -> bytes:
    """Parquet with what the columns mean in its metadata, under the keys that the JSON contract has."""
    metadata = {
        "analysis": result.analysis,
        "params": _dumps(plain(result.params)),
        "columns": _dumps(_columns(result)),
        "notes": _dumps(_notes(result)),
        **({"sentence": result.sentence} if result.sentence else {}),
    }
    stream = io.BytesIO()
    result.frame.write_parquet(stream, metadata=metadata)
    return stream.getvalue()


def to_folded(result: Result) -> bytes:
    """A line for each row with a stack: that, a blank and its value, of memory its size.

    Of several ranks each is the outermost frame of its own.

    Raises:
        UsageError: the result has no columns `stack` and `value`, or `size`, or no row has a stack.
    """
    value = "value" if "value" in result.frame.columns else "size"
    if not {"stack", value} <= set(result.frame.columns) or (
        len(result.frame) and result.frame["stack"].is_null().all()
    ):
        raise UsageError(
            f"{result.analysis or 'this'} has no stacks to be folded; `flame` has, and `memory_peak` by stack"
            " (json and csv hold any)"
        )
    frame = result.frame.drop_nulls("stack")
    if "rank" in frame.columns and frame["rank"].n_unique() > 1:
        frame = frame.with_columns(stack=pl.format("rank {};{}", "rank", "stack"))
    lines = [f"{stack} {value}\n" for stack, value in frame.select("stack", value).iter_rows()]
    return "".join(lines).encode("utf-8", "surrogatepass")


_WRITERS: Final[dict[str, Callable[[Result], bytes]]] = {
    "json": to_json,
    "csv": to_csv,
    "parquet": to_parquet,
    "markdown": to_markdown,
    "xlsx": lambda result: to_xlsx({result.analysis or "table": result}),
    "folded": to_folded,
}


def _columns(result: Result) -> list[dict[str, str]]:
    return [
        {"name": column.name, "dtype": str(column.dtype), "unit": column.unit, "doc": column.doc}
        for column in result.schema
    ]


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
