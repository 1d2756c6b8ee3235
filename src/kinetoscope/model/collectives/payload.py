"""Payloads of collectives: types and numbers of elements, where only the shapes of inputs on the host tell them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.collectives.attributes import MAX_ELEMENTS
from kinetoscope.model.collectives.host_records import KERNEL_OPERATORS
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.element_types import C10_ELEMENTS, Element, element_type
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

_OUTPUT_FIRST: Final = ("c10d::alltoall_base_", "c10d::_allgather_base_", "c10d::_reduce_scatter_base_")
"""Operators whose first input is the tensor that the result goes to, and whose second is what is sent."""


def input_types(trace: Trace, rows: Int32s) -> Int64s:
    """Codes of the types of the inputs of each row: int64, −1 for none."""
    return arguments.codes_where(trace, "input_types", rows)


def types(trace: Trace, recorded: Int64s, *inputs: Int64s) -> tuple[Int64s, list[Element]]:
    """The type of each call: its place in the list of types, −1 if unknown.

    `recorded` are string codes of c10's names of types, −1 for none; `inputs` those of `Input type`, of which the first
    with a tensor's counts where none is recorded.
    """
    places = np.full(len(recorded), -1, np.int64)
    distinct: list[Element] = []
    readers: list[tuple[Int64s, Callable[[int], Element | None]]] = [
        (recorded, lambda code: C10_ELEMENTS.get(trace.strings.label(code).removeprefix("c10::"))),
        *((codes, lambda code: _of_inputs(trace.strings.nested(code))) for codes in inputs),
    ]
    for codes, read in readers:
        missing = np.flatnonzero((places < 0) & (codes >= 0))
        each, back = np.unique(codes[missing], return_inverse=True)
        elements = [read(code) for code in each.tolist()]
        distinct += [element for element in dict.fromkeys(elements) if element is not None and element not in distinct]
        index = [-1 if element is None else distinct.index(element) for element in elements]
        places[missing] = np.array(index, np.int64)[back]
    return places, distinct


def shaped_elements(trace: Trace, span: Int32s, operator: Int32s) -> dict[str, Int64s]:
    """Elements that each call puts in and gets out, by the shapes of its inputs: int64, −1 if unknown.

    A library's span has what is sent; torch's operators on one tensor each way have both; those with kernels of their
    own have what is sent before what it comes to.
    """
    names = np.where(operator >= 0, trace.name[operator], -1)
    own = np.where(operator >= 0, rows_beginning(trace, KERNEL_OPERATORS, EventKind.HOST_OP)[operator], np.False_)
    both = np.isin(names, [code for text in _OUTPUT_FIRST if (code := trace.strings.code(text)) >= 0])
    sent = arguments.codes_where(trace, "input_dims", span)
    shapes = np.where(both, arguments.codes_where(trace, "input_dims", operator), -1)
    first = _counted(trace, shapes, lambda dims: _product(dims[0]))
    second = _counted(trace, shapes, lambda dims: _product(dims[1]))
    whole = _counted(trace, sent, _total)
    given = _counted(trace, np.where(own, arguments.codes_where(trace, "input_dims", operator), -1), _first)
    return {"elements_in": np.select([whole >= 0, given >= 0], [whole, given], second), "elements_out": first}


def _counted(trace: Trace, codes: Int64s, count: Callable[[Any], int | None]) -> Int64s:
    """`count` of each nested JSON, once for each code; −1 for what is malformed."""
    result = np.full(len(codes), -1, np.int64)
    present = np.flatnonzero(codes >= 0)
    each, back = np.unique(codes[present], return_inverse=True)
    counts = []
    for code in each.tolist():
        try:
            elements = count(trace.strings.nested(code))
        except (TypeError, IndexError, KeyError):
            elements = None
        counts.append(-1 if elements is None or not 0 <= elements < MAX_ELEMENTS else elements)
    result[present] = np.array(counts, np.int64)[back]
    return result


def _product(dims: Any) -> int | None:
    """Elements of a tensor of these dimensions; None for what is no list of them, or lists no dimension."""
    if isinstance(dims, list) and dims and all(type(size) is int and size >= 0 for size in dims):
        return math.prod(dims)
    return None


def _total(inputs: Any) -> int | None:
    """Elements of all inputs, those left out that are no tensors; of a single one without dimensions one."""
    if not isinstance(inputs, list):
        return None
    if inputs == [[]]:
        return 1
    every = [_product(dims) if _product(dims) is not None else _total_of_list(dims) for dims in inputs]
    sizes = [size for size in every if size is not None]
    return sum(sizes) if sizes else None


def _first(inputs: Any) -> int | None:
    """Elements of the first input with dimensions."""
    return next((size for dims in inputs if (size := _product(dims)) is not None), None)


def _total_of_list(tensors: Any) -> int | None:
    """Elements of a list of tensors."""
    if isinstance(tensors, list) and tensors and all(isinstance(dims, list) for dims in tensors):
        sizes = [_product(dims) for dims in tensors]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    return None


def _of_inputs(names: Any) -> Element | None:
    types = (element_type(text) for text in (names if isinstance(names, list) else ()) if isinstance(text, str))
    return next((Element(each.name, each.bytes) for each in types if each), None)
