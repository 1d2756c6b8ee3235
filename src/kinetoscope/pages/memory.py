"""Memory: the peak, when and whose; whether memory grows from step to step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.analyses import named
from kinetoscope.charts import Lines
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import (
    Block,
    ChartBlock,
    Control,
    ControlsBlock,
    ElsewhereBlock,
    NoteBlock,
    Page,
    TableBlock,
    chosen_value,
)
from kinetoscope.pages.flame import MAX_FLAME_NODES, totals
from kinetoscope.pages.pictures.allocator import allocator_block, devices_question
from kinetoscope.pages.pictures.charts import Axis, Line, curves
from kinetoscope.pages.pictures.layers import icicle, joined
from kinetoscope.pages.sections.tables import first_cycle
from kinetoscope.pages.sentences.memory import GROWTH, OOM, growth_sentence, memory_questions, memory_sentences
from kinetoscope.pages.sentences.steps import nothing, way_back
from kinetoscope.schema import Result
from kinetoscope.views.charts import series
from kinetoscope.views.sentences import Sentence, greatest, join, say
from kinetoscope.views.text import brief, printable

_POINTS: Final = 240
"""Instants of the picture."""

_OWNERS: Final = 6
"""Owners with an area of their own, those with most at the peak; the others share one."""

_NAME_CELLS: Final = 40  # cells of a name
_BEFORE_LABEL: Final = "in use since before the recording"
_OTHERS_LABEL: Final = " others"

_GROUPINGS: Final = (("class", "class of modules"), ("use", "what it is for"))

_VERDICTS = 1 << 62


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of the memory in use, and its owners at the peak."""
    facts = job.answer(devices_question(select)).frame
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
        join([_peak(curve, peak, device), growth_sentence(growth, device)]),
        blocks=tuple(_blocks(job, frame, device, devices, by)),
        cannot=tuple(notes),
    )


_MAX_REPLAYED_EVENTS: Final = 2_000_000
"""Events up to which the page asks what other settings would do, as rules do; more take tens of seconds."""

_OWNERS_BY: Final = (("line", "line"), ("use", "category"), ("module", "module"), ("stack", "stack"))


def _of_snapshot(job: Job, facts: pl.DataFrame, select: Selection, params: Mapping[str, str]) -> Page:
    """What the allocator of torch recorded of itself."""
    devices = [str(device) for device in facts.get_column("device").unique().sort().to_list()]
    device = chosen_value(params, "device", devices, devices[0])
    by = chosen_value(params, "by", [value for value, _ in _OWNERS_BY], _OWNERS_BY[0][0])
    name = f"cuda:{device}"
    picture, at = allocator_block(facts, int(device)), f"device:eq:{name}"
    replays = picture.events <= _MAX_REPLAYED_EVENTS
    answers = job.ask(memory_questions(select))
    sentences = memory_sentences(job, select, answers, name, replays=replays)
    first, *others = sentences or (nothing("use of memory", select),)
    choice = [Control("device", "Memory of", device, [(each, f"cuda:{each}") for each in devices])]
    blocks: list[Block] = [
        *([NoteBlock(join(others))] if others else []),
        *([ControlsBlock(choice)] if len(devices) > 1 else []),
        picture,
        *([ElsewhereBlock("What to change", "findings")] if replays and _is_alone(job) else []),
        ControlsBlock([Control("by", "Owners by", by, _OWNERS_BY)]),
        _owners_table(by, at),
        *_flame(job, select, name),
    ]
    if answers[OOM].frame.filter(device=name).height:
        shown_first = ("kind", "name", "verdict", "confidence", "size", "blocks", "use", "evidence", "remedy")
        blocks.append(TableBlock("Out of memory", "memory_oom", columns=shown_first, filter=at, limit=50))
    pins = (
        "requests",
        "reserved",
        "allocated",
        "inactive_split",
        "largest_free",
        "holes",
        "pin",
        "pin_size",
        "pin_use",
    )
    by_segment = {"by": "segment"}
    blocks.append(
        TableBlock("What keeps segments", "memory_fragmentation", by_segment, columns=pins, filter=at, limit=50)
    )
    grows = ("kind", "name", "verdict", "per_step", "size", "steps", "evidence", "held_by", "stack")
    blocks.append(TableBlock("Growth from step to step", "memory_growth", columns=grows, filter=at, limit=50))
    if replays:
        blocks.append(TableBlock("With other settings", "memory_what_if", filter=at, limit=50))
    results = [answers[OOM], named("memory_peak")(job, select=select), answers[GROWTH]]
    notes = dict.fromkeys(
        note for result in results for note in result.notes if (note.code, note.about) != ("REQUEST_FAILED", name)
    )
    return Page("memory", "Memory", first, blocks=blocks, cannot=tuple(notes))


def _is_alone(job: Job) -> bool:
    """Whether there are snapshots without traces: then no other view has the findings."""
    return all(source.is_snapshot for source in job.sources)


