"""Work that the host does once: it loads code, compiles it, looks for an algorithm. A steady step has none of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, marked
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, union
from kinetoscope.model.compile.regions import compiler_spans
from kinetoscope.model.execution.call_tree import call_tree, inside, self_times
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_data_loading, is_mark
from kinetoscope.model.execution.profiler_overhead import BUFFER_REQUEST
from kinetoscope.model.execution.runtime_calls import SYNCHRONIZING_CALLS, RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.graphs.lost_work import capturing
from kinetoscope.model.steps.steps import step_of, steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing
from kinetoscope.model.trace.trace import Trace

ONE_TIME_NS: Final = 5_000_000
"""Own time of an operator from which on it does something once: load a library, compile a kernel, open a device."""

_ONE_TIME_CALL_NS: Final = 1_000_000
"""The same of a call of the runtime, which takes microseconds else."""

_OUTLIER_RATIO: Final = 10
"""How many times as long as the usual call of its name such a call is."""

_DEVICE_BUSY_SHARE: Final = 0.5
"""Share of a call in which devices work, from which on it waits for them, as a launch does whose queue is full."""

_LOADING_CALL: Final = re.compile(r"ModuleLoad|LibraryLoad|LinkComplete|^(?:cu|hip)Init$|PrimaryCtxRetain|CtxCreate")
"""Calls of the driver that load code or open a device, however long they take."""

_LOADING_OVERHEAD: Final = ("Loading",)
"""In the names of what CUPTI records of its own: `Lazy Function Loading`, `Runtime Triggered Module Loading`."""

_LAUNCH_KINDS: Final = (RuntimeCallKind.LAUNCH, RuntimeCallKind.GRAPH_LAUNCH)
_OTHER_REASONS: Final = (
    *SYNCHRONIZING_CALLS,
    RuntimeCallKind.COPY,
    RuntimeCallKind.ALLOCATE,
    RuntimeCallKind.FREE,
    RuntimeCallKind.BEGIN_CAPTURE,
    RuntimeCallKind.END_CAPTURE,
)
"""Kinds of calls that are long for reasons of their own."""


class OneTimeKind(IntEnum):
    """Kinds of work that is done once."""

    LOADING = 0
    """Code is loaded: in the first launch of a kernel, or by the driver."""
    COMPILING = 1
    """torch.compile compiles."""
    SETTING_UP = 2
    """An operator that launches work is long by itself: it loads a library, or tries algorithms."""
    PROFILING = 3
    """The profiler takes memory for its records."""


ONE_TIME_WORDS: Final[dict[OneTimeKind, str]] = {
    OneTimeKind.LOADING: "loading code",
    OneTimeKind.COMPILING: "compiling code",
    OneTimeKind.SETTING_UP: "setting operators up",
    OneTimeKind.PROFILING: "the profiler's buffers",
}
"""What is done, after `goes to`."""


@dataclass(frozen=True)
class OneTimeWork:
    """The work that the host does once, as far as a trace shows it.

    Attributes:
        rows: int32 [calls], the calls, ascending.
        kind: int8 [calls], the `OneTimeKind` of each.
        time: when they do it and no device works, a union, ns.
    """

    rows: Int32s
    kind: Int8s
    time: Intervals

    def __len__(self) -> int:
        return len(self.rows)

    def kinds(self, trace: Trace, chosen: Bools) -> list[OneTimeKind]:
        """The kinds of some of the calls (bool [calls]), those that take most first."""
        took = (trace.end - trace.start)[self.rows] * chosen
        time = {kind: int(took[self.kind == kind].sum()) for kind in OneTimeKind}
        return sorted((kind for kind in OneTimeKind if time[kind]), key=lambda kind: -time[kind])


@derived
def one_time_work(trace: Trace) -> OneTimeWork:
    """The work that the host does once, while no device works.

    - A launch of 1 ms and more that is the first of its kernel, or another call of the runtime that is the first of its
      name, ten times as long as the usual one; and what the driver or CUPTI name so.
    - The spans of torch.compile's compiler until a step after the first of them has none: what is compiled later is
      compiled again. And the profiler's requests for buffers.
    - An operator that launches work and has 5 ms and more of its own, the first of its name and ten times as long as
      those that follow.

    Calls in which a device works for half of the time and more are left out: they may wait for it.
    """
    spans = compiler_spans(trace).rows
    done = {
        OneTimeKind.COMPILING: _first_compilations(trace, spans),
        OneTimeKind.PROFILING: _overhead(trace, (BUFFER_REQUEST,)),
        OneTimeKind.LOADING: np.concatenate([_first_calls(trace), _loading(trace)]),
        OneTimeKind.SETTING_UP: _first_operators(trace, spans),
    }
    kind_of = np.full(len(trace), -1, np.int8)
    for kind, rows in done.items():
        kind_of[rows] = np.where(kind_of[rows] < 0, kind, kind_of[rows])
    rows = np.flatnonzero(kind_of >= 0).astype(np.int32)
    whole = rows[kind_of[rows] != OneTimeKind.SETTING_UP]
    own = [union(trace.start[whole], trace.end[whole]), *(_own(trace, row) for row in done[OneTimeKind.SETTING_UP])]
    time = union(np.concatenate([each.start for each in own]), np.concatenate([each.end for each in own]))
    return OneTimeWork(rows, kind_of[rows], difference(time, _busy(trace)))


def _first_compilations(trace: Trace, spans: Int32s) -> Int32s:
    """The compiler's spans that begin before the first step without any that follows a step with some."""
    every = steps(trace)
    step = step_of(every.host, trace.start[spans])
    compiled = np.unique(step[step >= 0])
    without = np.setdiff1d(np.arange(len(every)), compiled)
    later = without[without > compiled[0]] if len(compiled) else without[:0]
    return spans[trace.start[spans] < every.host.start[later[0]]] if len(later) else spans


