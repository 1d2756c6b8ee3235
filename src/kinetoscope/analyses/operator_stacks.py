"""From where in the source an operator is called, and what its calls cost from each place."""

from __future__ import annotations

import difflib
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.calls import call_name, calls
from kinetoscope.model.execution.frames import CodeLocation, module_class, user_source
from kinetoscope.model.operators.call_stacks import CallStacks, call_stacks
from kinetoscope.model.operators.costs import (
    CallGroups,
    GroupingKeys,
    Values,
    device_costs,
    grouped,
    host_costs,
    launched_by_python,
    texts,
)
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("name", pl.String, "Name of the operator, annotation or runtime call."),
    Column("calls", pl.Int64, "How many calls began in the selection."),
    Column(
        "device_self", pl.Int64, "Durations of the device work launched in the calls and in none inside them.", "ns"
    ),
    Column("host_self", pl.Int64, "Duration of the calls less that of the calls directly inside them.", "ns"),
    Column("file", pl.String, "Source file of the innermost frame that is the user's own; null if there is none."),
    Column("line", pl.Int64, "Line in that file, of the call or of the beginning of the function."),
    Column("function", pl.String, "Function of that frame."),
    Column("device_total", pl.Int64, "Sum of the durations of the device work launched in the calls.", "ns"),
    Column("host_total", pl.Int64, "Duration of the calls on the host.", "ns"),
    Column("kind", pl.String, "operator, annotation or runtime."),
    Column("module", pl.String, "Class of the module that this function is the forward of; null for other functions."),
    Column("input_shapes", pl.String, "Shape of each input; null unless asked for, or if none was recorded."),
    Column(
        "call_stack", pl.String, "Python calls around, outermost first; null if none was recorded, or grouped by line."
    ),
    Column("device_total_busy", pl.Int64, "Time in which work of device_total ran, each instant once.", "ns"),
    Column("device_self_busy", pl.Int64, "Time in which work of device_self ran, each instant once.", "ns"),
    across={
        "sum": "calls device_self host_self device_total host_total device_total_busy device_self_busy",
        "key": "line",
    },
)


GroupBy = Literal["stack", "line"]
Backward = Literal["thread", "forward"]


def operator_stacks(
    trace: Trace,
    select: Selection,
    *,
    operator: Annotated[str, Param("Name of the operator or call, or a part of it; empty for all.")] = "",
    exact: Annotated[bool, Param("Only the operator of exactly this name.")] = False,
    group_by: Annotated[
        GroupBy, Param("A row for each call stack, or for each line that is the user's own.")
    ] = "stack",
    shapes: Annotated[bool, Param("A row for each shapes of the inputs, too.")] = False,
    backward: Annotated[
        Backward, Param("Stack of the backward pass: thread: where it ran; forward: that of what it runs backwards.")
    ] = "thread",
) -> Partial:
    """From which lines of the source is an operator called, and what does it cost from each?

    Method. The rows of `operators(group_by="stack")` for the operators, annotations and runtime calls whose name holds
    `operator` (capitals do not matter), one for each call stack: as the file spells it out, else the Python calls
    recorded around the call on its thread. `file`, `line` and `function` are those of the innermost frame that is
    neither torch's, nor in site-packages, nor Python's own. What Python launches inside a call (a graph, a compiled
    kernel) is device_self of the launch. With `group_by="line"` calls from one line are one row.

    How to read it. Sorted by device_self if there is device work, else by host_self. Self columns add up over rows,
    total columns only over rows of one name. `operator="cudaStreamSynchronize"` shows which lines wait for the device,
    `operator="aten::copy_"` which copy.

    Limits. In files of 2021 the line is that of the call; newer torch gives the first line of the function. A backward
    pass on a thread of its own has no stack, unless `backward="forward"` gives it that of the operator that it runs
    backwards. Newer torch leaves out the folder of a package, so packages of others look like the user's own.
    """
    view, nested = scope(trace, select), calls(trace, EventKind.PYTHON)
    stacks = call_stacks(trace, False, backward == "forward")
    details = GroupingKeys(shapes, _by_line(stacks) if group_by == "line" else stacks)
    groups = grouped(view, nested, details, _named(trace, operator, exact))
    work = launched_by_python(view, nested)
    values = {**host_costs(view, nested, groups), **device_costs(view, nested, groups, work)}
    frame = _frame(trace, groups, details, values)
    notes: list[Note] = []
    if group_by == "line":
        frame = frame.with_columns(call_stack=pl.lit(None, pl.String))
    if len(frame) and not stacks.texts:
        notes.append(not_recorded("call stacks", "there is one row for each name"))
    if shapes and len(frame) and not frame["input_shapes"].count():
        notes.append(not_recorded("shapes"))
    if values["device_total"] is None:
        notes.append(
            Note(
                "CALLS_WITHOUT_WORK",
                "No device work was launched in these calls: the columns of device time are empty.",
            )
        )
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis(
    "Call stacks of operators", operator_stacks, RESULT, chart=Bars("call_stack", "device_self", instead="host_self")
)

_SCHEMA: Final = RESULT.per_rank.types
_SHOWN_KINDS: Final = (EventKind.HOST_OP, EventKind.ANNOTATION, EventKind.RUNTIME)


def _named(trace: Trace, operator: str, exact: bool) -> Bools | None:
    """Which events are meant: bool [events], None for all.

    Raises:
        UsageError: none is.
    """
    if not operator:
        return None
    chosen = np.zeros(len(trace), np.bool_)
    names: set[str] = set()
    for kind in _SHOWN_KINDS:

        def fits(text: str, kind: EventKind = kind) -> bool:
            name = call_name(text, kind)
            names.add(name)
            return operator in (name, text) if exact else operator.lower() in text.lower()

        chosen |= rows_named(trace, fits, kind)
    if not chosen.any():
        near = difflib.get_close_matches(operator, sorted(names), 1)
        raise UsageError(f"no operator is called {operator!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return chosen


def _by_line(stacks: CallStacks) -> CallStacks:
    """Of stacks with one line of the user's, and one module, the first one for all; none for those without a line."""
    number: dict[tuple[CodeLocation, str | None], int] = {}
    firsts: list[str] = []
    new = np.full(len(stacks.texts) + 1, -1, np.int32)  # the last is what −1 becomes
    for code, stack in enumerate(stacks.texts):
        key = user_source(stack), module_class(stack)
        if key[0].file is not None:
            new[code] = number.setdefault(key, len(number))
            firsts += [stack] if len(number) > len(firsts) else []
    return CallStacks(new[stacks.code], tuple(firsts))


def _frame(trace: Trace, groups: CallGroups, details: GroupingKeys, values: Values) -> pl.DataFrame:
    columns = texts(trace, groups, details)
    sources = {stack: user_source(stack or "") for stack in set(columns["call_stack"])}
    places = [sources[stack] for stack in columns["call_stack"]]
    where = {name: [getattr(place, name) for place in places] for name in ("file", "line", "function")}
    where["module"] = [module_class(stack or "") for stack in columns["call_stack"]]
    numbers = {name: [None] * len(groups) if column is None else column for name, column in values.items()}
    values_of = {**columns, **where, **numbers}
    frame = pl.DataFrame({name: values_of[name] for name in _SCHEMA}, schema=_SCHEMA)
    frame = frame.filter(pl.any_horizontal(pl.col(name) != 0 for name in ("calls", "host_total", "device_total")))
    order = ["device_self", "host_self", "name", "kind", "call_stack", "file", "line", "input_shapes"]
    return frame.sort(order, descending=[True, True] + [False] * 6, nulls_last=True)