def _owners_table(by: str, at: str) -> TableBlock:
    columns = ("name", "use", "blocks", "size", "share", "module", "repeats", "evidence")
    more = {"use": ("line",), "stack": ("stack",)}.get(by, ())
    return TableBlock(
        "In use at the peak", "memory_peak", {"group_by": by}, columns=(*columns, *more), filter=at, limit=50
    )


def _flame(job: Job, select: Selection, device: str) -> Iterator[Block]:
    """What is in use at the peak by the stacks that requested it; each place in the colour of its largest category."""
    rows = named("memory_peak")(job, select=select, group_by="stack").frame.filter(device=device)
    rows = rows.filter(pl.col("stack").is_not_null() & (pl.col("size") > 0))
    if not rows.height:
        return
    paths = [
        (tuple(stack.split(";")), size, blocks) for stack, size, blocks in rows.select("stack", "size", "blocks").rows()
    ]
    tree = joined(totals(paths), str)
    note = "Bytes by the stacks that requested them, in the colour of the category that has most. A click zooms."
    picture, order = icicle("Who requested it", tree, kind="unknown", note=note, max_nodes=MAX_FLAME_NODES)
    uses: dict[tuple[str, ...], dict[str, int]] = {}
    for (path, size, _), use in zip(paths, rows.get_column("use").to_list(), strict=True):
        for depth in range(1, len(path) + 1):
            sizes = uses.setdefault(path[:depth], {})
            sizes[use] = sizes.get(use, 0) + size
    kinds = [max(uses[path], key=lambda use: uses[path][use]) or "unknown" for path in order]
    yield replace(picture, unit="bytes", kind=kinds, detail=[", ".join(uses[path]) for path in order])


def _peak(curve: Result, peak: Result, device: str) -> Sentence:
    highest = curve.frame.filter(device=device).sort("allocated", descending=True, maintain_order=True)
    rank, instant = highest.select("rank", "time").row(0)
    words = say(
        "Memory of {device} peaks at {size}, {time} into the trace",
        device=greatest(curve, "device", device=device),
        size=greatest(curve, "allocated", rank=rank, device=device, time=instant),
        time=greatest(curve, "time", rank=rank, device=device, time=instant),
    )
    owners = peak.frame.filter((pl.col("device") == device) & (pl.col("size") > 0))
    if not owners.height:
        return say("{words}.", words=words)
    owner = owners.sort("size", "name", descending=True).row(0, named=True)
    of = {name: owner[name] for name in ("rank", "device", "name", "kind", "module", "use", "size")}
    size = greatest(peak, "size", **of)
    if owner["kind"] == "before":
        return say("{words}; {size} of it were in use since before the recording.", words=words, size=size)
    name = greatest(peak, "name", **of).words(f"`{brief(printable(owner['name']), _NAME_CELLS)}`")
    if (owner["modules"] or 0) > 1:
        modules = greatest(peak, "modules", **of)
        return say(
            "{words}; {modules} × {name} allocated {size} of it.", words=words, modules=modules, name=name, size=size
        )
    return say("{words}; {name} allocated {size} of it.", words=words, name=name, size=size)


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
    links = {"start": "allocated_at", "end": "freed_at"}
    each = ("operator", "module", "use", "size", "allocated_at", "freed_at", "duration", "step")
    yield TableBlock("Blocks of memory", "memory_events", columns=each, filter=at, sort="-size", links=links)


def _picture(job: Job, curve: pl.DataFrame, by: str) -> ChartBlock:
    """The memory in use by owner, stacked; reserved memory is in the tables."""
    first = curve.get_column("rank")[0]
    curve = first_cycle(curve.filter(rank=first))
    line = series.thinned(next(series.each(curve, Lines("time", "allocated"), 1)), _POINTS)
    kept = curve[line.rows]
    times = kept.get_column("time").to_numpy()
    in_use = kept.get_column("allocated").to_numpy().astype(np.float64)
    # Of the whole recording: what is in use may have been allocated before what is selected.
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
    note = "Drag over the picture to choose a range of time, in which the tables then count."
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
    """The colour of each area: none of its own for the first, in use since before, and for the others together."""
    return [-1, *(-1 if label.endswith(_OTHERS_LABEL) else place for place, (label, _) in enumerate(owned))]


def _owned(blocks: pl.DataFrame, times: Int64s, peak: int, by: str) -> list[tuple[str, NDArray[Any]]]:
    """Bytes at each of `times` by owner, most at the peak first.

    The owner of a block is the class of the module that allocated it, else the operator; or what it was for.
    """
    of_class = pl.col("module").str.replace(r"_\d+$", "")
    owner = pl.col("use") if by == "use" else pl.coalesce(of_class, "operator", pl.lit("no operator"))
    spans = blocks.filter(pl.col("allocated_at").is_not_null()).select(
        "size", "module", owner=owner, start="allocated_at", end=pl.col("freed_at").fill_null(_VERDICTS)
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
    """`24 × Qwen2Attention`: a class of modules with how many of them allocated memory."""
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
