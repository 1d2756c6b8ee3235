"""What gathers, scatters, embeddings, concatenation, padding, sorting and selection move.

Which elements an index names is not recorded. Where several may name the same one, the least traffic reads none of the
source twice: it counts the index and the result; the most reads an element of the source for each of the result.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kinetoscope.model.roofline.formulas.arguments import Arguments, Cost, Entry, Formula, Shape, Tensor, traffic
from kinetoscope.model.roofline.formulas.result_types import INT32, INT64, kernel_type
from kinetoscope.model.roofline.formulas.streams import StreamedArguments

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


def _selected(source: int, index: int, dimension: int) -> Formula:
    """`index_select`: along a dimension as many as the index has; the first one where it was not recorded."""

    def formula(given: Arguments) -> Cost | None:
        of, places = given.tensor(source), given.tensor(index)
        if of is None or places is None or not of.shape:
            return None
        along = (given.integer(dimension) or 0) % len(of.shape)
        return _gathered(of, places, (*of.shape[:along], places.elements, *of.shape[along + 1 :]))

    return formula


def _embedding(given: Arguments) -> Cost | None:
    """Rows of a table, as many as there are indices."""
    table, index = given.tensor(0), given.tensor(1)
    if table is None or index is None or len(table.shape) != 2:
        return None
    return _gathered(table, index, (*index.shape, table.shape[1]))


def _gather(given: Arguments) -> Cost | None:
    """`gather`, `take`: an element for each of the index."""
    source, index = given.tensor(0), given.tensor(2) or given.tensor(1)
    return None if source is None or index is None else _gathered(source, index, index.shape)


def _bags(given: Arguments) -> Cost | None:
    """`_embedding_bag`: a row for each bag."""
    table, index, offsets = given.tensor(0), given.tensor(1), given.tensor(2)
    if table is None or index is None or offsets is None or len(table.shape) != 2:
        return None
    bags = max(0, offsets.elements - (given.flag(7) is True))
    out = Tensor((bags, table.shape[1]), None, table.type)
    least, rows = traffic(index, offsets, out), Tensor((index.elements, table.shape[1]), None, table.type)
    read = None if rows.bytes is None or table.bytes is None else min(rows.bytes, table.bytes)
    return Cost(vector_flop=rows.elements, bytes=least, bytes_most=_sum(least, read), outputs=(out,))


def _dense_backward(rows: int) -> Formula:
    """The gradient of a table: gradients and indices read, rows that occur written; zeros are set in another call."""

    def formula(given: Arguments) -> Cost | None:
        gradient, index, count = given.tensor(0), given.tensor(1), given.integer(rows)
        if gradient is None or index is None or not gradient.shape:
            return None
        read = traffic(gradient, index)
        if count is None or count < 0:
            return Cost(vector_flop=gradient.elements, bytes=read, is_least=True)
        out = Tensor((count, gradient.shape[-1]), None, gradient.type)
        most = _sum(read, out.bytes, gradient.bytes)
        return Cost(vector_flop=gradient.elements, bytes=read, bytes_most=most, outputs=(out,))

    return formula


def _scattered(values: int, index: int, *, adds: bool) -> Formula:
    """Values written into a tensor, or added to it, where an index says; several may meet in one place."""

    def formula(given: Arguments) -> Cost | None:
        to, put, where = given.tensor(0), given.tensor(values), given.tensor(index)
        if to is None or (put is None and where is None):
            return None
        least = traffic(put, where)
        count = where.elements if where is not None and put is None else put.elements if put is not None else 0
        written = Tensor((min(count, to.elements),), None, to.type).bytes
        most = _sum(least, None if written is None else written * (2 if adds else 1))
        return Cost(vector_flop=count if adds else 0, bytes=least, bytes_most=most, outputs=(to,))

    return formula


def _put(given: Arguments) -> Cost | None:
    """`index_put_`: the index was not recorded, the values were."""
    return _scattered(2, -1, adds=given.flag(3) is True)(given)


def _result(given: Arguments) -> Tensor | None:
    """The result of a call that has a node in the backward pass, which begins with its gradient."""
    gradient = given.node.tensor(0) if given.node is not None else None
    return None if gradient is None else Tensor(gradient.shape, None, gradient.type)


def _indexed(given: Arguments) -> Cost | None:
    """`index`: which elements are taken was not recorded. How many the gradient tells, or the blocks of the kernel.

    A block of its kernel works on as many elements as the product of its first two template arguments, the last one on
    what is left.
    """
    source, out = given.tensor(0), _result(given)
    if source is None:
        return None
    if out is not None:
        return _gathered(source, None, out.shape)
    match = _INDEX_KERNEL.search(given.kernel)
    if match is None or not given.blocks or source.type is None:
        return None
    each = int(match[1]) * int(match[2])
    least, most = (given.blocks - given.launches) * each + given.launches, given.blocks * each
    return Cost(bytes=least * source.type.bytes, bytes_most=most * (2 * source.type.bytes + INT64.bytes))


def _concatenated(given: Arguments) -> Cost | None:
    """`cat`: all tensors read, as much written.

    Their type is that of the place for the result where one was given, else what the kernel's name tells.
    """
    parts, place = given.tensors(0), given.tensor(2)
    if not parts:  # more than 30 tensors are not recorded
        out = place if place is not None and place.elements else _result(given)
        return None if out is None else Cost(bytes=_sum(out.bytes, out.bytes), outputs=(out,))
    kind = place.type if place is not None and place.type is not None else kernel_type(given)
    along = given.integer(1)
    typed = [replace(part, type=kind) for part in parts if part.shape != (0,)]
    if not typed:
        return Cost(bytes=0)
    out = Tensor(_joined([part.shape for part in typed], 0 if along is None else along), None, kind)
    return Cost(bytes=traffic(*typed, out), outputs=(out,))


def _stacked(given: Arguments) -> Cost | None:
    """`stack`: tensors of one shape along a new dimension."""
    parts, along = given.tensors(0), given.integer(1) or 0
    kind = kernel_type(given)
    if not parts:
        return None
    shape = parts[0].shape
    along %= len(shape) + 1
    out = Tensor((*shape[:along], len(parts), *shape[along:]), None, kind)
    return Cost(bytes=traffic(*(replace(part, type=kind) for part in parts), out), outputs=(out,))


def _placed(values: int, boundaries: int) -> Formula:
    """`searchsorted`, `bucketize`: a place among boundaries for each value, found by halves."""

    def formula(given: Arguments) -> Cost | None:
        source, among = given.tensor(values), given.tensor(boundaries)
        if source is None or among is None:
            return None
        out = Tensor(source.shape, None, INT32 if given.flag(2) else INT64)
        flop = source.elements * max(1, (among.shape or (1,))[-1]).bit_length()
        return Cost(vector_flop=flop, bytes=traffic(source, among, out), outputs=(out,))

    return formula


def _joined(shapes: list[Shape], along: int) -> Shape:
    """The shape of tensors one after the other; of those that do not fit, one dimension with all elements."""
    first = shapes[0]
    if not first or any(len(shape) != len(first) for shape in shapes):
        return (sum(Tensor(shape).elements for shape in shapes),)
    along %= len(first)
    sizes = (*first[:along], sum(shape[along] for shape in shapes), *first[along + 1 :])
    total = sum(Tensor(shape).elements for shape in shapes)
    return sizes if Tensor(sizes).elements == total else (total,)


def _divided(given: Arguments) -> Cost | None:
    """`split_with_sizes_copy`, `_chunk_cat` and the like: all read, as much written."""
    source = given.tensor(0)
    parts = (
        (source,) if source is not None else tuple(replace(part, type=kernel_type(given)) for part in given.tensors(0))
    )
    moved = traffic(*parts)
    return Cost(bytes=_sum(moved, moved)) if parts else None


def _padded(given: Arguments) -> Cost | None:
    """Padding: pairs of the last dimensions first; a negative number cuts."""
    source, pads = given.tensor(0), given.integers(1)
    if source is None or len(pads) % 2 or len(pads) > 2 * len(source.shape):
        return None
    shape = list(source.shape)
    for place in range(len(pads) // 2):
        shape[-1 - place] += pads[2 * place] + pads[2 * place + 1]
    out = Tensor(tuple(max(0, size) for size in shape), None, source.type)
    read = traffic(source) if out.elements >= source.elements else out.bytes
    return Cost(bytes=_sum(read, out.bytes), outputs=(out,))


def _sorted(given: Arguments) -> Cost | None:
    """Sorting reads and writes each element at least once, and writes where it was."""
    source = given.tensor(0)
    if source is None:
        return None
    out = Tensor(source.shape, None, source.type)
    return Cost(bytes=traffic(source, out, Tensor(source.shape, None, INT64)), outputs=(out,))


def _top(given: Arguments) -> Cost | None:
    """`topk`: all is read, the greatest of each row are written."""
    source, count = given.tensor(0), given.integer(1)
    if source is None or not source.shape:
        return None
    along = given.integer(2)
    along = (-1 if along is None else along) % len(source.shape)
    kept = source.shape[along] if count is None else max(0, count)
    shape = tuple(kept if k == along else size for k, size in enumerate(source.shape))
    out = Tensor(shape if count is not None else (0,), None, source.type)
    return Cost(vector_flop=source.elements, bytes=traffic(source, out, Tensor(out.shape, None, INT64)), outputs=(out,))


def _read(*places: int) -> Formula:
    """Results whose size depends on the data: at least all of these is read."""

    def formula(given: Arguments) -> Cost | None:
        read = [each for place in places if (each := given.tensor(place)) is not None]
        return Cost(bytes=traffic(*read), is_least=True) if read else None

    return formula


def _packed(given: Arguments) -> Cost | None:
    """`_padded_dense_to_jagged_forward`: rows that are no padding, read and written."""
    source, rows = given.tensor(0), given.integer(2)
    if source is None or rows is None or rows < 0 or len(source.shape) < 2:
        return None
    out = Tensor((rows, source.shape[-1]), None, source.type)
    return Cost(bytes=_sum(out.bytes, out.bytes), outputs=(out,))


def _repeated(given: Arguments) -> Cost | None:
    """`repeat`: the input read once, written as often as the second argument says."""
    source, times = given.tensor(0), given.integers(1)
    if source is None or len(times) < len(source.shape) or min(times, default=0) < 0:
        return None
    sizes = (1,) * (len(times) - len(source.shape)) + source.shape
    out = Tensor(tuple(size * count for size, count in zip(sizes, times, strict=True)), None, source.type)
    return Cost(bytes=traffic(source, out), outputs=(out,))


def _likelihood(given: Arguments) -> Cost | None:
    """Negative log-likelihood: of each row one element is read; the result is one number, or one a row."""
    source, target = given.tensor(0), given.tensor(1)
    if source is None or target is None:
        return None
    picked = Tensor(target.shape, None, source.type)
    return Cost(vector_flop=target.elements, bytes=traffic(target, picked), outputs=(Tensor((), None, source.type),))


def _loss_backward(given: Arguments) -> Cost | None:
    """Its gradient: of each row one element; zeros around them are set by this call or by one of its own."""
    source, target = given.tensor(1), given.tensor(2)
    if source is None or target is None:
        return None
    picked = Tensor(target.shape, None, source.type)
    out = Tensor(source.shape, None, source.type)
    least = traffic(target, picked)
    return Cost(bytes=least, bytes_most=_sum(least, out.bytes), outputs=(out,))


INDEXING: Final[dict[str, Entry]] = {
    "aten::index_select": Entry(_selected(0, 2, 1)),
    "aten::embedding": Entry(_embedding),
    **{f"aten::{name}": Entry(_gather) for name in ("gather", "take")},
    **{f"aten::{name}": Entry(_bags) for name in ("_embedding_bag", "_embedding_bag_forward_only")},
    "aten::embedding_dense_backward": Entry(_dense_backward(2)),
    "aten::_embedding_bag_dense_backward": Entry(_dense_backward(5)),
    **{
        f"aten::{name}": Entry(_scattered(3, 2, adds=False))
        for name in ("scatter", "scatter_", "index_copy", "index_copy_")
    },
    **{
        f"aten::{name}": Entry(_scattered(3, 2, adds=True))
        for kind in ("scatter_add", "index_add", "scatter_reduce", "index_reduce")
        for name in (kind, f"{kind}_")
    },
    **{f"aten::{name}": Entry(_scattered(-1, 2, adds=False)) for name in ("index_fill", "index_fill_")},
    **{f"aten::{name}": Entry(_put) for name in ("_index_put_impl_", "index_put_")},
    **{f"aten::{name}": Entry(_scattered(2, 1, adds=False)) for name in ("put_", "masked_scatter_")},
    **{f"aten::{name}": Entry(_concatenated, needs=("kernel", "node")) for name in ("cat", "_cat")},
    "aten::index": Entry(_indexed, needs=("node", "kernel", "blocks")),
    **{
        f"aten::{name}": Entry(_divided, needs=("kernel",))
        for name in ("split_with_sizes_copy", "_chunk_cat", "unbind_copy", "split_copy")
    },
    **{
        f"aten::{name}": Entry(_padded)
        for name in (
            "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
            "replication_pad2d", "replication_pad3d",
        )
    },
    "aten::_padded_dense_to_jagged_forward": Entry(_packed),
    "aten::_jagged_to_padded_dense_forward": Entry(StreamedArguments((0,), (0,), operations=0)),
    "aten::repeat": Entry(_repeated),
    "aten::sort": Entry(_sorted),
    "aten::argsort": Entry(_sorted),
    "aten::topk": Entry(_top),
    **{
        f"aten::{name}": Entry(_read(0))
        for name in ("nonzero", "_unique2", "unique_dim", "unique_consecutive", "bincount", "histc", "multinomial")
    },
    "aten::masked_select": Entry(_read(1)),
    "aten::repeat_interleave": Entry(_read(0, 1)),
    **{f"aten::{name}": Entry(_read(0)) for name in ("is_nonzero", "_local_scalar_dense")},
    **{f"aten::{name}": Entry(_likelihood) for name in ("nll_loss_forward", "nll_loss2d_forward")},
    **{f"aten::{name}": Entry(_loss_backward) for name in ("nll_loss_backward", "nll_loss2d_backward")},
    "aten::stack": Entry(_stacked, needs=("kernel",)),
    "aten::searchsorted": Entry(_placed(1, 0)),
    "aten::bucketize": Entry(_placed(0, 1)),
}  # fmt: skip
"""Gathers, scatters, concatenation, padding, sorting and selection."""
