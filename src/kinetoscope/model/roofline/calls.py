"""Calls that device work is charged to, and the cost of each: nothing counts twice.

Operators nest: `aten::linear` calls `aten::addmm`, a convolution passes through four more. Device work is charged to
the innermost operator around its launch whose cost is known. A product whose product runs in an operator inside it
costs nothing itself. Copies over links, sets of memory and collectives have their cost as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s, marked, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.trees.tree import ancestor, subtree_sum
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.roofline.context import Contexts, caller_among, of_entries
from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost
from kinetoscope.model.roofline.formulas.registry import cost, entry_of
from kinetoscope.model.roofline.transfers import Link, transfers
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.element_types import ElementType
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace


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
        """Operations of the algorithm that ran, where it needs fewer than the formula counts."""
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
        """True for calls that multiply matrices: bool [calls]."""
        return self.of_calls([variant.is_product for variant in self.variants]) > 0


@derived
def costed_calls(trace: Trace) -> CostedCalls:
    """The calls of a trace whose costs are known, each with the device work that is charged to it."""
    work = device_work(trace)
    candidates = _candidates(trace, work)
    variants, code = _variants(trace, candidates)
    is_known = np.array([variant is not None for variant in variants], np.bool_)[code] if len(code) else code > 0
    is_product = of_entries(trace, candidates, lambda entry: entry.is_product)
    rows, codes = candidates[is_known], code[is_known]
    innermost = ~(is_product[is_known] & _holds(trace, rows[is_product[is_known]])[rows])
    rows, codes = rows[innermost], codes[innermost]
    charged = _charged(trace, work, rows)
    used = _used(trace, rows, is_product[is_known][innermost], charged)
    rows, codes = rows[used], codes[used]
    place = scattered(len(trace) + 1, rows, np.arange(len(rows)), np.int32)
    call = place[charged]
    uncounted = _uncounted(trace, candidates[~is_known & is_product], rows, candidates[is_product])
    uncovered = _reasons(trace, work, call, candidates)
    moved = transfers(trace, call)
    pieces = np.flatnonzero(moved.code >= 0).astype(np.int32)
    call[pieces] = len(rows) + np.arange(len(pieces), dtype=np.int32)
    uncovered[pieces] = Uncovered.NOT
    costs = [
        Cost(flop=each.flop, bytes=each.bytes, is_least=each.is_least, precision=each.precision) for each in moved.kinds
    ]
    transferred = [
        Variant(each.name, -1, None, cost, link=each.link) for each, cost in zip(moved.kinds, costs, strict=True)
    ]
    every: list[Variant | None] = [*variants, *transferred]
    both = np.concatenate([codes, moved.code[pieces] + len(variants)])
    distinct, variant = np.unique(both, return_inverse=True)
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
    wanted = of_entries(trace, ops, lambda _: True)
    if not is_host_only(trace):
        launching = np.bincount(work.caller[work.caller >= 0], minlength=len(trace))
        calls = call_tree(trace)
        is_launching = subtree_sum(launching, calls.parent, calls.order)[ops] > 0
        wanted &= is_launching | of_entries(trace, ops, lambda entry: entry.is_product)
    return ops[wanted]


def _name(trace: Trace, row: int) -> str:
    return call_name(trace.strings.label(int(trace.name[row])), EventKind.HOST_OP)


# --- costs


def _variants(trace: Trace, rows: Int32s) -> tuple[list[Variant | None], Int32s]:
    """The distinct calls among some, None for those of unknown cost; and which of them each is: int32 [rows]."""
    contexts = Contexts(trace, rows)
    code, first = group(call_names(trace)[rows], *contexts.codes)
    places = first.tolist()
    return [
        _variant(_name(trace, int(rows[each])), contexts.at(each), int(contexts.shapes[each])) for each in places
    ], code


def _variant(name: str, given: Arguments | None, shapes: int) -> Variant | None:
    of_call, entry = None if given is None else cost(name, given), entry_of(name)
    if given is None or of_call is None or entry is None:
        return None
    return Variant(name, shapes, given.type, of_call, entry.is_product)


# --- which work is charged to which call


def _charged(trace: Trace, work: DeviceWork, rows: Int32s) -> Int32s:
    """The call, of those at `rows`, that each piece of work is charged to: its row, −1 for none: int32 [work].

    Work launched by an operator without a formula is charged to no enclosing call that has costed children.
    """
    owner = caller_among(trace, work, marked(len(trace), rows))
    launching = np.bincount(owner[owner >= 0], minlength=len(trace))
    calls = call_tree(trace)
    inside = subtree_sum(launching, calls.parent, calls.order) > launching
    is_foreign = (owner >= 0) & (work.op != owner) & inside[owner]
    return np.where(is_foreign, np.int32(-1), owner)


def uncovered_operators(trace: Trace, rows: Int32s) -> Int8s:
    """Why some operators of a host have no known cost of their own, an `Uncovered`: int8 [rows]."""
    known = costed_calls(trace).rows
    registered = of_entries(trace, rows, lambda _: True) & ~_holds(trace, known)[rows]
    has_shapes = arguments.has(trace, "input_dims", rows)
    reasons = (Uncovered.NO_FORMULA, Uncovered.NO_SHAPES)
    return np.select([~registered, ~has_shapes], reasons, Uncovered.NO_ARGUMENTS).astype(np.int8)


def _used(trace: Trace, rows: Int32s, is_product: Bools, charged: Int32s) -> Bools:
    """True for the known calls that count: products, and others that work is charged to.

    On the host those count that are in no product and take more than half of their time outside of other known calls.
    """
    if is_host_only(trace):
        in_product = _parent_among(trace, rows, rows[is_product]) >= 0
        return is_product | ~(in_product | (2 * _time_in_known(trace, rows) > trace.end[rows] - trace.start[rows]))
    launches = marked(len(trace) + 1, charged)
    return is_product | launches[rows]


def _parent_among(trace: Trace, rows: Int32s, wanted: Int32s) -> Int32s:
    """The innermost wanted call around each of some rows: its row, −1 for none: int32 [rows]."""
    parent = call_tree(trace).parent[rows]
    return np.where(parent >= 0, ancestor(call_tree(trace).parent, marked(len(trace), wanted))[parent], -1)


def _time_in_known(trace: Trace, rows: Int32s) -> Int64s:
    """Time of some calls that is spent in others of them, ns: int64 [rows]."""
    around = _parent_among(trace, rows, rows)
    length = np.maximum(trace.end[rows] - trace.start[rows], 0)[around >= 0]
    return np.bincount(around[around >= 0], length, len(trace)).astype(np.int64)[rows]


def _uncounted(trace: Trace, missed: Int32s, counted: Int32s, products: Int32s) -> Int32s:
    """Rows of products of unknown cost in no counted call and around no product."""
    around = ancestor(call_tree(trace).parent, marked(len(trace), counted))
    return missed[(around[missed] < 0) & ~_holds(trace, products)[missed]]


def _holds(trace: Trace, rows: Int32s) -> Bools:
    """True for events that enclose any of some rows: bool [events]."""
    calls = call_tree(trace)
    mark = np.zeros(len(trace), np.int64)
    mark[rows] = 1
    return subtree_sum(mark, calls.parent, calls.order) > mark


def _reasons(trace: Trace, work: DeviceWork, call: Int32s, candidates: Int32s) -> Int8s:
    """Why each piece of work is charged to no call, an `Uncovered`: int8 [work]."""
    nearest = caller_among(trace, work, marked(len(trace), candidates))
    has_shapes = np.append(arguments.has(trace, "input_dims"), np.False_)[nearest]
    reason = np.select(
        [call >= 0, work.op < 0, nearest < 0, ~has_shapes],
        [Uncovered.NOT, Uncovered.NO_OPERATOR, Uncovered.NO_FORMULA, Uncovered.NO_SHAPES],
        Uncovered.NO_ARGUMENTS,
    )
    return reason.astype(np.int8)
