"""HOST015: Python goes through the elements of tensors one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.evidence.stakes import leave_only
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Int64s, marked
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge, union
from kinetoscope.model.execution.call_tree import inside, main_thread, outermost_ops
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.marks import is_data_loading
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import measured, say

_VALUES: Final = frozenset({"aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"})
"""Operators that give Python the value of a tensor of one element."""

_ELEMENTS: Final = frozenset({"aten::select", "aten::unbind", "aten::detach"}) | _VALUES
"""These, and operators that go to the elements."""

_MIN_VALUES: Final = 16
"""Values in a row, from which on it is a loop over elements."""

_PAUSE_NS: Final = 100_000
"""Between two of them, ns: after more, something else was done."""

_CERTAIN_SHARE: Final = 0.8
_CERTAIN_SHARE_ON_HOST: Final = 0.4
"""Certain share of the gain with a device, which each value waits for, and without: recording makes operators of a
microsecond several times as long."""


def values_one_by_one(rank: RankView) -> Iterator[Finding]:
    """Does Python loop over the elements of a tensor, as metrics in plain Python do?

    What it checks. On the main thread, rows of operators that take single elements or compute with them (`select`,
    `item`, `is_nonzero`, and any operator all of whose inputs have no dimensions), less than 0.1 ms apart, with sixteen
    and more values taken in them. Those of data loaders belong to DATA001.

    Why it matters. Each operator costs microseconds for one element, and with a device each value is a wait. An
    operator on the whole tensor, or one `tolist()`, costs as much as one of them. At stake is the time that the steps
    gain without these loops; eight tenths of it are the lower end, on the host alone four tenths, as recording
    lengthens operators that short.

    What to do. Compute with whole tensors, and fetch the result once.
    """
    trace, track = rank.trace, main_thread(rank.trace)
    rows, run = _runs(rank, track)
    if not len(rows):
        return
    first = np.flatnonzero(np.diff(run, prepend=-1))
    last = np.concatenate([first[1:], [len(rows)]]) - 1
    loops = Intervals(trace.start[rows[first]], trace.end[rows[last]])
    values = int(_named(trace, _VALUES)[rows].sum())
    calls = marked(len(trace), rows)
    within, factors = inside(trace, calls), rank.factors()
    waits = host_waits(trace).call
    factors.free[waits[within[waits]]] = True
    factors.host[within] = 0.0
    factors.cut[track] = union(*loops)
    launched = launched_by(trace, within)
    leave_only(factors, launched, 0.0)
    certain = _CERTAIN_SHARE if rank.has_device else _CERTAIN_SHARE_ON_HOST
    time, launches = union(*loops), rank.work_spans(launched)
    took = merge(time, intersection(launches, rank.time)).length
    saved = saving(rank, certain, factors, time, took=took, goes=merge(rank.exposed(time), launches))
    if saved is None:
        return
    longest = int(first[np.argmax(loops.end - loops.start)])
    where = user_source_of(trace, int(rows[longest]))
    yield saved.finding(
        message=say(
            "Python goes through the elements of tensors one by one{where}. {values} are taken in loops of {each} each,"
            " {all} of each step.",
            where=in_source(where),
            values=rank.each_step(values, "value"),
            each=measured(loops.length / len(first), "ns"),
            all=saved.per_step,
        ),
        change="- hits = sum(p == t for p, t in zip(predicted, target))\n+ hits = (predicted == target).sum()",
        why=say(
            "An operator on the whole tensor takes next to nothing; recording lengthens the loop's short operators, so"
            " that {certain} of the gain remains at least.",
            certain=share(certain, 1.0),
        ),
        confidence="high" if rank.has_device else "medium",
        evidence=rank.longest_of(loops, "the longest of these loops", "operators", int(rows[longest]), where),
    )


def _runs(rank: RankView, track: int) -> tuple[Int64s, Int64s]:
    """Operators on single elements that follow one another with enough values: rows by time, and the run of each."""
    trace = rank.trace
    chosen_ops = outermost_ops(trace) & rank.scope.host_mask & ~inside(trace, is_data_loading(trace))
    rows = np.flatnonzero(chosen_ops & (trace.track == track))
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    fits = (_named(trace, _ELEMENTS) | _without_dimensions(trace))[rows]
    apart = np.ones(len(rows), np.bool_)
    apart[1:] = trace.start[rows[1:]] - trace.end[rows[:-1]] > _PAUSE_NS
    number = np.cumsum(apart | ~fits | ~np.concatenate([[False], fits[:-1]]))
    rows, number = rows[fits], number[fits]
    values = np.bincount(number, weights=_named(trace, _VALUES)[rows]) if len(rows) else np.zeros(1)
    chosen = values[number] >= _MIN_VALUES
    return rows[chosen], number[chosen]


def _named(trace: Trace, names: frozenset[str]) -> Bools:
    return rows_named(trace, names.__contains__, EventKind.HOST_OP)


def _without_dimensions(trace: Trace) -> Bools:
    """Operators with recorded inputs of which none has a dimension: bool [events]."""
    rows = trace.rows(EventKind.HOST_OP)
    codes = arguments.codes(trace, "input_dims", rows)
    result = np.zeros(len(trace), np.bool_)
    empty = [code for code in np.unique(codes[codes >= 0]).tolist() if _is_empty(trace.strings.nested(code))]
    result[rows[np.isin(codes, empty)]] = True
    return result


def _is_empty(dims: object) -> bool:
    return isinstance(dims, list) and len(dims) > 0 and all(each == [] for each in dims)


RULE = Rule("HOST015", "Python goes through tensors element by element", values_one_by_one, needs="computation")
