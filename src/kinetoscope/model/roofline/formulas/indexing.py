"""Formulas of gathers, scatters, embeddings, concatenation, padding, sorting and selection.

Which elements an index names is not recorded. Lower bound: index and result. Upper bound: plus one source element per
result element.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Shape, Tensor, Tensors, traffic
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.result_types import INT32, INT64, kernel_type
from kinetoscope.model.roofline.formulas.streams import streamed, streaming

formula = Family("Gathers, scatters, joins")

_INDEX_KERNEL: Final = re.compile(r"index_elementwise_kernel<(\d{1,4}), (\d{1,2})[,>]")


def _sum(*parts: int | None) -> int | None:
    """Bytes together; None where some are unknown."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _gathered(source: Tensor, index: Tensor | None, shape: Shape) -> Cost:
    """Elements of a source, in a new tensor."""
    out = Tensor(shape, None, source.type)
    least, read = traffic(index, out), source.bytes
    drawn = None if read is None else min(read, out.bytes or 0)
    return Cost(bytes=least, bytes_most=_sum(least, drawn), outputs=(out,))


@formula("index_select")
def index_select(input: Tensor, dim: int | None, index: Tensor) -> Cost | None:
    """Along a dimension as many elements as the index has; the first one where it was not recorded."""
    if not input.shape:
        return None
    along = (dim or 0) % len(input.shape)
    return _gathered(input, index, (*input.shape[:along], index.elements, *input.shape[along + 1 :]))


@formula("embedding")
def embedding(weight: Tensor, indices: Tensor) -> Cost | None:
    """Rows of a table, as many as there are indices."""
    return _gathered(weight, indices, (*indices.shape, weight.shape[1])) if len(weight.shape) == 2 else None


@formula("gather take")
def gather(input: Tensor, index: Tensor) -> Cost:
    """An element for each of the index."""
    return _gathered(input, index, index.shape)


@formula("_embedding_bag _embedding_bag_forward_only")
def embedding_bag(weight: Tensor, indices: Tensor, offsets: Tensor, include_last_offset: bool) -> Cost | None:
    """A row for each bag."""
    if len(weight.shape) != 2:
        return None
    out = weight.new((max(0, offsets.elements - include_last_offset), weight.shape[1]))
    least, rows = traffic(indices, offsets, out), weight.new((indices.elements, weight.shape[1]))
    read = None if rows.bytes is None or weight.bytes is None else min(rows.bytes, weight.bytes)
    return Cost(vector_flop=rows.elements, bytes=least, bytes_most=_sum(least, read), outputs=(out,))


@formula("embedding_dense_backward")
@formula("_embedding_bag_dense_backward", names={"grad_output": "grad"})
def embedding_dense_backward(grad_output: Tensor, indices: Tensor, num_weights: int | None) -> Cost | None:
    """The gradient of a table: gradients and indices read, rows that occur written; zeros are set in another call."""
    if not grad_output.shape:
        return None
    read = traffic(grad_output, indices)
    if num_weights is None or num_weights < 0:
        return Cost(vector_flop=grad_output.elements, bytes=read, is_least=True)
    out = grad_output.new((num_weights, grad_output.shape[-1]))
    most = _sum(read, out.bytes, grad_output.bytes)
    return Cost(vector_flop=grad_output.elements, bytes=read, bytes_most=most, outputs=(out,))


@formula("scatter scatter_ index_copy index_copy_ index_fill index_fill_", accumulate=False)
@formula("scatter_add scatter_add_ index_add index_add_ scatter_reduce scatter_reduce_ index_reduce index_reduce_",
         accumulate=True)  # fmt: skip
