"""Which calls device work is charged to, and what each of them costs: nothing counts twice.

Operators nest: `aten::linear` calls `aten::addmm`, a convolution passes through four more. Device work is charged to
the innermost operator around its launch whose cost is known. A product whose product runs in an operator inside it
costs nothing itself. Copies over links, sets of memory and collectives have their cost as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.trees.tree import ancestor, subtree_sum
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.engines import STEP_WORDS, parsed
from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Estimate, Need, arguments_of
from kinetoscope.model.roofline.formulas.registry import cost, entry_of
from kinetoscope.model.roofline.launches import accumulated_gradients, blocks_and_launches, estimates
from kinetoscope.model.roofline.transfers import Link, transfers
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.element_types import ElementType
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

_PATTERNS: Final[dict[Need, re.Pattern[str]]] = {
    "kernel": re.compile(""),
    "algorithm": re.compile(r"winograd|Sp3AsmConv|fft2d|fft_|_fft", re.IGNORECASE),
}
"""Which kernels a formula needs the longest of: any; those of convolutions by Winograd (cuDNN, MIOpen) and by FFT."""

_COLUMNS: Final = ("input_dims", "input_types", "input_strides", "concrete_inputs")


class Uncovered(IntEnum):
    """Why the cost of some device work is unknown."""

    NOT = 0
    """It is known."""
    NO_OPERATOR = 1
    """No operator is known to have launched it: graphs, libraries without operators, launches before the recording."""
    NO_FORMULA = 2
    """The operator is not in the registry."""
    NO_SHAPES = 3
    """The operator is, but its shapes were not recorded."""
    NO_ARGUMENTS = 4
    """The recorded arguments do not tell what it costs: strides, lengths or types are missing."""
    NO_PEAK = 5
    """Its cost is known, but not how fast the device is (see `floors`)."""


@dataclass(frozen=True)
class Variant:
    """Calls of one operator with the same arguments, or transfers of the same kind and size.

    Attributes:
        name: the operator, without overload; of a transfer the name of the device work.
        shapes: code of the text of its input shapes; −1 for a transfer.
        type: of its elements; None where it was not recorded.
        cost: of a call.
        is_product: does it multiply matrices?
        link: what a transfer passes; its bytes are those of the transfer then.
    """

    name: str
    shapes: int
    type: ElementType | None
    cost: Cost
    is_product: bool = False
    link: Link = "none"

    @property
    def flop(self) -> float:
        """Operations of products of a call: 0 or more."""
        return float(self.cost.flop * self._factor)

    @property
    def least_flop(self) -> float:
        """The same by the algorithm that ran, where it needs fewer than the formula counts."""
        reduced = self.cost.reduced_flop
        return self.flop if reduced is None else float(reduced * self._factor)

    @property
    def bytes(self) -> float | None:
        """Bytes that a call moves at least; None where that is unknown."""
        return None if self.cost.bytes is None else float(self.cost.bytes)

    @property
    def _factor(self) -> int:
        return self.type.factor if self.type is not None else 1


@dataclass(frozen=True)
class CostedCalls:
    """The calls whose costs are known, in file order, and after them the pieces of device work with costs of their own.

    Attributes:
        rows: int32 [calls], their rows: operators, and device work that is a transfer.
        variant: int32 [calls], places in `variants`.
        variants: of the calls.
        call: int32 [work], the call that each piece of device work is charged to: its place; −1 for none.
        uncovered: int8 [work], why it is charged to none, an `Uncovered`.
        uncounted: int32 [operators], rows of the innermost products whose arguments do not tell what they cost, with no
            product around them that is known.
    """

    rows: Int32s
    variant: Int32s
    variants: tuple[Variant, ...]
    call: Int32s
    uncovered: Int8s
    uncounted: Int32s

    def __len__(self) -> int:
        return len(self.rows)

    def of_calls(self, values: Sequence[Any]) -> Floats:
        """Values of the variants (None: unknown) as those of the calls: float64 [calls], NaN for unknown."""
        each = np.array([np.nan if value is None else value for value in values], np.float64)
        return each[self.variant] if len(each) else np.zeros(0)

    def at(self, call: Int32s, values: Sequence[Any]) -> Floats:
        """`of_calls` of some calls, by their places: float64 [call], NaN also for call −1."""
        return np.append(self.of_calls(values), np.nan)[call]

    @property
    def flop(self) -> Floats:
        """Operations of products of each call: float64 [calls]; exact up to 2⁵³."""
        return self.of_calls([variant.flop for variant in self.variants])

    @property
    def is_product(self) -> Bools:
        """Which calls multiply matrices: bool [calls]."""
        return self.of_calls([variant.is_product for variant in self.variants]) > 0


@derived
def costed_calls(trace: Trace) -> CostedCalls:
    """The calls of a trace whose costs are known, each with the device work that is charged to it."""
    work = device_work(trace)
    candidates = _candidates(trace, work)
    variants, code = _variants(trace, candidates, work)
    is_known = np.array([variant is not None for variant in variants], np.bool_)[code] if len(code) else code > 0
    is_product = _of_entries(trace, candidates, lambda entry: entry.is_product)
    rows, kept = candidates[is_known], code[is_known]
    innermost = ~(is_product[is_known] & _holds(trace, rows[is_product[is_known]])[rows])
    rows, kept = rows[innermost], kept[innermost]
    charged = _charged(trace, work, rows)
    used = _used(trace, rows, is_product[is_known][innermost], charged)
    rows, kept = rows[used], kept[used]
    place = np.full(len(trace) + 1, -1, np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    call = place[charged]
    uncounted = _uncounted(trace, candidates[~is_known & is_product], rows, candidates[is_product])
    uncovered = _reasons(trace, work, call, candidates)
    moved = transfers(trace, call)
    pieces = np.flatnonzero(moved.code >= 0).astype(np.int32)
    call[pieces] = len(rows) + np.arange(len(pieces), dtype=np.int32)
    uncovered[pieces] = Uncovered.NOT
    costs = [Cost(bytes=each.bytes, is_least=each.is_least) for each in moved.kinds]
    transferred = [
        Variant(each.name, -1, None, cost, link=each.link) for each, cost in zip(moved.kinds, costs, strict=True)
    ]
    every: list[Variant | None] = [*variants, *transferred]
    codes = np.concatenate([kept, moved.code[pieces] + len(variants)])
    distinct, variant = np.unique(codes, return_inverse=True)
    return CostedCalls(
        rows=np.concatenate([rows, work.rows[pieces]]).astype(np.int32),
        variant=variant.astype(np.int32),
        variants=tuple(each for number in distinct.tolist() if (each := every[number]) is not None),
        call=call,
        uncovered=uncovered,
        uncounted=uncounted,
    )


def _candidates(trace: Trace, work: DeviceWork) -> Int32s:
    """Rows of the calls of operators in the registry: of those that launch anything, and of all products."""
    ops = trace.rows(EventKind.HOST_OP)
    ops = ops[call_tree(trace).member[ops]]
    wanted = _of_entries(trace, ops, lambda _: True)
    if not is_host_only(trace):
        launching = np.bincount(work.caller[work.caller >= 0], minlength=len(trace))
        calls = call_tree(trace)
        is_launching = subtree_sum(launching, calls.parent, calls.order)[ops] > 0
        wanted &= is_launching | _of_entries(trace, ops, lambda entry: entry.is_product)
    return ops[wanted]


def _name(trace: Trace, row: int) -> str:
    return call_name(trace.strings.label(int(trace.name[row])), EventKind.HOST_OP)


def _of_entries(trace: Trace, rows: Int32s, says: Callable[[Entry], bool]) -> Bools:
    """What the entries of some calls say: bool [rows]; False for operators without one."""
    names = call_names(trace)[rows]
    used = np.zeros(len(trace.strings) + 1, np.bool_)
    used[names] = True
    used[-1] = False  # where code −1 has written
    said = used.copy()
    for code in np.flatnonzero(used).tolist():
        entry = entry_of(call_name(trace.strings.label(code), EventKind.HOST_OP))
        said[code] = entry is not None and says(entry)
    return said[names]


# --- costs


def _variants(trace: Trace, rows: Int32s, work: DeviceWork) -> tuple[list[Variant | None], Int32s]:
    """The distinct calls among some, None for those of unknown cost; and which of them each is: int32 [rows]."""
    own = [arguments.codes(trace, name, rows) for name in _COLUMNS]
    context = _context(trace, rows, has_values=own[-1] >= 0)
    beside = {need: [_codes_where(trace, name, each) for name in _COLUMNS] for need, each in context.items()}
    kernels = {need: _kernel_names(trace, rows, need, work) for need in _PATTERNS}
    blocks, launches = (np.zeros(len(rows), np.int64) for _ in range(2))
    launching = _needing(trace, rows, "blocks")
    if len(launching):
        owner = _around(trace, work, _marked(trace, rows[launching]))
        of_kernel = kernels["kernel"][launching]
        blocks[launching], launches[launching] = blocks_and_launches(trace, owner, of_kernel, rows[launching])
    flop, moved = (np.full(len(rows), -1, np.int64) for _ in range(2))
    estimated = _needing(trace, rows, "estimate")
    flop[estimated], moved[estimated] = estimates(trace, rows[estimated])
    batches = _batches(trace, rows)
    others = [*chain(*beside.values()), *kernels.values(), blocks, launches, flop, moved, batches + 1]
    others = [codes for codes in others if (codes > 0).any()]
    code, first = group(call_names(trace)[rows], *own, *others)
    read = _Reader(trace)
    variants = []
    for place in first.tolist():
        name = _name(trace, int(rows[place]))
        given = read(*(int(each[place]) for each in own))
        if given is not None:
            outer, later, twin, node = (read(*(int(codes[place]) for codes in each)) for each in beside.values())
            kernel, algorithm = (trace.strings.glance(int(codes[place])) for codes in kernels.values())
            given = replace(given, outer=outer, later=later, twin=twin, node=node, kernel=kernel, algorithm=algorithm)
            if launches[place]:
                passed = accumulated_gradients(trace)
                given = replace(given, blocks=int(blocks[place]), launches=int(launches[place]), gradients=passed)
            if moved[place] >= 0:
                given = replace(given, estimate=Estimate(int(flop[place]), int(moved[place])))
            if batches[place] >= 0:
                given = replace(given, batch=parsed(trace.strings.label(int(batches[place]))))
        variants.append(None if given is None else _variant(name, given, int(own[0][place])))
    return variants, code


class _Reader:
    """Arguments by the codes of their texts; each text is parsed once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._parsed: dict[int, Any] = {-1: None}

    def __call__(self, *codes: int) -> Arguments | None:
        """The arguments, None where no shapes were recorded."""
        return None if codes[0] < 0 else arguments_of(*(self._nested(code) for code in codes))

    def _nested(self, code: int) -> Any:
        if code not in self._parsed:
            self._parsed[code] = self._trace.strings.nested(code)
        return self._parsed[code]


