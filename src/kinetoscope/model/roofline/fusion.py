"""Chains of memory-bound operators whose intermediate results one fused kernel would keep in its registers.

A trace does not name tensors. So an operator counts as the reader of what another one wrote if it is the first one
behind it, on the same stream and with nothing but such operators between them, that reads a tensor of the same shape,
strides and type; with another shape if a view of the result was made in between. Operators of a chain therefore need
not follow one another directly: others of the kind may stand between them, in a chain of their own or in none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s, marked, scattered
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.optimizers import optimizer_steps, zero_grads
from kinetoscope.model.memory.allocator import innermost_calls, memory_instants
from kinetoscope.model.memory.blocks import memory_blocks
from kinetoscope.model.operators.categories import Category, category, view_ops
from kinetoscope.model.roofline.calls import CostedCalls, Variant, costed_calls
from kinetoscope.model.roofline.formulas.arguments import Shape, Tensor, arguments_of
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_FUSED: Final[frozenset[Category]] = frozenset(
    {"elementwise", "normalization", "softmax", "reduction", "copy", "embedding"}
)
"""What compilers put into one kernel with its neighbours."""

_IN_TWO_PASSES: Final = re.compile("(?:batch|group|instance)_norm")
"""Operators that need all of a large input before they write: a fused kernel may have to read it again."""

_COMPILED: Final = "triton_"
"""Beginning of the names of kernels that Inductor has fused as far as it could."""

_MAX_DISTANCE: Final = 8
"""Operators of the stream among which the reader of a result is looked for."""

_ONLY_WRITTEN: Final = ("copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_", "exponential_")
"""Operators in place that do not read their first argument."""


@dataclass(frozen=True)
class FusableChains:
    """Chains of two or more calls, each of which but the last writes what a later one reads.

    Attributes:
        calls: int32 [members], places in `costed_calls`, chain by chain, in the order in which they ran.
        offsets: int64 [chains + 1], where the members of each chain begin.
        bytes: float64 [members], what each call moves at least.
        saved: float64 [members], those of its bytes that are intermediate results, written or read.
        surely: float64 [members], the same without the write of the chain's largest result, which may be needed later,
            too, unless it was given back; and without results before and behind operators that may read them twice.
        left: float64 [chains], bytes that one fused kernel must move: the result, and the inputs of the call with most.
    """

    calls: Int32s
    offsets: Int64s
    bytes: Floats
    saved: Floats
    surely: Floats
    left: Floats

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def chain(self) -> Int32s:
        """The chain of each member: int32 [members]."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))

    def sums(self, values: Floats) -> Floats:
        """Sums of values of the members: float64 [chains]."""
        return np.bincount(self.chain, values, len(self)).astype(np.float64)

    def saved_times(self, time: Floats) -> tuple[Floats, Floats]:
        """The time that one kernel saves in place of each chain, at least and at most, ns: float64 [chains] each.

        Each call's time shrinks as its bytes do. At least, they go at the rate of the fastest call of the chain.

        time: float64 [members], of each call, ns.
        """
        each = time / np.maximum(self.bytes, 1)
        fastest = np.minimum.reduceat(each, self.offsets[:-1]) if len(self) else np.zeros(0)
        most = self.sums(each * self.saved)
        return np.minimum(self.sums(self.surely) * fastest, most), most