@formula("put_ masked_scatter_", names={"index": "index mask"}, accumulate=False)
@formula("_index_put_impl_ index_put_", names={"src": "values"})  # the index was not recorded, the values were
def scatter(
    input: Tensor, index: Tensor | None, src: Tensor | None, source: Tensor | None, accumulate: bool
) -> Cost | None:
    """Values written into a tensor, or added to it, where an index says; several may meet in one place."""
    put = src or source
    if put is None and index is None:
        return None
    least = traffic(put, index)
    count = put.elements if put is not None else index.elements if index is not None else 0
    written = input.new((min(count, input.elements),)).bytes
    most = _sum(least, None if written is None else written * (2 if accumulate else 1))
    return Cost(vector_flop=count if accumulate else 0, bytes=least, bytes_most=most, outputs=(input,))


def _result(given: Arguments) -> Tensor | None:
    """The result of a call that has a node in the backward pass, which begins with its gradient."""
    gradient = given.backward_node.tensor(0) if given.backward_node is not None else None
    return None if gradient is None else gradient.new()


@formula("index", needs=("backward_node", "kernel", "blocks"))
def index(given: Arguments, input: Tensor) -> Cost | None:
    """Elements by an index that was not recorded. The gradient tells how many, or the blocks of the kernel.

    A block of its kernel works on as many elements as the product of its first two template arguments, the last one on
    what is left.
    """
    out = _result(given)
    if out is not None:
        return _gathered(input, None, out.shape)
    match = _INDEX_KERNEL.search(given.kernel)
    if match is None or not given.blocks or input.type is None:
        return None
    each = int(match[1]) * int(match[2])
    least, most = (given.blocks - given.launches) * each + given.launches, given.blocks * each
    return Cost(bytes=least * input.type.bytes, bytes_most=most * (2 * input.type.bytes + INT64.bytes))


@formula("cat _cat", needs=("kernel", "backward_node"))
def cat(given: Arguments, tensors: Tensors, dim: int | None, out: Tensor | None) -> Cost | None:
    """All tensors read, as much written.

    Their type is that of the place for the result where one was given, else what the kernel's name tells.
    """
    if not tensors:  # more than 30 tensors are not recorded
        result = out if out is not None and out.elements else _result(given)
        return None if result is None else Cost(bytes=_sum(result.bytes, result.bytes), outputs=(result,))
    kind = out.type if out is not None and out.type is not None else kernel_type(given)
    typed = [replace(each, type=kind) for each in tensors if each.shape != (0,)]
    if not typed:
        return Cost(bytes=0)
    return streamed(*typed, out=Tensor(_joined([each.shape for each in typed], dim or 0), None, kind))


@formula("stack", needs=("kernel",))
def stack(given: Arguments, tensors: Tensors, dim: int | None) -> Cost | None:
    """Tensors of one shape along a new dimension."""
    if not tensors:
        return None
    typed = [replace(each, type=kernel_type(given)) for each in tensors]
    shape = typed[0].shape
    along = (dim or 0) % (len(shape) + 1)
    return streamed(*typed, out=typed[0].new((*shape[:along], len(typed), *shape[along:])))


def _joined(shapes: list[Shape], along: int) -> Shape:
    """The shape of tensors one after the other; of those that do not fit, one dimension with all elements."""
    first = shapes[0]
    if not first or any(len(shape) != len(first) for shape in shapes):
        return (sum(Tensor(shape).elements for shape in shapes),)
    along %= len(first)
    sizes = (*first[:along], sum(shape[along] for shape in shapes), *first[along + 1 :])
    total = sum(Tensor(shape).elements for shape in shapes)
    return sizes if Tensor(sizes).elements == total else (total,)


@formula("searchsorted")
@formula("bucketize", names={"sorted_sequence": "boundaries"})
def searchsorted(sorted_sequence: Tensor, input: Tensor, out_int32: bool) -> Cost:
    """A place among boundaries for each value, found by halves."""
    out = Tensor(input.shape, None, INT32 if out_int32 else INT64)
    flop = input.elements * max(1, (sorted_sequence.shape or (1,))[-1]).bit_length()
    return streamed(input, sorted_sequence, out=out, flop=flop)