def _variant(name: str, given: Arguments, shapes: int) -> Variant | None:
    of_call, entry = cost(name, given), entry_of(name)
    return None if of_call is None or entry is None else Variant(name, shapes, given.type, of_call, entry.is_product)


def _needing(trace: Trace, rows: Int32s, need: Need) -> Int64s:
    """The calls whose formulas have a need: their places in some rows."""
    return np.flatnonzero(_of_entries(trace, rows, lambda entry: need in entry.needs))


def _batches(trace: Trace, rows: Int32s) -> Int64s:
    """Code of the name of the step of a serving engine that each call stands in, of those whose formulas need it.

    int64 [rows], −1 for none. A name counts that has sums of lengths.
    """
    codes, places = np.full(len(rows), -1, np.int64), _needing(trace, rows, "batch")
    if len(places):
        steps = rows_named(trace, _has_sums, EventKind.ANNOTATION, holding=STEP_WORDS)
        step = ancestor(call_tree(trace).parent, steps)[rows[places]]
        codes[places] = np.where(step >= 0, trace.name[step], -1)
    return codes


def _has_sums(name: str) -> bool:
    step = parsed(name)
    return step is not None and (step.prefill.sk is not None or step.decode.sk is not None)


def _context(trace: Trace, rows: Int32s, has_values: Bools) -> dict[Need, Int32s]:
    """What some formulas need, as rows of other calls, −1 for none: int32 [rows] each.

    has_values: bool [rows], was any value of theirs recorded that is no tensor?
    """
    outer, later, twin, node = (np.full(len(rows), -1, np.int32) for _ in range(4))
    places = _needing(trace, rows, "outer")
    parent = call_tree(trace).parent[rows[places]]
    outer[places] = np.where(parent >= 0, enclosing_op(trace)[parent], -1)
    places = _needing(trace, rows, "later")
    later[places] = _next_op(trace, rows[places])
    places = _needing(trace, rows, "twin")
    places = places[~has_values[places]]
    if len(places):
        linked = _backward_node(trace)[rows[places]]
        twin[places] = np.where(linked >= 0, linked, _next_op(trace, rows[places]))
    places = _needing(trace, rows, "node")
    if len(places):
        node[places] = _backward_node(trace)[rows[places]]
    return {"outer": outer, "later": later, "twin": twin, "node": node}


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