@derived
def fusable_chains(trace: Trace) -> FusableChains:
    """The chains of a trace.

    Calls of optimizers are in none, as their fused form is an operator of its own; and copies alone make none.
    """
    costed = costed_calls(trace)
    call, run = _runs(trace, costed)
    reader, moved = _readers(trace, costed, call, run)
    root = np.where(reader >= 0, reader, np.arange(len(call)))
    while (root[root] != root).any():
        root = root[root]
    size = np.bincount(root, minlength=len(call))
    computes = np.bincount(root, _computes(costed)[call], len(call)) > 0
    member = np.flatnonzero((size[root] > 1) & computes[root])
    member = member[np.lexsort((member, root[member]))]
    _, first, chain = np.unique(root[member], return_index=True, return_inverse=True)
    sure = _in_one_pass(costed, call, reader)
    read = np.bincount(reader[reader >= 0], moved[reader >= 0], len(call)).astype(np.float64)
    read_surely = np.bincount(reader[sure], moved[sure], len(call)).astype(np.float64)
    written_surely = np.where(sure, moved, 0)[member]
    still_needed = np.where(sure & ~_freed_after(trace, costed, call, reader), moved, 0)[member]
    order = np.lexsort((still_needed, chain))
    largest = order[np.append(first[1:], len(order)) - 1] if len(order) else order
    written_surely[largest] -= still_needed[largest]
    nbytes, written = (
        costed.of_calls(values)[call[member]]
        for values in (
            [variant.bytes for variant in costed.variants],
            [float(sum(each.bytes or 0 for each in variant.cost.outputs)) for variant in costed.variants],
        )
    )
    most = np.zeros(len(first))
    np.maximum.at(most, chain, np.maximum(nbytes - written - read[member], 0))
    return FusableChains(
        calls=call[member],
        offsets=np.append(first, len(member)).astype(np.int64),
        bytes=nbytes,
        saved=np.minimum(moved[member] + read[member], nbytes),
        surely=np.minimum(written_surely + read_surely[member], nbytes),
        left=most + np.bincount(chain, np.where(reader[member] < 0, written, 0), len(first)),
    )


@derived
def saved_bytes(trace: Trace) -> Floats:
    """Bytes of each costed call that fusion of its chain removes, results that may be needed later among them."""
    chains = fusable_chains(trace)
    result = np.zeros(len(costed_calls(trace)))
    result[chains.calls] = chains.saved
    return result


@derived
def call_times(trace: Trace) -> Int64s:
    """Time of each costed call: its device work, without a device the call itself: int64 [costed calls], ns."""
    costed = costed_calls(trace)
    if is_host_only(trace):
        return np.asarray(np.maximum(trace.end[costed.rows] - trace.start[costed.rows], 0))
    return sum_by(costed.call, len(costed), device_work(trace).duration)


# --- in the order of streams


def _runs(trace: Trace, costed: CostedCalls) -> tuple[Int32s, Int64s]:
    """Calls that could be in chains, by stream and time, and a number that is the same as long as nothing else runs."""
    work, track = device_work(trace), trace.track[costed.rows]
    if is_host_only(trace):
        call = np.lexsort((trace.start[costed.rows], track)).astype(np.int32)
        call = call[~_is_inside(trace, costed)[call]]  # their time is also that of the calls around them
        stream = track[call].astype(np.int64)
    else:
        order = np.lexsort((work.start, work.stream, work.device))
        call, stream = costed.call[order], group(work.device[order], work.stream[order])[0].astype(np.int64)
        changes = np.ones(len(call), np.bool_)
        changes[1:] = (call[1:] != call[:-1]) | (call[1:] < 0)
        call, stream = call[changes], stream[changes]
    fits = np.append(_can_be_fused(trace, costed), False)[call]
    apart = ~fits
    if len(call):
        thread = np.append(track, -1)[call]
        apart[1:] |= (stream[1:] != stream[:-1]) | (thread[1:] != thread[:-1])
    run = np.cumsum(apart)
    _, once = np.unique(call[fits], return_index=True)  # a call with work on several streams counts where it is first
    once.sort()
    return call[fits][once], run[fits][once]


def _is_inside(trace: Trace, costed: CostedCalls) -> Bools:
    """True for calls in others of known cost: bool [calls]."""
    parent = call_tree(trace).parent
    above = parent[costed.rows]
    return np.asarray((above >= 0) & (ancestor(parent, marked(len(trace), costed.rows))[above] >= 0))


def _can_be_fused(trace: Trace, costed: CostedCalls) -> Bools:
    """True for calls that compute element by element, reduce or copy, and are not an optimizer's: bool [calls]."""
    kinds = [
        each.shapes >= 0
        and each.bytes is not None
        and category(each.name) in _FUSED
        and not each.name.startswith(_COMPILED)
        for each in costed.variants
    ]
    fits = costed.of_calls(kinds) > 0
    updating = optimizer_steps(trace).inside | zero_grads(trace).inside
    return np.asarray(fits & ~updating[costed.rows])


