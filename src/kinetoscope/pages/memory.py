"""Memory: the peak, when and whose; whether memory grows from step to step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.parts.allocator import allocator_block, devices_of, peak_sentence
from kinetoscope.pages.parts.blocks import Block, ChartBlock, Control, ControlsBlock, Page, TableBlock, chosen_value
from kinetoscope.pages.parts.pictures import Axis, Line, curves
from kinetoscope.pages.parts.sentences import nothing, way_back
from kinetoscope.pages.parts.tables import first_cycle
from kinetoscope.schema import Lines
from kinetoscope.views.charts import series
from kinetoscope.views.numbers import shown
from kinetoscope.views.text import brief, printable

_POINTS: Final = 240
"""Instants of the picture."""

_OWNERS: Final = 6
"""Owners with an area of their own, those with most at the peak; the others share one."""

_NAME_CELLS: Final = 40  # cells of a name
_BEFORE_LABEL: Final = "held since before the recording"
_OTHERS_LABEL: Final = " others"

_GROUPINGS: Final = (("class", "class of modules"), ("use", "what it is for"))

_VERDICTS = 1 << 62


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of the memory in use, and its owners at the peak."""
    facts = devices_of(job, select)
    if facts.height:
        return _of_snapshot(job, facts, select, params)
    curve = named("memory_curve")(job, select=select)
    frame = curve.frame
    if not frame.height:
        return Page("memory", "Memory", nothing("use of memory", select), (), way_back(select), curve.notes)
    devices = sorted(frame.get_column("device").unique().to_list(), key=lambda device: (device == "cpu", device))
    device = chosen_value(params, "device", devices, devices[0])
    by = chosen_value(params, "by", [value for value, _ in _GROUPINGS], "class")
    peak, growth = (
        named("memory_peak")(job, select=select, group_by="class"),
        named("memory_growth")(job, select=select),
    )
    notes = dict.fromkeys((*curve.notes, *peak.notes, *growth.notes))
    return Page(
        "memory",
        "Memory",
        f"{_peak(frame, peak.frame, device)} {_growth(growth.frame, device)}",
        blocks=tuple(_blocks(job, frame, device, devices, by)),
        cannot=tuple(notes),
    )


def _of_snapshot(job: Job, facts: pl.DataFrame, select: Selection, params: Mapping[str, str]) -> Page:
    """What the allocator of torch recorded of itself."""
    devices = [str(device) for device in facts.get_column("device").unique().sort().to_list()]
    device = chosen_value(params, "device", devices, devices[0])
    growth = named("memory_growth")(job, select=select)
    peak = named("memory_peak")(job, select=select, group_by="class")
    name = f"cuda:{device}"
    sentence = f"{peak_sentence(facts, int(device))} {_growth(growth.frame, name)}"
    choice = [Control("device", "Memory of", device, [(each, f"cuda:{each}") for each in devices])]
    blocks = [
        *([ControlsBlock(choice)] if len(devices) > 1 else []),
        allocator_block(facts, int(device)),
        TableBlock("In use at the peak", "memory_peak", {"group_by": "class"}, filter=f"device:eq:{name}", limit=50),
        TableBlock("Growth from step to step", "memory_growth", filter=f"device:eq:{name}", limit=50),
    ]
    notes = dict.fromkeys((*peak.notes, *growth.notes))
    return Page("memory", "Memory", sentence.strip(), blocks=blocks, cannot=tuple(notes))


def _peak(curve: pl.DataFrame, peak: pl.DataFrame, device: str) -> str:
    row = curve.filter(device=device).sort("allocated", descending=True, maintain_order=True).row(0, named=True)
    words = f"Memory of {device} peaks at {shown(row['allocated'], 'bytes')}, {shown(row['time'], 'ns')} into the trace"
    owners = peak.filter((pl.col("device") == device) & (pl.col("size") > 0)).sort("size", "name", descending=True)
    if not owners.height:
        return f"{words}."
    name, kind, modules, size = owners.select("name", "kind", "modules", "size").row(0)
    if kind == "before":
        return f"{words}; {shown(size, 'bytes')} of it were held since before the recording."
    owner = f"`{brief(printable(name), _NAME_CELLS)}`"
    if modules:
        owner = f"{modules} × {owner}" if modules > 1 else owner
    return f"{words}; {owner} took {shown(size, 'bytes')} of it."


def _growth(growth: pl.DataFrame, device: str) -> str:
    rows = growth.filter((pl.col("device") == device) & (pl.col("kind") == "device"))
    if not rows.height:
        return ""
    verdict, per_step = rows.select("verdict", "per_step").row(0)
    sentences = {
        "leak": f"It grows by {shown(per_step, 'bytes')} a step: a leak.",
        "no growth": "It does not grow from step to step.",
        "unclear": "Whether it grows from step to step is not clear.",
    }
    return sentences.get(verdict, "There are too few steps to tell whether it grows.")