def _kernel_names(trace: Trace, rows: Int32s, need: Need, work: DeviceWork) -> Int64s:
    """Code of the name of the longest kernel that matches the pattern of a need, launched in each call that has it.

    int64 [rows], −1 for none.
    """
    places = _needing(trace, rows, need)
    owner = _around(trace, work, _marked(trace, rows[places]))
    kernels = np.flatnonzero((owner >= 0) & work.of(WorkKind.COMPUTATION))
    names = np.unique(trace.name[work.rows[kernels]]).tolist()
    matching = [code for code in names if _PATTERNS[need].search(trace.strings.glance(code))]
    kernels = kernels[np.isin(trace.name[work.rows[kernels]], matching)]
    kernels = kernels[np.lexsort((-kernels, work.duration[kernels]))]
    name = np.full(len(trace), -1, np.int64)
    name[owner[kernels]] = trace.name[work.rows[kernels]]  # of several writes the last one stays
    result = np.full(len(rows), -1, np.int64)
    result[places] = name[rows[places]]
    return result


def _marked(trace: Trace, rows: Int32s) -> Bools:
    """Some rows: bool [events]."""
    marked = np.zeros(len(trace), np.bool_)
    marked[rows] = True
    return marked


def _codes_where(trace: Trace, name: str, rows: Int32s) -> Int64s:
    """Codes of an argument of some rows, −1 where there is no row."""
    result = np.full(len(rows), -1, np.int64)
    present = np.flatnonzero(rows >= 0)
    result[present] = arguments.codes(trace, name, rows[present])
    return result


