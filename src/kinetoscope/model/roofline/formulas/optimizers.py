"""Formulas of operators over lists of tensors: `_foreach_*`, fused optimizers, and what runs before them.

Optimizers made of `_foreach_*` operators are counted operator by operator; a fused one reads each parameter, gradient
and state once and writes all but gradients.

Lists are recorded without types, and not at all if they hold more than 30 tensors. The name of the kernel tells the
type of the parameters, which is taken for all lists, so that states in FP32 beside parameters in BF16 count for less
than they are. The launches tell about how many elements there are: a block works on a chunk of 65,536 elements of one
tensor, or on what is left of it, and a launch holds a limited number of tensors. The number is exact where the
gradients that the trace accumulates make as many chunks a pass: then the list holds just these parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from kinetoscope.model.roofline.formulas.arguments import CHUNK_ELEMENTS, Arguments, Cost, Tensor
from kinetoscope.model.roofline.formulas.elementwise import OPERATIONS_OF_LISTS
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.result_types import kernel_type, type_in

formula = Family("Lists of tensors and optimizers", needs=("kernel", "blocks"))

_MAX_TENSORS: Final = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
"""Tensors of a launch by the number of lists that its kernel goes through (`depth_to_max_tensors`)."""

_MAX_BLOCKS: Final = 320
"""Blocks of such a launch. With CUDA 13 both limits are 7 times as high."""

_LISTS: Final = re.compile(r"TensorListMetadata<(\d)|TensorListScalarListMetadata<[^,>]*, (\d)")


_APEX: Final = re.compile(r"multi_tensor_apply_kernel<TensorListMetadata<(\d)>, (\w+)<")
"""Kernels of Apex and DeepSpeed, with their lists and what they compute; torch's have a namespace."""

_APEX_OPTIMIZERS: Final = re.compile("Adam|Adagrad|SGD|NovoGrad|LAMB|Lion", re.IGNORECASE)


class Count(NamedTuple):
    """Elements of the tensors of a list, at least and at most."""

    least: int
    most: int


def _lists_of_kernel(given: Arguments) -> int:
    """Number of lists that the longest kernel goes through, 0 where its name does not tell."""
    match = _LISTS.search(given.kernel)
    return int(match[1] or match[2]) if match is not None else 0


def _elements(given: Arguments) -> Count | None:
    """Number of elements of the tensors of the first list; None where neither it nor the launches tell."""
    tensors = given.tensors(0)
    if tensors:
        return Count(*(sum(tensor.elements for tensor in tensors),) * 2)
    lists, blocks, passed = _lists_of_kernel(given), given.blocks, given.gradients
    if not lists or not blocks:
        return None
    if passed is not None and passed.chunks and passed.chunks % blocks == 0:
        passes = passed.chunks // blocks
        if passed.repeats % passes == 0:
            return Count(*(passed.elements // passes,) * 2)
    times = 1 if given.launches > 1 and blocks <= _MAX_BLOCKS * given.launches else 7
    return Count(_least_elements(lists, blocks, times * given.launches), blocks * CHUNK_ELEMENTS)


def _least_elements(lists: int, blocks: int, launches: int) -> int:
    """Elements of each of some lists, if as many tensors as launches can hold end with a chunk of one element."""
    held = min(blocks, launches * _MAX_TENSORS.get(lists, _MAX_TENSORS[1]))
    return (blocks - held) * CHUNK_ELEMENTS + held


def bytes_of_apex(kernel: str, blocks: int) -> int | None:
    """Bytes that a kernel of Apex or DeepSpeed over lists moves at least; None for other kernels.

    No operator launches them, and their chunks are as large as torch's. The first list of an optimizer's is the
    gradients, which are only read; the others are read and written. Of other kernels each list is read or written.
    """
    match = _APEX.search(kernel)
    kind = type_in(kernel[match.end() - 1 :]) if match is not None else None
    if match is None or kind is None or not blocks:
        return None
    lists = int(match[1])
    times = 2 * lists - 1 if _APEX_OPTIMIZERS.search(match[2]) else lists
    return times * _least_elements(lists, blocks, 1) * kind.bytes


@dataclass(frozen=True, slots=True)
class OverLists:
    """A formula.

    Attributes:
        places: of the arguments that may be lists to read, the first ones.
        operations: an element.
        written: lists written; −1: all that are read but the gradients.
        is_fresh: does the kernel go through the results besides what it reads?
        reads_result: does an operator in place read the first list, too?
        repeated: lists, of three, that may be the same as another one: those of `addcmul(v, g, g)`, as optimizers call
            it, have shapes that do not tell.
    """

    places: int
    operations: int
    written: int = 1
    is_fresh: bool = False
    reads_result: bool = True
    repeated: int = 0

    def __call__(self, given: Arguments) -> Cost | None:
        """The cost of a call, None where neither its arguments nor its launches tell."""
        kind, count = kernel_type(given), _elements(given)
        if count is None:
            return None
        lists = sum(bool(given.tensors(place)) for place in range(self.places))
        lists = lists or max(1, _lists_of_kernel(given) - self.is_fresh)
        written = lists - 1 if self.written < 0 else self.written
        moved = lists - (not self.reads_result) + written
        outputs = tuple(Tensor(each.shape, None, kind) for each in given.tensors(0)) if written else ()
        flop = self.operations * count.least
        if kind is None:
            return Cost(vector_flop=flop, outputs=outputs)
        least = (moved - (self.repeated if lists > 2 else 0)) * count.least * kind.bytes
        most = moved * count.most * kind.bytes
        return Cost(vector_flop=flop, bytes=least, bytes_most=most if most > least else None, outputs=outputs)


def _foreach(tail: str) -> dict[str, OverLists]:
    """The operators over lists by name; those in place have an underscore as their tail."""
    is_fresh = not tail
    formulas = {name: OverLists(2, operations, is_fresh=is_fresh) for name, operations in OPERATIONS_OF_LISTS.items()}
    formulas["lerp"] = OverLists(3, 3, is_fresh=is_fresh)
    formulas["copy"] = OverLists(2, 0, is_fresh=is_fresh, reads_result=False)
    formulas["zero"] = OverLists(1, 0, is_fresh=is_fresh, reads_result=False)
    formulas["addcmul"] = formulas["addcdiv"] = OverLists(3, 3, is_fresh=is_fresh, repeated=1)
    return {f"_foreach_{name}{tail}": each for name, each in formulas.items() if is_fresh or name != "clone"}


for _name, _over_lists in {**_foreach(""), **_foreach("_")}.items():
    formula(_name)(_over_lists)
formula("_foreach_norm")(OverLists(1, 2, written=0))
formula("_foreach_max")(OverLists(1, 1, written=0))
formula("_amp_foreach_non_finite_check_and_unscale_")(OverLists(1, 2))
formula("_fused_adam_ _fused_adamw_")(OverLists(5, 14, written=-1))
formula("_fused_sgd_")(OverLists(3, 6, written=-1))
formula("_fused_adagrad_")(OverLists(3, 8, written=-1))