def _in_one_pass(costed: CostedCalls, call: Int32s, reader: Int64s) -> Bools:
    """True for calls whose result one kernel surely reads only once.

    Neither it nor its reader needs all of a large input first.
    """
    fits = np.array([not _IN_TWO_PASSES.search(each.name) for each in costed.variants], np.bool_)
    fits = fits[costed.variant[call]] if len(call) else np.zeros(0, np.bool_)
    return np.asarray((reader >= 0) & fits & fits[reader])


def _computes(costed: CostedCalls) -> Bools:
    """True for calls that do more than copy: bool [calls]."""
    return costed.of_calls([category(each.name) != "copy" for each in costed.variants]) > 0


# --- who reads what


class _Match(NamedTuple):
    """Results of another call that a call reads: bytes, and the result that must have been viewed in between."""

    bytes: float
    viewed: Shape | None


_NO_MATCH: Final = _Match(0.0, None)


def _readers(trace: Trace, costed: CostedCalls, call: Int32s, run: Int64s) -> tuple[Int64s, Floats]:
    """The place of the call that reads each one's result, −1 for none, and how many bytes that are."""
    reader, moved = np.full(len(call), -1, np.int64), np.zeros(len(call))
    variant = costed.variant[call].astype(np.int64)
    rows, views, tensors, variants = costed.rows[call], _Views(trace), tensors_of(trace), costed.variants
    for distance in range(1, min(_MAX_DISTANCE + 1, len(call))):
        place = np.flatnonzero((reader[:-distance] < 0) & (run[distance:] == run[:-distance]))
        pair, code = np.unique(variant[place] * len(variants) + variant[place + distance], return_inverse=True)
        pairs = [divmod(each, len(variants)) for each in pair.tolist()]
        matches = [_match(variants[before], variants[behind], tensors[behind]) for before, behind in pairs]
        nbytes = np.array([match.bytes for match in matches])[code] if len(code) else np.zeros(0)
        shape = np.array([views.shape(match.viewed) for match in matches], np.int64)[code] if len(code) else code
        fits = nbytes > 0
        viewed = np.flatnonzero(fits & (shape != _ANY_SHAPE))
        later = rows[place[viewed] + distance]
        fits[viewed] = views.between(rows[place[viewed]], later, shape[viewed])
        reader[place[fits]] = place[fits] + distance
        moved[place[fits]] = nbytes[fits]
    return reader, moved


@derived
def tensors_of(trace: Trace) -> tuple[tuple[Tensor, ...], ...]:
    """The tensors among the arguments of each variant of `costed_calls`, those of lists one by one."""
    costed = costed_calls(trace)
    row = np.zeros(len(costed.variants), np.int32)
    row[costed.variant] = costed.rows
    names = ("input_dims", "input_types", "input_strides", "concrete_inputs")
    codes = [arguments.codes(trace, name, row).tolist() for name in names]
    tensors = []
    for each in zip(*codes, strict=True):
        given = arguments_of(*(trace.strings.nested(code) if code >= 0 else None for code in each))
        lists = [(value,) if isinstance(value, Tensor) else value or () for value in given.values]
        tensors.append(tuple(tensor for several in lists for tensor in several))
    return tuple(tensors)


def _match(before: Variant, behind: Variant, read: tuple[Tensor, ...]) -> _Match:
    """The part of the main result of another call that a call reads. `read`: tensors among its arguments."""
    if not before.cost.outputs or (before.name == behind.name and before.name.endswith("_")):
        return _NO_MATCH  # the same in place again, as copies of many parameters, is done to another tensor
    result = before.cost.outputs[0]
    read = read[1:] if behind.name.endswith(_ONLY_WRITTEN) else read
    fitting = [each for each in read if each.type in (None, result.type)]
    if not result.bytes or all(each.distinct != result.elements for each in fitting):
        return _NO_MATCH
    return _Match(float(result.bytes), None if any(_is_same(result, each) for each in fitting) else result.shape)