# --- which work is charged to which call


def _around(trace: Trace, work: DeviceWork, is_wanted: Bools) -> Int32s:
    """The innermost wanted call that each piece of work was launched in: int32 [work], −1 for none."""
    if not len(work):
        return np.empty(0, np.int32)
    caller = work.caller
    return np.where(caller >= 0, ancestor(call_tree(trace).parent, is_wanted)[caller], -1).astype(np.int32)


def _charged(trace: Trace, work: DeviceWork, rows: Int32s) -> Int32s:
    """The call, of those at `rows`, that each piece of work is charged to: its row, −1 for none: int32 [work].

    Where a call around other known calls launches through an operator of unknown cost, that work is its own no more
    than theirs: it is charged to none.
    """
    is_known = np.zeros(len(trace), np.bool_)
    is_known[rows] = True
    owner = _around(trace, work, is_known)
    launching = np.bincount(owner[owner >= 0], minlength=len(trace))
    calls = call_tree(trace)
    inside = subtree_sum(launching, calls.parent, calls.order) > launching
    is_foreign = (owner >= 0) & (work.op != owner) & inside[owner]
    return np.where(is_foreign, np.int32(-1), owner)


def uncovered_operators(trace: Trace, rows: Int32s) -> Int8s:
    """Why some operators of a host have no known cost of their own, an `Uncovered`: int8 [rows]."""
    known = costed_calls(trace).rows
    registered = _of_entries(trace, rows, lambda _: True) & ~_holds(trace, known)[rows]
    told = arguments.has(trace, "input_dims", rows)
    reasons = (Uncovered.NO_FORMULA, Uncovered.NO_SHAPES)
    return np.select([~registered, ~told], reasons, Uncovered.NO_ARGUMENTS).astype(np.int8)


