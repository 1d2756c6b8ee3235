"""Where time goes, as stacks of calls: what a flame graph is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import NO_NODE, Prefixes, group, prefix_tree, sum_by
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.compile.kernels import compiled_calls
from kinetoscope.model.compile.provenance import source_text
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.execution.autograd import belongs_to, by_start
from kinetoscope.model.execution.call_tree import call_tree, owned_times
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.frames import MAX_DEPTH, SEPARATOR, frame_text
from kinetoscope.model.execution.marks import is_module_call
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import has_timeline, not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("stack", pl.String, "Names of the calls from the outermost to the innermost, parted by semicolons."),
    Column("value", pl.Int64, "Time in the innermost of them and in none inside it.", "ns"),
    Column("calls", pl.Int64, "How many calls, or pieces of device work, of this stack began in the selection."),
    across={"sum": "value calls"},
)

Weight = Literal["auto", "device", "host"]
Python = Literal["all", "modules", "none"]
Backward = Literal["thread", "forward"]


def flame(
    trace: Trace,
    select: Selection,
    *,
    weight: Annotated[Weight, Param("device time, host time, or auto: device time if there is any.")] = "auto",
    python: Annotated[Python, Param("Frames of Python: all, modules only, or none.")] = "all",
    operators: Annotated[bool, Param("Frames for operators, annotations and runtime calls.")] = True,
    kernels: Annotated[bool, Param("Frames for device work, with device time.")] = True,
    backward: Annotated[
        Backward,
        Param(
            "Where the backward pass stands: thread: where it ran; forward: under the operator that it runs backwards."
        ),
    ] = "thread",
) -> Partial:
    """Through which calls does the time go, from the program down to the kernel?

    Method. A row is a path of nested calls: Python calls, annotations, operators, runtime calls. With host time, each
    instant of a thread counts to the innermost call: the values sum to the time in which any call runs, over all
    threads. With device time, the duration of each piece of device work counts to the path of its launch, with the
    kernel as the innermost frame: the values sum to the durations of all device work. Runtime calls are no frames
    there; work launched in no shown call is under `no call`, work whose launch was not recorded under `unlinked`.

    How to read it. Sorted by value. Wide frames with little below them are where to look. `--format folded` writes the
    lines that flamegraph.pl, speedscope and inferno read.

    Limits. Equal paths of different threads join; numbers of steps and addresses of objects are left out for that. A
    backward pass on a thread of its own has no Python calls around it; with `backward="forward"` it stands under the
    operator that it runs backwards, if the file has forward–backward links. A time range clips; with steps, threads or
    an annotation selected, paths still begin at the outermost call. Paths without time of their own have no row, and a
    call inside a thousand others is no frame. The frames of compiled kernels end with their lines in the program, where
    files of torch.compile tell them (see `compiled_kernels`).
    """
    if weight == "host" and not has_timeline(trace):
        raise UsageError("weight=host needs the times of calls on the host, and this recording of sums has no times")
    view = scope(trace, select)
    notes: list[Note] = []
    on_device = weight == "device" or (weight == "auto" and bool(view.device_work_mask.any()))
    paths = _paths(trace, python, operators, operators and not on_device, backward)
    frame = _device(view, paths, kernels=kernels) if on_device else _host(view, paths)
    if on_device and not view.device_work_mask.any():
        notes.append(no_work_note(view, "weight=host weighs by host time"))
    if python != "none" and not (trace.kind == EventKind.PYTHON).any():
        notes.append(not_recorded("Python calls"))
    if weight == "auto":
        of = "device" if on_device else "host"
        notes.append(Note("VALUES_ARE", f"Values are {of} time.", about=of))
    return Partial(frame.group_by("stack").sum().sort(["value", "stack"], descending=[True, False]), tuple(notes))


ANALYSIS = Analysis("Flame graph", flame, RESULT, chart=Bars("stack", "value"), of_operators=True, of_sums=())

_UNLINKED, _NO_CALL = "unlinked", "no call"
_SCHEMA: Final = RESULT.per_rank.types


@dataclass(frozen=True)
class _Paths:
    """The paths of calls.

    Attributes:
        shown: bool [events], the calls that are frames.
        tree: the paths as a prefix tree over all events.
        frames: the text of each label.
    """

    shown: Bools
    tree: Prefixes
    frames: dict[int, str]

    def texts(self) -> list[str]:
        """Of each node the frames from the root on."""
        texts: list[str] = []
        for parent, label in zip(self.tree.parent.tolist(), self.tree.label.tolist(), strict=True):
            texts.append(texts[parent] + SEPARATOR + self.frames[label] if parent >= 0 else self.frames[label])
        return texts


# --- paths


@derived
def _paths(trace: Trace, python: Python, operators: bool, runtime: bool, backward: Backward) -> _Paths:
    tree = call_tree(trace)
    kinds = [
        *([EventKind.HOST_OP, EventKind.ANNOTATION] if operators else []),
        *([EventKind.RUNTIME] if runtime else []),
    ]
    shown = np.isin(trace.kind, kinds)
    if python == "all":
        shown |= trace.kind == EventKind.PYTHON
    elif python == "modules":
        shown |= is_module_call(trace)
    shown &= tree.member & (tree.depth < MAX_DEPTH)
    codes, frames = _frames(trace, shown)
    around = belongs_to(trace) if backward == "forward" else tree.parent
    prefixes = prefix_tree(by_start(trace), around, np.where(shown, codes, np.int32(-1)))
    return _Paths(shown, prefixes, frames)


def _frames(trace: Trace, shown: Bools) -> tuple[Int32s, dict[int, str]]:
    """A code for the frame of each event, and the texts of the codes."""
    codes = call_names(trace)
    present = marked(len(trace.strings) + 1, codes[shown])
    present[-1] = False  # where code −1 has written
    same = np.arange(len(present), dtype=np.int32)
    frames: dict[int, str] = {}
    first: dict[str, int] = {}
    for code in np.flatnonzero(present).tolist():
        text = _frame(trace.strings.label(code))
        same[code] = first.setdefault(text, code)
        frames[code] = text
    nameless = np.int32(len(trace.strings))
    frames[int(nameless)] = _frame("")
    labels = np.where(codes >= 0, same[codes], nameless)
    _add_lines(trace, labels, frames)
    return labels, frames


def _add_lines(trace: Trace, labels: Int32s, frames: dict[int, str]) -> None:
    """Put the lines of compiled calls, where known, into their frames: `triton_poi_fused_add_0 (model.py:8)`."""
    if not trace.source.files("compile"):
        return
    calls = compiled_calls(trace)
    sources = [source_text(each.lines.places) for each in calls.sites]
    known = np.array([*(bool(text) for text in sources), False])[calls.site] & (labels[calls.rows] >= 0)
    rows, site = calls.rows[known], calls.site[known]
    codes, first = group(labels[rows], site)
    free = len(trace.strings) + 1
    for place, (label, number) in enumerate(zip(labels[rows[first]].tolist(), site[first].tolist(), strict=True)):
        if label in frames:
            frames[free + place] = f"{frames[label]} ({sources[number].replace(SEPARATOR, ',')})"
    shown = np.array([int(label) in frames for label in labels[rows]], np.bool_)
    labels[rows[shown]] = free + codes[shown]


def _frame(name: str) -> str:
    name = call_name(name, EventKind.ANNOTATION)
    return frame_text(name) or "(no name)"


# --- values


def _host(view: Scope, paths: _Paths) -> pl.DataFrame:
    trace, nodes = view.trace, len(paths.tree.label)
    own = owned_times(trace, paths.shown, view.clip)
    chosen = paths.shown & view.host_mask_untimed
    values = sum_by(paths.tree.node[chosen], nodes, own[chosen])
    calls = np.bincount(paths.tree.node[paths.shown & view.host_mask], minlength=nodes)
    return _rows(paths.texts(), values, calls)


def _device(view: Scope, paths: _Paths, *, kernels: bool) -> pl.DataFrame:
    work = view.device_work
    row = work.caller[view.device_work_mask]
    node = np.where(row >= 0, paths.tree.node[row], np.int32(NO_NODE))
    node[row < 0] = NO_NODE - 1
    names = view.trace.name[work.rows[view.device_work_mask]] if kernels else np.full(len(node), -1, np.int32)
    codes, first = group(node, names)
    start, end = view.clipped(work.start[view.device_work_mask], work.end[view.device_work_mask])
    begun = work.start[view.device_work_mask] == start  # what is cut at its beginning began before
    texts = [*paths.texts(), _UNLINKED, _NO_CALL]  # nodes −2 and −1
    stacks = [texts[place] for place in node[first].tolist()]
    if kernels:
        frames = [_frame(view.trace.strings.label(code)) for code in names[first].tolist()]
        stacks = [stack + SEPARATOR + frame for stack, frame in zip(stacks, frames, strict=True)]
    values, calls = sum_by(codes, len(first), end - start), np.bincount(codes[begun], minlength=len(first))
    return _rows(stacks, values, calls)


def _rows(stacks: list[str], values: Int64s, calls: Int64s) -> pl.DataFrame:
    """A row for each stack that has a value."""
    places = np.flatnonzero(values)
    columns = {"stack": [stacks[place] for place in places.tolist()], "value": values[places], "calls": calls[places]}
    return pl.DataFrame(columns, schema=_SCHEMA)
