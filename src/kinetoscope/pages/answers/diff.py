"""Difference of two runs: the fall from the one step to the other, and what changed most."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

import polars as pl

from kinetoscope.compare.diff.diff import Diff
from kinetoscope.compare.diff.waterfall import LABELS
from kinetoscope.model.history.rank_series import PARTS
from kinetoscope.pages.answers.promises import promise_lines
from kinetoscope.pages.blocks import Block, NoteBlock, Page
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.schema import Result
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.numbers import MISSING, Scale, grouped, scale, significant
from kinetoscope.views.text import brief, middle

ROWS: Final = 10
"""Calls where nobody asks for another number."""

_ZOOM: Final = 0.4
"""Where everything happens in the last part of the step, up to this share of it, only that part is drawn."""

_SHAPE: Final = re.compile(r"\[(\d+(?:, \d+)*)\]")

_MIN_SHOWN_SHARE: Final = 0.0005
"""Share of the step under which a change has no line."""

_MIN_DRAWN_SHARE: Final = 0.01
"""Share of the step below which the picture says that nothing changed."""

_MIN_PART_SHARE: Final = 0.03
"""Share of the largest change from which on a part of a kind of time has a line."""

_LABEL_CELLS: Final = 44
_NAME_CELLS: Final = 80
_PATH_CELLS: Final = 100
_SHAPES_CELLS: Final = 60

_DOUBTS: Final = {"inconclusive": "may be noise", "same": "within noise"}
_HEADS: Final = ("before", "now", "change")
_HARDWARE: Final = ("operator", "before", "now", "peaks suggest", "slower", "efficiency")


def of_diff(difference: Diff, promised: pl.DataFrame | None = None, *, limit: int | None = None) -> Page:
    """The whole answer; with `promised` (see `delivery`), what was promised and what came.

    Args:
        difference: of two runs.
        promised: rows of `delivery`.
        limit: calls at most; None: a screenful, 0: all.
    """
    blocks = tuple(_blocks(difference, promised, ROWS if limit is None else limit))
    return Page("diff", "", difference.sentence, (" → ".join(difference.runs),), blocks, difference.notes)


def _blocks(difference: Diff, promised: pl.DataFrame | None, limit: int) -> Iterator[Block]:
    yield fall(difference)
    kinds = [*_kinds(difference)]
    if len(kinds) > 1:
        yield GridBlock("By kind of time", ("", *_HEADS), kinds)
    calls = _calls(difference, limit)
    if calls.rows:
        yield calls
    if difference.hardware is not None:
        yield NoteBlock(difference.hardware.sentence, "By device")
        yield _hardware(difference.hardware, limit)
    if promised is not None and promised.height:
        yield NoteBlock("\n".join(promise_lines(promised)), "Promised and delivered")


# --- the fall


def fall(difference: Diff) -> GridBlock:
    """The step before, each kind of time with its largest parts, the step now: each begins where the last one ended."""
    unit = scale([difference.base, difference.new], "ns")
    rows = [
        GridRow(
            (f"{difference.measure} before", unit.with_unit(difference.base)), "host", 0, difference.base, strong=True
        ),
        *_changes(difference, unit),
        GridRow((f"{difference.measure} now", unit.with_unit(difference.new)), "host", 0, difference.new, strong=True),
    ]
    start = _start(difference, rows)
    rest = f"the axis begins at {unit.with_unit(start)}" if start else ""
    return GridBlock("", ("", ""), rows, rest=rest, start=start)


def _changes(difference: Diff, unit: Scale) -> Iterator[GridRow]:
    frame = difference.waterfall.frame
    least = _MIN_PART_SHARE * max(map(abs, frame.get_column("change").to_list()), default=0)
    drawn = _MIN_SHOWN_SHARE * difference.base
    for row in frame.filter(pl.col("part").is_null() & (pl.col("change").abs() >= drawn)).to_dicts():
        category, kind = row["category"], kind_of(row["category"]) or "idle"
        yield _change(LABELS[category].capitalize(), row["from_time"], row["to_time"], kind, unit)
        parts = frame.filter((pl.col("category") == category) & pl.col("part").is_not_null()).to_dicts()
        shown = list(takewhile(lambda each: abs(each["change"]) >= least, parts))
        if len(parts) == 1 and (category == "data_loading" or category in PARTS):  # it says no more
            shown = []
        for part in shown:
            name = brief(part["part"], _LABEL_CELLS)
            yield _change(name, part["from_time"], part["to_time"], kind, unit, indent=1)
        if shown and abs(row["to_time"] - shown[-1]["to_time"]) >= drawn:
            yield _change("others", shown[-1]["to_time"], row["to_time"], kind, unit, indent=1)


def _change(label: str, begin: int, end: int, kind: str, unit: Scale, *, indent: int = 0) -> GridRow:
    low, high = sorted((begin, end))
    return GridRow((label, _signed(end - begin, unit)), kind, low, high, indent=indent)


def _start(difference: Diff, rows: list[GridRow]) -> float:
    """Where the axis begins: at 0, or a little before all that happens where that is near the end."""
    low = min([difference.base, difference.new, *(row.low for row in rows[1:-1])])
    high = max([difference.base, difference.new, *(row.high for row in rows[1:-1])])
    if _MIN_DRAWN_SHARE * high < high - low < _ZOOM * high:
        return max(low - (high - low) // 3 - 1, 0)
    return 0


def _signed(change: int, unit: Scale) -> str:
    sign = "+" if change > 0 else "−" if change < 0 else "±"
    return sign + unit.with_unit(abs(change))


# --- tables


def _kinds(difference: Diff) -> Iterator[GridRow]:
    frame = difference.waterfall.frame.filter(pl.col("part").is_null() & (pl.col("change") != 0))
    rows = frame.sort(pl.col("change").abs(), descending=True).to_dicts()
    unit = scale([max(row["base"], row["new"]) for row in rows], "ns")
    for row in rows:
        yield GridRow((LABELS[row["category"]].capitalize(), *_times(row, unit)), kind_of(row["category"]) or "idle")


def _times(row: Mapping[str, Any], unit: Scale) -> tuple[str, str, str]:
    before = unit.with_unit(row["base"]) if row.get("status") != "new" else MISSING
    now = unit.with_unit(row["new"]) if row.get("status") != "gone" else MISSING
    return before, now, _signed(row["change"], unit)


def _calls(difference: Diff, limit: int) -> GridBlock:
    """What changed most, where that is, and what else is known."""
    frame = difference.rows.frame.filter(pl.col("change").abs() >= max(_MIN_SHOWN_SHARE * difference.base, 1))
    rows = frame.head(limit or frame.height).to_dicts()
    unit = scale([max(row["base"], row["new"]) for row in rows], "ns")
    lines = [
        GridRow(
            (row["name"], *_times(row, unit), _count(row)), kind_of(row["category"]) or "idle", about=tuple(_about(row))
        )
        for row in rows
    ]
    more = frame.height - len(rows)
    return GridBlock(
        "What changed most",
        ("", *_HEADS, "calls"),
        lines,
        named=True,
        rest=f"{grouped(more)} more changed" if more else "",
    )


def _count(row: Mapping[str, Any]) -> str:
    before, now = row["base_calls"], row["new_calls"]
    if not before and not now:
        return ""
    return _number(now) if before == now else f"{_number(before)} → {_number(now)}"


def _number(calls: float) -> str:
    return significant(calls) if calls < 100 and calls != int(calls) else grouped(round(calls))


def _about(row: Mapping[str, Any]) -> Iterator[str]:
    """What changed, where it stands, and what it was before."""
    path = _path(row["path"].split(";")[-3:]) if row["path"] else ""
    doubt = _DOUBTS.get(row["verdict"] or "", "")
    said = (row["status"], doubt, f"in {path}" if path else "", _shapes(row["input_shapes"]))
    yield " · ".join(filter(None, said))
    if row["was_name"]:
        yield f"was {brief(row['was_name'], _NAME_CELLS)}"
    if row["was_path"] is not None:
        yield f"was in {_path(row['was_path'].split(';')) or 'no call'}"
    if row["was_shapes"] is not None:
        yield f"was of {_shapes(row['was_shapes']) or 'unknown shapes'}"


def _path(calls: Sequence[str]) -> str:
    return middle(" › ".join(calls), _PATH_CELLS)


def _shapes(text: str | None) -> str:
    """`32×3×224×224, 64×3×7×7`: the shapes of tensors; inputs that are none have no shape."""
    if text is None or not text.startswith("["):
        return text or ""
    return middle(", ".join(shape.replace(", ", "×") for shape in _SHAPE.findall(text)), _SHAPES_CELLS)


def _hardware(across: Result, limit: int) -> GridBlock:
    """What the peaks of two devices explain of each operator."""
    known = across.frame.filter(pl.col("unexplained").is_not_null())
    rows = known.head(limit or known.height).to_dicts()
    unit = scale([max(row["base_time"], row["new_time"]) for row in rows], "ns")
    lines = []
    for row in rows:
        shares = [row[name] for name in ("base_efficiency", "new_efficiency")]
        efficiency = " → ".join(MISSING if share is None else f"{100 * share:.0f}%" for share in shares)
        times = [unit.with_unit(row[name]) for name in ("base_time", "new_time", "expected_time")]
        name = f"{row['name']} {_shapes(row['input_shapes'])}".strip()
        lines.append(GridRow((name, *times, _signed(row["unexplained"], unit), efficiency)))
    more = known.height - len(rows)
    return GridBlock("", _HARDWARE, lines, named=True, rest=f"{grouped(more)} more" if more else "")