@formula("split_with_sizes_copy _chunk_cat unbind_copy split_copy", needs=("kernel",))
def split(given: Arguments, input: Tensor | None, tensors: Tensors) -> Cost | None:
    """All read, as much written."""
    parts = (input,) if input is not None else tuple(replace(each, type=kernel_type(given)) for each in tensors)
    moved = traffic(*parts)
    return Cost(bytes=_sum(moved, moved)) if parts else None


@formula(
    "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d"
    " replication_pad3d",
    names={"pad": "padding"},
)
def constant_pad_nd(input: Tensor, pad: Shape) -> Cost | None:
    """Padding: pairs of the last dimensions first; a negative number cuts."""
    if len(pad) % 2 or len(pad) > 2 * len(input.shape):
        return None
    shape = list(input.shape)
    for place in range(len(pad) // 2):
        shape[-1 - place] += pad[2 * place] + pad[2 * place + 1]
    out = input.new(tuple(max(0, size) for size in shape))
    read = traffic(input) if out.elements >= input.elements else out.bytes
    return Cost(bytes=_sum(read, out.bytes), outputs=(out,))


@formula("sort argsort")
def sort(input: Tensor) -> Cost:
    """Each element read and written at least once, and where it was."""
    out = input.new()
    return Cost(bytes=traffic(input, out, Tensor(input.shape, None, INT64)), outputs=(out,))


@formula("topk")
def topk(input: Tensor, k: int | None, dim: int | None) -> Cost | None:
    """All is read, the greatest of each row are written."""
    if not input.shape:
        return None
    along = (-1 if dim is None else dim) % len(input.shape)
    shape = (0,) if k is None else (*input.shape[:along], max(0, k), *input.shape[along + 1 :])
    out, places = input.new(shape), Tensor(shape, None, INT64)
    return Cost(vector_flop=input.elements, bytes=traffic(input, out, places), outputs=(out,))


@formula(
    "nonzero _unique2 unique_dim unique_consecutive bincount histc multinomial is_nonzero _local_scalar_dense",
    read="input",
)
@formula("masked_select", read="mask")
@formula("repeat_interleave", read="input repeats")
def read_at_least(given: Arguments, read: str) -> Cost | None:
    """Results whose size depends on the data: at least all of these is read."""
    tensors = [each for name in read.split() if (each := given.tensor(name)) is not None]
    return Cost(bytes=traffic(*tensors), is_least=True) if tensors else None


@formula("_padded_dense_to_jagged_forward", names={"rows": "total_L"})
def to_jagged(dense: Tensor, rows: int) -> Cost | None:
    """Rows that are no padding, read and written."""
    if rows < 0 or len(dense.shape) < 2:
        return None
    out = dense.new((rows, dense.shape[-1]))
    return Cost(bytes=_sum(out.bytes, out.bytes), outputs=(out,))


@formula("repeat")
def repeat(input: Tensor, repeats: Shape) -> Cost | None:
    """The input read once, written as often as it is repeated."""
    if len(repeats) < len(input.shape) or min(repeats, default=0) < 0:
        return None
    sizes = (1,) * (len(repeats) - len(input.shape)) + input.shape
    return streamed(input, out=input.new(tuple(size * count for size, count in zip(sizes, repeats, strict=True))))


@formula("nll_loss_forward nll_loss2d_forward")
def nll_loss(input: Tensor, target: Tensor) -> Cost:
    """Negative log-likelihood: of each row one element is read; the result is one number, or one a row."""
    moved = traffic(target, input.new(target.shape))
    return Cost(vector_flop=target.elements, bytes=moved, outputs=(input.new(()),))


@formula("nll_loss_backward nll_loss2d_backward")
def nll_loss_backward(input: Tensor, target: Tensor) -> Cost:
    """Its gradient: of each row one element; zeros around them are set by this call or by one of its own."""
    out = input.new()
    least = traffic(target, input.new(target.shape))
    return Cost(bytes=least, bytes_most=_sum(least, out.bytes), outputs=(out,))


formula("_jagged_to_padded_dense_forward", written="values", read="values", operations=0)(streaming)