def _is_same(result: Tensor, read: Tensor) -> bool:
    """Can they be one tensor, as it is? Strides of dimensions of one element mean nothing."""
    if result.shape != read.shape:
        return False
    if read.strides is None:
        return True
    strides = result.strides or contiguous(result.shape)
    return all(size == 1 or one == other for size, one, other in zip(result.shape, strides, read.strides, strict=True))


def contiguous(shape: Shape) -> Shape:
    """The strides of a tensor without gaps whose last dimension changes fastest."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


_ANY_SHAPE: Final = -1


class _Views:
    """The calls that view a tensor in another way, by thread, shape and time."""

    def __init__(self, trace: Trace) -> None:
        rows = np.flatnonzero(view_ops(trace)).astype(np.int32)
        rows = rows[np.argsort(trace.start[rows], kind="stable")]
        dims, place = np.unique(arguments.codes(trace, "input_dims", rows), return_inverse=True)
        shapes = [arguments_of(trace.strings.nested(code)).shape(0) if code >= 0 else () for code in dims.tolist()]
        self._number: dict[Shape, int] = {}
        number = np.array([self._number.setdefault(each, len(self._number)) for each in shapes], np.int64)
        self._trace, self._start = trace, trace.start[rows]
        shape = number[place] if len(number) else np.zeros(0, np.int64)
        self._keys = np.sort(self._key(rows, shape, np.arange(len(rows))))

    def shape(self, shape: Shape | None) -> int:
        """A number for a shape that is viewed somewhere, the greatest for others; _ANY_SHAPE for None."""
        return _ANY_SHAPE if shape is None else self._number.get(shape, len(self._number))

    def between(self, rows: Int32s, later: Int32s, shape: Int64s) -> Bools:
        """Was a tensor of this shape viewed on the thread between two calls? bool [rows]."""
        after = np.searchsorted(self._start, self._trace.end[rows])
        before = np.searchsorted(self._start, self._trace.start[later], side="right")
        low, high = self._key(rows, shape, after), self._key(rows, shape, before)
        return np.asarray(np.searchsorted(self._keys, low) < np.searchsorted(self._keys, high))

    def _key(self, rows: Int32s, shape: Int64s, place: Int64s) -> Int64s:
        """A number by thread, then shape, then place among all views by time."""
        thread = self._trace.track[rows].astype(np.int64)
        return (thread * (len(self._number) + 1) + shape) * (len(self._start) + 1) + place


# --- what is freed


def _freed_after(trace: Trace, costed: CostedCalls, call: Int32s, reader: Int64s) -> Bools:
    """True for calls whose result was freed before the next costed call behind its reader began: bool [calls].

    So nothing else needs it. The result is the largest block that was allocated in the call and outlived it.
    """
    surely = np.zeros(len(call), np.bool_)
    instants, blocks = memory_instants(trace), memory_blocks(trace)
    places = np.flatnonzero((blocks.allocated_at >= 0) & (blocks.freed_at >= 0))
    if not len(places) or not len(call):
        return surely
    within = ancestor(call_tree(trace).parent, marked(len(trace), costed.rows[call]))
    around = innermost_calls(trace)[blocks.allocated_at[places]]
    owner = np.where(around >= 0, within[around], -1)
    until = instants.time[blocks.freed_at[places]]
    outlives = (owner >= 0) & (until >= trace.end[owner])
    place_of = scattered(len(trace), costed.rows[call], np.arange(len(call)), np.int64)
    owner, until, size = place_of[owner[outlives]], until[outlives], blocks.size[places][outlives]
    order = np.argsort(size, kind="stable")
    freed = np.full(len(call), np.iinfo(np.int64).max)
    freed[owner[order]] = until[order]
    operators = costed.rows[trace.kind[costed.rows] == EventKind.HOST_OP]
    start = np.append(np.sort(trace.start[operators]), np.iinfo(np.int64).max)
    behind = start[np.searchsorted(start, trace.end[costed.rows[call[reader]]])]
    return np.asarray((reader >= 0) & (freed <= behind))
