"""The calls of a trace whose floating-point operations can be counted, each operation once.

Operators nest: `aten::linear` calls `aten::addmm`, a convolution passes through four more. Counted is the innermost
call whose arguments tell what it takes; the calls around it are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.trees.tree import ancestor, subtree_sum
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.flops.arguments import arguments_of
from kinetoscope.model.flops.formulas import FORMULAS, cost
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.element_types import ElementType, first_element_type
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_MAX_OPERATIONS: Final = 10**24
"""Operations of a call; with more its shapes are not those of tensors."""


@dataclass(frozen=True)
class Variant:
    """Calls of one operator with the same arguments, as far as they count.

    Attributes:
        name: the operator, without overload.
        shapes: code of the text of its input shapes.
        type: of its elements; None where it was not recorded.
        flop: floating-point operations of a call; 0 or more.
        bytes: of the tensors that a call must read or write, each once; None where their type is not known.
    """

    name: str
    shapes: int
    type: ElementType | None
    flop: float
    bytes: float | None


@dataclass(frozen=True)
class FlopCounts:
    """The counted calls, in file order.

    Attributes:
        rows: int32 [calls], their rows.
        variant: int32 [calls], places in `variants`.
        variants: of the calls.
        call: int32 [work], the counted call that each piece of device work was launched in: its place; −1 for none.
        uncounted: int32 [operators], rows of the innermost calls that have a formula but not the arguments that it
            needs, and no counted call around them.
    """

    rows: Int32s
    variant: Int32s
    variants: tuple[Variant, ...]
    call: Int32s
    uncounted: Int32s

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def flop(self) -> Floats:
        """Floating-point operations of each call: float64 [calls]; exact up to 2⁵³."""
        each = np.array([variant.flop for variant in self.variants], np.float64)
        return each[self.variant] if len(each) else np.zeros(0)


@derived
def flop_counts(trace: Trace) -> FlopCounts:
    """The counted calls of a trace."""
    candidates = _candidates(trace)
    keys = [arguments.codes(trace, name, candidates) for name in ("input_dims", "input_types", "concrete_inputs")]
    codes, first = group(call_names(trace)[candidates], *keys)
    variants = [_variant(trace, int(candidates[row]), *(int(key[row]) for key in keys)) for row in first.tolist()]
    known = np.array([variant is not None for variant in variants], np.bool_)[codes] if len(codes) else codes > 0
    parent = call_tree(trace).parent
    rows = candidates[known]
    innermost = ~_holds(trace, rows)[rows]
    counted, code = rows[innermost], codes[known][innermost]
    is_counted = np.zeros(len(trace), np.bool_)
    is_counted[counted] = True
    around = ancestor(parent, is_counted)
    missed = candidates[~known]
    missed = missed[(around[missed] < 0) & ~_holds(trace, np.concatenate([counted, missed]))[missed]]
    work = device_work(trace)
    event = work.caller
    place = np.full(len(trace) + 1, -1, np.int32)
    place[counted] = np.arange(len(counted), dtype=np.int32)
    call = place[np.where(event >= 0, around[event], -1)] if len(work) else np.empty(0, np.int32)
    distinct, variant = np.unique(code, return_inverse=True)
    kept = [each for number in distinct.tolist() if (each := variants[number]) is not None]
    return FlopCounts(counted, variant.astype(np.int32), tuple(kept), call, missed)


def _candidates(trace: Trace) -> Int32s:
    """Rows of the calls of operators that have a formula."""
    ops = trace.rows(EventKind.HOST_OP)
    ops = ops[call_tree(trace).member[ops]]
    names = call_names(trace)[ops]
    wanted = [code for code in np.unique(names).tolist() if _name(trace, code) in FORMULAS]
    return ops[np.isin(names, wanted)]


def _name(trace: Trace, code: int) -> str:
    return call_name(trace.strings.label(code), EventKind.HOST_OP)


def _variant(trace: Trace, row: int, dims: int, types: int, concrete: int) -> Variant | None:
    name = _name(trace, int(trace.name[row]))
    if dims < 0:
        return None
    given = arguments_of(trace.strings.nested(dims), trace.strings.nested(concrete) if concrete >= 0 else None)
    of_call = cost(name, given)
    if of_call is None or of_call.flop > _MAX_OPERATIONS or of_call.elements > _MAX_OPERATIONS:
        return None
    kind = first_element_type(trace.strings.nested(types)) if types >= 0 else None
    flop = float(of_call.flop * (kind.factor if kind else 1))
    return Variant(name, dims, kind, flop, float(of_call.elements * kind.bytes) if kind else None)


def _holds(trace: Trace, rows: Int32s) -> Bools:
    """Whether each event has one of some rows anywhere inside it: bool [events]."""
    calls = call_tree(trace)
    mark = np.zeros(len(trace), np.int64)
    mark[rows] = 1
    return subtree_sum(mark, calls.parent, calls.order) > mark
