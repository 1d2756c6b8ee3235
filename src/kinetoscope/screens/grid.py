"""Blocks as small tables of text, with a bar or a curve in each line: the form that every text face can draw."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from kinetoscope.model.trace.text import number_of
from kinetoscope.pages.blocks import (
    AllocatorBlock,
    BarsBlock,
    Block,
    Cell,
    ChartBlock,
    ColumnsBlock,
    FactsBlock,
    HistoryBlock,
    IcicleBlock,
    RibbonBlock,
    Sketch,
    SourceBlock,
)
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.views.charts.series import ChartLine, columns
from kinetoscope.views.numbers import MISSING, grouped, scale, shown
from kinetoscope.views.terminal.bars import HEIGHTS, sparkline
from kinetoscope.views.text import printable

MIN_SHOWN_SHARE: Final = 0.001
"""Share below which a number only says so."""

CURVE_CELLS: Final = 32
"""Cells of a curve."""

MAX_ROWS: Final = 16
"""Lines of a tree, of columns or of a file."""


def grid(block: Block) -> GridBlock | None:
    """The block as a grid; None where it has another form, or nothing to show."""
    make: Callable[[Any], GridBlock] | None = _MAKERS.get(type(block))
    made = None if make is None else make(block)
    return made if made is not None and made.rows else None


_GESTURE: Final = re.compile(r"(?:^|(?<=[.;] ))[^.;]*\b(?:[Cc]lick|[Dd]rag|slider|leads to)\b[^.;]*[.;]\s*")


def note_of(block: Block) -> str:
    """The words beneath a block, without what its reader could click or drag in a browser."""
    return re.sub(r";\s*$", ".", _GESTURE.sub("", block.note).strip())


def is_curve(text: str) -> bool:
    """Test for a cell that holds a curve."""
    return bool(text.strip()) and set(text) <= _CURVE


_CURVE: Final = frozenset(f"{HEIGHTS} ")


def share_text(share: float | None) -> str:
    """A share of a whole; "" where it is not known."""
    if share is None:
        return ""
    return shown(share, "fraction") if share >= MIN_SHOWN_SHARE or share == 0 else "<0.1%"


def _of_bars(block: BarsBlock) -> GridBlock:
    unit = scale([bar.value for bar in block.bars], block.unit)
    counted = all(bar.calls is not None for bar in block.bars)
    compared = any(bar.before is not None for bar in block.bars)
    shared = any(bar.share is not None for bar in block.bars)
    heads = (
        ["calls"] * counted
        + ["before"] * compared
        + ["now" if compared else _HEADS.get(block.unit, "value")]
        + ["share"] * shared
    )
    rows = [
        GridRow(
            [
                bar.name or bar.label,
                *([grouped(bar.calls or 0)] if counted else []),
                *([unit.with_unit(bar.before)] if compared else []),
                unit.with_unit(bar.value),
                *([share_text(bar.share)] if shared else []),
            ],
            bar.kind,
            0.0,
            bar.value,
            about=[bar.detail] if bar.detail and not counted else [],
        )
        for bar in block.bars
    ]
    return GridBlock("", ["", *heads], rows, named=True)


_HEADS: Final = {"ns": "time", "bytes": "size"}


def _of_columns(block: ColumnsBlock) -> GridBlock:
    """The sum of each column; of many as one curve."""
    totals = [sum(value or 0 for value in stack.values) for stack in block.stacks]
    unit = scale(totals, block.unit)
    if len(totals) > MAX_ROWS:
        least, most = unit.text(min(totals)), unit.with_unit(max(totals))
        ends = f"{block.stacks[0].label} – {block.stacks[-1].label}"
        return GridBlock("", ["", "", ""], [GridRow([ends, _curve(range(len(totals)), totals), f"{least} – {most}"])])
    sums = [sum(stack.values[place] or 0 for stack in block.stacks) for place in range(len(block.parts))]
    parts = sorted((place for place, time in enumerate(sums) if time), key=lambda place: -sums[place])
    rows = [
        GridRow(
            [
                " ".join([stack.label, *(f"({word})" for word in (stack.mark, stack.apart) if word)]),
                unit.with_unit(total),
                *(unit.with_unit(stack.values[place]) for place in parts),
            ],
            block.parts[max(parts, key=lambda place: stack.values[place] or 0)].kind if parts else "",
            0.0,
            total,
        )
        for stack, total in zip(block.stacks, totals, strict=True)
    ]  # fmt: skip
    return GridBlock("", ["", "all", *(block.parts[place].label for place in parts)], rows)


def _of_facts(block: FactsBlock) -> GridBlock:
    rows = [GridRow([fact.label, *(cell_text(cell) for cell in fact.cells)]) for fact in block.facts]
    wide = max((len(row.cells) for row in rows), default=1) - 1
    return GridBlock("", ["", *block.heads, *[""] * (wide - len(block.heads))], rows, whole=True)


def cell_text(cell: Cell) -> str:
    """A number with its unit, or words."""
    return cell.text or shown(cell.value, cell.unit)


def _of_chart(block: ChartBlock) -> GridBlock:
    curves = [line for line in block.sketch if len(line.x)]
    if not curves:
        lines = [line for line in block.sketch if line.label]
        rows = [GridRow([line.label, line.text, *line.more], line.kind, line.low, line.high) for line in lines]
        return GridBlock("", block.heads, rows, rest="; ".join(line.text for line in block.sketch if not line.label))
    first, last = min(line.x[0] for line in curves), max(line.x[-1] for line in curves)
    drawn = curves[:MAX_ROWS]
    rows = [GridRow([line.label, _of_sketch(line, first, last), line.text], line.kind) for line in drawn]
    rest = [f"{len(curves) - len(drawn)} more"] if len(curves) > len(drawn) else []
    below = [line.text for line in block.sketch if not len(line.x)]
    return GridBlock("", ["", "", ""], rows, rest="; ".join(below + rest))


def _of_sketch(line: Sketch, first: float, last: float) -> str:
    return _curve(line.x, line.y, (first, last))


def _curve(x: Sequence[float], y: Sequence[float | None], ends: tuple[float, float] | None = None) -> str:
    """The greatest value of each stretch, as characters of that height."""
    at = np.asarray(x, np.float64)
    values = np.array([np.nan if value is None else value for value in y], np.float64)
    first, last = ends or (float(at[0]), float(at[-1]))
    cells = min(CURVE_CELLS, len(at)) if ends is None else CURVE_CELLS
    return sparkline(columns(ChartLine("", np.arange(len(at)), at, values), first, last, cells, steps=False))


def _of_icicle(block: IcicleBlock) -> GridBlock:
    """The widest nodes of the tree, each below its parent."""
    if not len(block.value):
        return GridBlock("", [""], [])
    drawn = set(sorted(range(len(block.value)), key=lambda node: (-block.value[node], node))[:MAX_ROWS])
    below: dict[int, list[int]] = {}
    for node in sorted(drawn, key=lambda node: (-block.value[node], node)):
        below.setdefault(block.parent[node], []).append(node)
    total = sum(value for value, parent in zip(block.value, block.parent, strict=True) if parent < 0)
    unit = scale([block.value[node] for node in drawn], block.unit)

    def walk(parent: int, depth: int) -> Iterator[GridRow]:
        for node in below.get(parent, ()):
            value, other = block.value[node], block.other[node] if len(block.other) else None
            times = f" ×{block.alike[node]}" if len(block.alike) and block.alike[node] > 1 else ""
            pair = [] if other is None else [unit.with_unit(other)]
            cells = [
                f"{block.name[node]}{times}",
                *pair,
                unit.with_unit(value),
                share_text(value / total if total else None),
            ]
            yield GridRow(cells, block.kind[node], 0.0, value, indent=depth)
            yield from walk(node, depth + 1)

    rows = list(walk(-1, 0))
    left = len(block.value) - len(rows)
    now, before = ("before", "now") if block.wide == "before" else ("now", "before")
    heads = [before, now] if len(block.other) else [_HEADS.get(block.unit, "value")]
    return GridBlock(
        "",
        ["", *heads, "share"],
        rows,
        named=True,
        rest=f"{number_of(left, 'smaller one')} below these" if left else "",
    )


def _of_ribbon(block: RibbonBlock) -> GridBlock:
    """Times of the band by lane and kind: its order is for a picture."""
    sums: dict[tuple[int, int], int] = {}
    for start, end, lane, kind in zip(block.start, block.end, block.lane, block.kind, strict=True):
        sums[lane, kind] = sums.get((lane, kind), 0) + end - start
    largest = sorted(sums.items(), key=lambda each: -each[1])[:MAX_ROWS]
    total, unit = sum(sums.values()) or 1, scale(list(sums.values()), "ns")
    rows = [
        GridRow(
            [f"{block.texts[lane] or 'nothing'}: {block.texts[kind].replace('_', ' ')}", unit.with_unit(time),
             share_text(time / total)],
            block.texts[kind], 0.0, time,
        )
        for (lane, kind), time in largest
    ]  # fmt: skip
    return GridBlock("", ["", "time", "share"], rows)


_LAGGING: Final = 6
"""Ranks that are behind which have a line."""


def _of_history(block: HistoryBlock) -> GridBlock:
    """A curve for the slowest rank, the median and the fastest, and for those that are behind most."""
    curves = (("slowest rank", block.slowest, "waiting"), ("median", block.median, "computation"))
    unit = scale([*block.slowest, *block.fastest], "ns")
    rows = [
        GridRow([name, _curve(block.step, values), f"{unit.text(min(values))} – {unit.with_unit(max(values))}"], kind)
        for name, values, kind in curves
        if len(values)
    ]
    known = [[value or 0 for value in row] for row in block.behind]
    sums = [sum(row) / len(row) if row else 0 for row in known]
    worst = sorted(
        (row for row in range(len(known)) if max(known[row], default=0) >= _BEHIND), key=lambda row: -sums[row]
    )
    rows += [
        GridRow([f"{block.ranks[row]} behind", _curve(block.step, [max(value, 0) for value in known[row]]),
                 f"up to {shown(max(known[row]) / 1000, 'fraction')}"], "waiting")
        for row in worst[:_LAGGING]
    ]  # fmt: skip
    ends = f"steps {grouped(block.step[0])} – {grouped(block.step[-1] + block.size - 1)}" if len(block.step) else ""
    kinds: dict[str, int] = {}
    for mark in block.marks:
        kinds[mark.kind] = kinds.get(mark.kind, 0) + mark.count
    marks = ", ".join(f"{grouped(count)} {_plural(kind, count)}" for kind, count in kinds.items() if kind != "end")
    return GridBlock("", ["", ends, ""], rows, rest=marks, named=False, whole=True)


_BEHIND: Final = 30
"""Thousandths by which a rank is behind that has a line."""


def _plural(kind: str, count: int) -> str:
    return kind if count == 1 else f"{kind}s"


def _of_allocator(block: AllocatorBlock) -> GridBlock:
    rows = [
        GridRow(
            [
                moment.label,
                f"event {grouped(moment.event)}" if moment.event >= 0 else "",
                "" if moment.time is None else shown(moment.time, "ns"),
            ]
        )
        for moment in block.moments
    ]
    return GridBlock("", [f"instants of {grouped(block.events)} events", "", ""], rows)


def _of_source(block: SourceBlock) -> GridBlock:
    costly = sorted(block.lines, key=lambda line: (-line.self_time, line.line))[:MAX_ROWS]
    rows = [
        GridRow(
            [f"line {line.line}", shown(line.self_time, "ns"), shown(line.total_time, "ns"), printable(line.detail)],
            "host", 0.0, line.self_time,
        )
        for line in costly
    ]  # fmt: skip
    left = len(block.lines) - len(rows)
    return GridBlock("", [block.file, "self", "total", ""], rows, rest=f"{left} more lines" if left else "")


_MAKERS: Final[dict[type[Block], Callable[[Any], GridBlock]]] = {
    BarsBlock: _of_bars,
    ColumnsBlock: _of_columns,
    FactsBlock: _of_facts,
    ChartBlock: _of_chart,
    IcicleBlock: _of_icicle,
    RibbonBlock: _of_ribbon,
    HistoryBlock: _of_history,
    AllocatorBlock: _of_allocator,
    SourceBlock: _of_source,
    GridBlock: lambda block: block,
}
"""Functions that make a grid of each kind of block."""

EMPTY_CELLS: Final = ("", MISSING)
"""Texts of a cell without a value."""