def _blocks(job: Job, curve: pl.DataFrame, device: str, devices: Sequence[str], by: str) -> Iterator[Block]:
    of = [Control("device", "Memory of", device, [(each, each) for each in devices])] if len(devices) > 1 else []
    yield ControlsBlock((*of, Control("by", "By", by, _GROUPINGS)))
    yield _picture(job, curve.filter(device=device), by)
    at = f"device:eq:{device}"
    columns = ("name", "modules", "use", "blocks", "size", "share")
    yield TableBlock("In use at the peak", "memory_peak", {"group_by": "class"}, columns=columns, filter=at, limit=50)
    yield TableBlock("Growth from step to step", "memory_growth", filter=at, limit=50)
    sizes = ("name", "calls", "size_increase", "self_size_increase", "allocation_size", "self_allocation_size")
    yield TableBlock("By operator", "memory_by_operator", columns=sizes, filter=at, sort="-self_size_increase")
    links = {"start": "allocated_at", "end": "released_at"}
    each = ("operator", "module", "use", "size", "allocated_at", "released_at", "duration", "step")
    yield TableBlock("Blocks of memory", "memory_events", columns=each, filter=at, sort="-size", links=links)


def _picture(job: Job, curve: pl.DataFrame, by: str) -> ChartBlock:
    """The memory in use by owner, stacked; reserved memory is in the tables."""
    first = curve.get_column("rank")[0]
    curve = first_cycle(curve.filter(rank=first))
    line = series.thinned(next(series.each(curve, Lines("time", "allocated"), 1)), _POINTS)
    kept = curve[line.rows]
    times = kept.get_column("time").to_numpy()
    in_use = kept.get_column("allocated").to_numpy().astype(np.float64)
    # Of the whole recording: what is in use may have been taken before what is selected.
    blocks = named("memory_events")(job).frame.filter(rank=first, device=curve.get_column("device")[0])
    blocks = first_cycle(blocks)
    owned = _owned(blocks, times, int(np.argmax(in_use)), by)
    rest = in_use - sum((values for _, values in owned), np.zeros(len(times)))
    base = (_BEFORE_LABEL if owned else "in use", np.maximum(rest, 0))
    lines = [
        Line(label, "idle" if label.endswith(_OTHERS_LABEL) else "host", times.tolist(), values.tolist(), owner=owner)
        for owner, (label, values) in zip(_owners(owned), [base, *owned], strict=True)
        if values.any() or not owned
    ]
    note = "Drag over the picture to choose a range of time; the tables then count what happens in it."
    return curves(
        f"In use, by {dict(_GROUPINGS)[by]}",
        lines,
        Axis("time", "ns", zero=False),
        Axis("in use", "bytes"),
        stacked=True,
        brush=True,
        note=note,
    )


def _owners(owned: Sequence[tuple[str, Any]]) -> list[int]:
    """The colour of each area: none of its own for the first, held since before, and for the others together."""
    return [-1, *(-1 if label.endswith(_OTHERS_LABEL) else place for place, (label, _) in enumerate(owned))]


def _owned(blocks: pl.DataFrame, times: Int64s, peak: int, by: str) -> list[tuple[str, NDArray[Any]]]:
    """Bytes at each of `times` by owner, most at the peak first.

    The owner of a block is the class of the module that took it, else the operator; or what it was for.
    """
    of_class = pl.col("module").str.replace(r"_\d+$", "")
    owner = pl.col("use") if by == "use" else pl.coalesce(of_class, "operator", pl.lit("no operator"))
    spans = blocks.filter(pl.col("allocated_at").is_not_null()).select(
        "size", "module", owner=owner, start="allocated_at", end=pl.col("released_at").fill_null(_VERDICTS)
    )
    if not spans.height:
        return []
    levels = [
        (_label(str(owner), rows, by), _level(rows, times))
        for (owner,), rows in spans.group_by("owner", maintain_order=True)
    ]
    levels.sort(key=lambda each: (-each[1][peak], each[0]))
    others = levels[_OWNERS:]
    if others:
        total = np.sum([values for _, values in others], axis=0)
        return [*levels[:_OWNERS], (f"{len(others)}{_OTHERS_LABEL}", total)]
    return levels


def _label(owner: str, rows: pl.DataFrame, by: str) -> str:
    """`24 × Qwen2Attention`: a class of modules with how many of them took memory."""
    count = rows.get_column("module").drop_nulls().n_unique()
    return f"{count} × {printable(owner)}" if by == "class" and count > 1 else printable(owner)


def _level(rows: pl.DataFrame, times: Int64s) -> Floats:
    """Bytes in use at each of `times`, of the blocks of `rows`."""
    total = np.zeros(len(times))
    for column, sign in (("start", 1), ("end", -1)):
        ordered = rows.sort(column)
        sums = np.concatenate([[0], np.cumsum(ordered.get_column("size").to_numpy())])
        total += sign * sums[np.searchsorted(ordered.get_column(column).to_numpy(), times, "right")]
    return total
