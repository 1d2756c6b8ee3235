"""The context of calls that formulas get to know: their arguments, and the calls around and after them.

Codes of texts tell calls apart: those with equal codes have equal costs, and each text is parsed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked, scattered
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.engines import STEP_WORDS, parsed
from kinetoscope.model.roofline.formulas.arguments import Arguments, Entry, Estimate, Need, arguments_of
from kinetoscope.model.roofline.formulas.registry import entry_of
from kinetoscope.model.roofline.launches import accumulated_gradients, blocks_and_launches, estimates
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_PATTERNS: Final[dict[Literal["kernel", "algorithm"], re.Pattern[str]]] = {
    "kernel": re.compile(""),
    "algorithm": re.compile(r"winograd|Sp3AsmConv|fft2d|fft_|_fft", re.IGNORECASE),
}
"""Which kernels a formula needs the longest of: any; those of convolutions by Winograd (cuDNN, MIOpen) and by FFT."""

_COLUMNS: Final = ("input_dims", "input_types", "input_strides", "concrete_inputs")


class Context(NamedTuple):
    """Facts about some calls in one respect.

    Attributes:
        codes: int64 [calls] each; calls with equal codes are told the same.
        attributes: those of `Arguments`, by the codes of a call.
    """

    codes: tuple[Int64s, ...]
    attributes: Callable[..., dict[str, Any]]


class Contexts:
    """The arguments of some calls, with what their formulas need besides.

    Attributes:
        shapes: int64 [calls], code of the text of the shapes, −1 where they were not recorded.
    """

    def __init__(self, trace: Trace, rows: Int32s) -> None:
        self._trace = trace
        self._parsed: dict[int, Any] = {-1: None}
        self._own = tuple(arguments.codes(trace, name, rows) for name in _COLUMNS)
        self.shapes = self._own[0]
        others = _other_calls(trace, rows, has_values=self._own[-1] >= 0)
        self._others = [*(self._of_others(need, each) for need, each in others), *_of_launches(trace, rows)]

    @property
    def codes(self) -> list[Int64s]:
        """Codes that tell calls apart: int64 [calls] each."""
        return [*self._own, *(codes for each in self._others for codes in each.codes)]

    def at(self, place: int) -> Arguments | None:
        """All that is known of a call, None where its shapes were not recorded."""
        given = self._read(*(int(codes[place]) for codes in self._own))
        known: dict[str, Any] = {}
        for each in self._others if given is not None else ():
            known |= each.attributes(*(int(codes[place]) for codes in each.codes))
        return None if given is None else replace(given, **known)

    def _of_others(self, need: Need, rows: Int32s) -> Context:
        """The arguments of other calls, one for each, by their rows; −1 for none."""
        codes = tuple(arguments.codes_where(self._trace, name, rows) for name in _COLUMNS)
        return Context(codes, lambda *each: {need: self._read(*each)})

    def _read(self, *codes: int) -> Arguments | None:
        return None if codes[0] < 0 else arguments_of(*(self._nested(code) for code in codes))

    def _nested(self, code: int) -> Any:
        if code not in self._parsed:
            self._parsed[code] = self._trace.strings.nested(code)
        return self._parsed[code]


def of_entries(trace: Trace, rows: Int32s, says: Callable[[Entry], bool]) -> Bools:
    """Answers of the entries of some calls: bool [rows]; False for operators without one."""
    names = call_names(trace)[rows]
    used = marked(len(trace.strings) + 1, names)
    used[-1] = False  # where code −1 has written
    said = used.copy()
    for code in np.flatnonzero(used).tolist():
        entry = entry_of(call_name(trace.strings.label(code), EventKind.HOST_OP))
        said[code] = entry is not None and says(entry)
    return said[names]


def caller_among(trace: Trace, work: DeviceWork, is_wanted: Bools) -> Int32s:
    """The innermost wanted call that each piece of work was launched in: int32 [work], −1 for none."""
    if not len(work):
        return np.empty(0, np.int32)
    caller = work.caller
    return np.where(caller >= 0, ancestor(call_tree(trace).parent, is_wanted)[caller], -1).astype(np.int32)


def _needing(trace: Trace, rows: Int32s, need: Need) -> Int64s:
    """The calls whose formulas have a need: their places in some rows."""
    return np.flatnonzero(of_entries(trace, rows, lambda entry: need in entry.needs))


# --- other calls


def _other_calls(trace: Trace, rows: Int32s, has_values: Bools) -> Iterator[tuple[Need, Int32s]]:
    """Rows of other calls that formulas need, −1 for none: int32 [rows] each.

    has_values: bool [rows], was any value of theirs recorded that is no tensor?
    """
    others: tuple[tuple[Need, Callable[[Trace, Int32s], Int32s]], ...] = (
        ("parent_op", _parent_op),
        ("backward_args", _backward_args),
        ("backward_node", lambda trace, rows: _backward_node(trace)[rows]),
    )
    for need, of_rows in others:
        places = _needing(trace, rows, need)
        places = places[~has_values[places]] if need == "backward_args" else places
        if len(places):
            result = scattered(len(rows), places, of_rows(trace, rows[places]), np.int32)
            yield need, result


def _parent_op(trace: Trace, rows: Int32s) -> Int32s:
    parent = call_tree(trace).parent[rows]
    return np.where(parent >= 0, enclosing_op(trace)[parent], -1).astype(np.int32)


def _backward_args(trace: Trace, rows: Int32s) -> Int32s:
    linked = _backward_node(trace)[rows]
    return np.where(linked >= 0, linked, _next_op(trace, rows)).astype(np.int32)


def _backward_node(trace: Trace) -> Int32s:
    """The first node of the backward pass, with shapes, that is linked to each event: its row, −1 for none.

    int32 [events].
    """
    forward = backward_links(trace).forward
    result = np.full(len(trace), -1, np.int32)
    linked = np.flatnonzero(forward >= 0)
    linked = linked[arguments.has(trace, "input_dims", linked.astype(np.int32))]
    linked = linked[np.argsort(-trace.start[linked], kind="stable")]
    result[forward[linked]] = linked  # of several writes the last one stays, the earliest
    return result


def _next_op(trace: Trace, rows: Int32s) -> Int32s:
    """The first operator of the same thread that starts when each call has ended: its row, −1 for none."""
    ops = trace.rows(EventKind.HOST_OP)
    ops = ops[call_tree(trace).member[ops]]
    result = np.full(len(rows), -1, np.int32)
    for track in np.unique(trace.track[rows]).tolist():
        here = ops[trace.track[ops] == track]
        here = here[np.argsort(trace.start[here], kind="stable")]
        mine = np.flatnonzero(trace.track[rows] == track)
        place = np.searchsorted(trace.start[here], trace.end[rows[mine]])
        result[mine] = np.append(here, np.int32(-1))[place]
    return result


# --- launches, estimates, steps of servers


def _of_launches(trace: Trace, rows: Int32s) -> Iterator[Context]:
    """Facts from kernels, compilers and serving engines."""
    names = {need: _kernel_names(trace, rows, need) for need in _PATTERNS}
    for need, codes in names.items():
        if (codes >= 0).any():
            yield Context((codes,), lambda code, need=need: {need: trace.strings.glance(code)})
    if len(places := _needing(trace, rows, "blocks")):
        owner = caller_among(trace, device_work(trace), marked(len(trace), rows[places]))
        counts = blocks_and_launches(trace, owner, names["kernel"][places], rows[places])
        yield Context(tuple(_spread(rows, places, each, 0) for each in counts), _launched(trace))
    if len(places := _needing(trace, rows, "estimate")):
        amounts = estimates(trace, rows[places])
        yield Context(tuple(_spread(rows, places, each, -1) for each in amounts), _estimated)
    if len(places := _needing(trace, rows, "batch")):
        steps = rows_named(trace, _has_sums, EventKind.ANNOTATION, holding=STEP_WORDS)
        step = ancestor(call_tree(trace).parent, steps)[rows[places]]
        codes = np.where(step >= 0, trace.name[step], -1).astype(np.int64)
        yield Context((_spread(rows, places, codes, -1),), lambda code: {"batch": _batch(trace, code)})


def _spread(rows: Int32s, places: Int64s, values: Int64s, other: int) -> Int64s:
    """Values of the calls at some places, and another one elsewhere: int64 [rows]."""
    result = np.full(len(rows), other, np.int64)
    result[places] = values
    return result


def _kernel_names(trace: Trace, rows: Int32s, need: Literal["kernel", "algorithm"]) -> Int64s:
    """Code of the name of the longest kernel that matches the pattern of a need, launched in each call that has it.

    int64 [rows], −1 for none.
    """
    places, work = _needing(trace, rows, need), device_work(trace)
    owner = caller_among(trace, work, marked(len(trace), rows[places]))
    kernels = np.flatnonzero((owner >= 0) & work.of(WorkKind.COMPUTATION))
    names = np.unique(trace.name[work.rows[kernels]]).tolist()
    matching = [code for code in names if _PATTERNS[need].search(trace.strings.glance(code))]
    kernels = kernels[np.isin(trace.name[work.rows[kernels]], matching)]
    kernels = kernels[np.lexsort((-kernels, work.duration[kernels]))]
    name = np.full(len(trace), -1, np.int64)
    name[owner[kernels]] = trace.name[work.rows[kernels]]  # of several writes the last one stays
    return _spread(rows, places, name[rows[places]], -1)


def _launched(trace: Trace) -> Callable[..., dict[str, Any]]:
    passed = accumulated_gradients(trace)
    return lambda blocks, launches: {"blocks": blocks, "launches": launches, "gradients": passed} if launches else {}


def _estimated(flop: int, moved: int) -> dict[str, Any]:
    return {"estimate": Estimate(flop, moved)} if moved >= 0 else {}


def _batch(trace: Trace, code: int) -> Any:
    """The name that a serving engine gave a step, with sums of lengths; None for code −1."""
    return parsed(trace.strings.label(code)) if code >= 0 else None


def _has_sums(name: str) -> bool:
    step = parsed(name)
    return step is not None and (step.prefill.sk is not None or step.decode.sk is not None)