def _first_calls(trace: Trace) -> Int32s:
    """Long calls of the runtime, each the first of its kernel or of its name."""
    kinds, rows = runtime_call_kinds(trace), trace.rows(EventKind.RUNTIME)
    rows = rows[~np.isin(kinds[rows], _OTHER_REASONS)]
    if not _any_takes(trace, rows, _ONE_TIME_CALL_NS):
        return rows[:0]
    took = self_times(trace)
    rows = rows[~_while_capturing(trace, rows)]
    long = rows[took[rows] >= _ONE_TIME_CALL_NS]
    if not len(long):
        return long
    launching = np.isin(kinds, _LAUNCH_KINDS)
    kernel = np.full(len(trace), -1, np.int64)
    work = device_work(trace)
    linked = np.flatnonzero(work.launch >= 0)[::-1]
    kernel[work.launch[linked]] = trace.name[work.rows[linked]]
    # A launch goes by its kernel, another call by its name; a launch without its kernel is known by its length alone.
    key = np.where(launching, kernel, -2 - trace.name.astype(np.int64))
    usual = np.zeros(len(trace), np.float64)
    for group in (rows[launching[rows]], *(rows[key[rows] == each] for each in np.unique(key[long]) if each < -1)):
        usual[group] = np.median(took[group]) if len(group) > 1 else 0
    long = long[_is_first(trace, rows, key)[long] | (key[long] == -1)]
    return _exposed(trace, long[took[long] >= _OUTLIER_RATIO * usual[long]])


def _any_takes(trace: Trace, rows: Int32s, least: int) -> bool:
    """Does any call last so long? If none does, none has so much of its own, and own times need not be known."""
    return bool((trace.end[rows] - trace.start[rows] >= least).any())


def _is_first(trace: Trace, rows: Int32s, key: Int64s) -> Bools:
    """The first row of each key: bool [events]."""
    order = rows[np.argsort(trace.start[rows], kind="stable")]
    _, first = np.unique(key[order], return_index=True)
    return marked(len(trace), order[first])


def _loading(trace: Trace) -> Int32s:
    """Calls in which the driver or CUPTI say that they load code."""
    rows = trace.rows(EventKind.RUNTIME)
    codes = np.unique(trace.name[rows])
    loading = [code for code in codes.tolist() if _LOADING_CALL.search(trace.strings.label(code))]
    named = rows[np.isin(trace.name[rows], loading)]
    return np.concatenate([named, _overhead(trace, _LOADING_OVERHEAD)])


def _overhead(trace: Trace, words: tuple[str, ...]) -> Int32s:
    """CUPTI's records of its own work, by words in the names."""
    return np.flatnonzero(rows_containing(trace, words, EventKind.OVERHEAD)).astype(np.int32)


def _first_operators(trace: Trace, compiling: Int32s) -> Int32s:
    """Operators that launch work and are long by themselves, each the first of its name."""
    work, ops = device_work(trace), trace.rows(EventKind.HOST_OP)
    if not len(work) or not _any_takes(trace, ops, ONE_TIME_NS):
        return ops[:0]
    took = self_times(trace)
    ops = ops[~is_mark(trace)[ops] & ~is_data_loading(trace)[ops] & ~_while_capturing(trace, ops)]
    long = ops[took[ops] >= ONE_TIME_NS]
    if not len(long):
        return long
    in_compiler = marked(len(trace), compiling)
    long = long[~inside(trace, in_compiler)[long] & _is_first(trace, ops, trace.name.astype(np.int64))[long]]
    launching = marked(len(trace), work.launch[work.launch >= 0])
    alone = []
    for row in long.tolist():
        of_name = ops[trace.name[ops] == trace.name[row]]
        later = of_name[of_name != row]
        within = launching & (trace.track == trace.track[row])
        within &= (trace.start >= trace.start[row]) & (trace.start < trace.end[row])
        if within.any() and (not len(later) or took[row] >= _OUTLIER_RATIO * np.median(took[later])):
            alone.append(row)
    return _exposed(trace, np.array(alone, np.int32))


def _own(trace: Trace, row: int) -> Intervals:
    """The time of a call without that of the calls in it."""
    within = np.flatnonzero(call_tree(trace).parent == row)
    return difference(union(trace.start[[row]], trace.end[[row]]), union(trace.start[within], trace.end[within]))


def _exposed(trace: Trace, rows: Int32s) -> Int32s:
    """Calls of which most is time in which no device works."""
    hidden = covered(Intervals(trace.start[rows], trace.end[rows]), _busy(trace))
    return rows[hidden < _DEVICE_BUSY_SHARE * (trace.end[rows] - trace.start[rows])]


@derived
def _busy(trace: Trace) -> Intervals:
    work = device_work(trace)
    return union(work.start, work.end)


def _while_capturing(trace: Trace, rows: Int32s) -> Bools:
    windows = capturing(trace)
    return covered(Intervals(trace.start[rows], trace.end[rows]), windows) > 0