def _used(trace: Trace, rows: Int32s, is_product: Bools, charged: Int32s) -> Bools:
    """Which of the known calls count: products, and others that work is charged to.

    On the host those count that are in no product and take more than half of their time outside of other known calls.
    """
    if is_host_only(trace):
        is_inner = np.zeros(len(trace), np.bool_)
        is_inner[rows[is_product]] = True
        parent = call_tree(trace).parent[rows]
        in_product = np.where(parent >= 0, ancestor(call_tree(trace).parent, is_inner)[parent], -1) >= 0
        return is_product | ~(in_product | (2 * _time_in_known(trace, rows) > trace.end[rows] - trace.start[rows]))
    launches = np.zeros(len(trace) + 1, np.bool_)
    launches[charged] = True
    return is_product | launches[rows]


def _time_in_known(trace: Trace, rows: Int32s) -> Int64s:
    """Time of some calls that is spent in others of them, ns: int64 [rows]."""
    is_known = _marked(trace, rows)
    parent = call_tree(trace).parent[rows]
    around = np.where(parent >= 0, ancestor(call_tree(trace).parent, is_known)[parent], -1)
    length = np.maximum(trace.end[rows] - trace.start[rows], 0)[around >= 0]
    return np.bincount(around[around >= 0], length, len(trace)).astype(np.int64)[rows]


def _uncounted(trace: Trace, missed: Int32s, counted: Int32s, products: Int32s) -> Int32s:
    """Of products of unknown cost those in no counted call and around no product."""
    is_counted = np.zeros(len(trace), np.bool_)
    is_counted[counted] = True
    around = ancestor(call_tree(trace).parent, is_counted)
    return missed[(around[missed] < 0) & ~_holds(trace, products)[missed]]


def _holds(trace: Trace, rows: Int32s) -> Bools:
    """Whether each event has one of some rows anywhere inside it: bool [events]."""
    calls = call_tree(trace)
    mark = np.zeros(len(trace), np.int64)
    mark[rows] = 1
    return subtree_sum(mark, calls.parent, calls.order) > mark


def _reasons(trace: Trace, work: DeviceWork, call: Int32s, candidates: Int32s) -> Int8s:
    """Why each piece of work is charged to no call, an `Uncovered`: int8 [work]."""
    is_candidate = np.zeros(len(trace), np.bool_)
    is_candidate[candidates] = True
    nearest = _around(trace, work, is_candidate)
    told = np.append(arguments.has(trace, "input_dims"), np.False_)[nearest]
    reason = np.select(
        [call >= 0, work.op < 0, nearest < 0, ~told],
        [Uncovered.NOT, Uncovered.NO_OPERATOR, Uncovered.NO_FORMULA, Uncovered.NO_SHAPES],
        Uncovered.NO_ARGUMENTS,
    )
    return reason.astype(np.int8)
