"""MEMORY006: the gradient of a large embedding is dense, though a step touches few of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.evidence.stakes import leave_only
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s, marked
from kinetoscope.algorithms.intervals.intervals import intersection, merge
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.optimizers import optimizer_steps, zero_grads
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.views.sentences import measured, say

_BACKWARD: Final = {"aten::embedding_dense_backward": 2, "aten::_embedding_bag_dense_backward": 5}
"""Operators that compute a dense gradient, and which argument is the number of the table's rows."""

_MODE: Final = 7
_MAX: Final = 2
"""The argument of a bag that says how it sums; the greatest has no sparse gradient."""

_ROWS_PER_INDEX: Final = 4
"""Rows of the table for each index of a batch, from which on a sparse gradient is much smaller."""

_CERTAIN_SHARE: Final = 0.75
"""Certain share of the gain: indices of a sparse gradient have to be sorted and summed."""


class _Table(NamedTuple):
    """An embedding's sizes, and the share of its rows that a batch touches at most."""

    rows: int
    width: int
    touched: float
    module: str


def dense_embedding_gradient(rank: RankView) -> Iterator[Finding]:
    """Is a dense gradient computed for an embedding of which a step touches few rows?

    What it checks. Calls of `aten::embedding_dense_backward`, and of its equal for `EmbeddingBag`, for tables of at
    least four rows for each index, and the operators of the optimizer and of `zero_grad` that work on a tensor of the
    table's size.

    Why it matters. A dense gradient has a row for each row of the table: it is filled with zeros, and the optimizer
    reads and writes the whole table and its own state, though all but the touched rows stay the same. At stake is the
    time that the steps gain if this work shrinks to the touched rows; three quarters of it are the lower end.

    What to do. `sparse=True`, with `SGD`, `SparseAdam` or `Adagrad`. Adam then updates the state of touched rows only,
    which changes the training a little; weight decay is not possible.
    """
    trace = rank.trace
    rows, left, tables = _dense(rank)
    if not tables:
        return
    of_event = np.ones(len(trace))
    of_event[rows] = left
    is_row = marked(len(trace), rows)
    around = ancestor(call_tree(trace).parent, is_row)
    of_event = np.where(around >= 0, of_event[around], 1.0)
    caller = rank.work.caller
    of_work = np.where(caller >= 0, of_event[caller], 1.0) if len(rank.work) else np.empty(0)
    factors = rank.factors()
    factors.host[:] = of_event
    launched = of_work < 1
    leave_only(factors, launched, of_work[launched])
    spans, work = rank.spans(rows), rank.work_spans(launched)
    time = work if rank.has_device else spans
    saved = saving(rank, _CERTAIN_SHARE, factors, time, goes=intersection(merge(rank.exposed(spans), work), rank.time))
    if saved is None:
        return
    table = max(tables, key=lambda each: each.rows * each.width)
    is_gradient = rows_named(trace, _BACKWARD.__contains__, EventKind.HOST_OP)  # others are the optimizer's
    shown = user_evidence(rank, rank.longest(rows[is_gradient[rows]]), "the longest such gradient", "operators")
    yield saved.finding(
        message=say(
            "The gradient of an embedding of {rows} rows is dense{where}. A batch touches {touched} of them at most;"
            " gradient and update take {time} ({part} of the step).",
            rows=measured(table.rows),
            where=in_source(shown),
            touched=share(table.touched, 1.0),
            time=saved.per_step,
            part=saved.part,
        ),
        change=f"- nn.{table.module}(rows, width); Adam(...)\n"
        f"+ nn.{table.module}(rows, width, sparse=True); SparseAdam(...)  # SGD and Adagrad take sparse gradients, too",
        why="The work on the table shrinks to the rows that a batch touches; at least three quarters of that come,"
        " as indices are sorted and summed then.",
        confidence="medium",
        evidence=shown,
    )


def _dense(rank: RankView) -> tuple[Int64s, Floats, set[_Table]]:
    """Operators on whole tables: rows, the share of the time that is left of each; and the tables."""
    trace = rank.trace
    named = rows_named(trace, _BACKWARD.__contains__, EventKind.HOST_OP) & rank.scope.host_mask
    backward: Int32s = np.flatnonzero(named).astype(np.int32)
    texts = [arguments.codes(trace, name, backward) for name in ("input_dims", "concrete_inputs")]
    keys, place = np.unique(np.stack([trace.name[backward], *texts]), axis=1, return_inverse=True)
    known = [
        _table(trace.strings.label(name), *(trace.strings.nested(code) if code >= 0 else None for code in key))
        for name, *key in keys.T.tolist()
    ]
    each = [known[number] for number in place.reshape(-1).tolist()]
    rows = [int(row) for row, table in zip(backward.tolist(), each, strict=True) if table]
    left = [table.touched for table in each if table]
    tables = {table for table in each if table}
    sizes = {(table.rows, table.width): table.touched for table in tables}
    updates = (optimizer_steps(trace).inside | zero_grads(trace).inside) & rank.scope.host_mask
    candidates: Int32s = np.flatnonzero(updates & (trace.kind == EventKind.HOST_OP) & bool(tables)).astype(np.int32)
    dims = arguments.codes(trace, "input_dims", candidates)
    for code in np.unique(dims[dims >= 0]).tolist():
        part = _left(trace.strings.nested(code), sizes)
        if part < 1:
            same = candidates[dims == code].tolist()
            rows += same
            left += [part] * len(same)
    return np.array(rows, np.int64), np.array(left), tables


def _table(name: str, dims: Any, concrete: Any) -> _Table | None:
    """The table of a gradient, if a batch has few indices for its size."""
    is_bag = "bag" in name
    try:
        gradient, indices, rows = dims[0], dims[1], int(concrete[_BACKWARD[name]])
        width, count = int(gradient[-1]), prod(indices)
        if is_bag and int(concrete[_MODE]) == _MAX:
            return None
    except (TypeError, ValueError, IndexError, KeyError):
        return None
    module = "EmbeddingBag" if is_bag else "Embedding"
    return _Table(rows, width, count / rows, module) if 0 < _ROWS_PER_INDEX * count <= rows else None


def _left(dims: Any, sizes: dict[tuple[int, int], float]) -> float:
    """The share left of an operator on such a table, or on a list of tensors with one among them."""
    first = dims[0] if isinstance(dims, list) and dims and isinstance(dims[0], list) else []
    shapes = [each for each in (first if first and isinstance(first[0], list) else [first])
              if all(isinstance(size, int) for size in each)]  # fmt: skip
    elements = [prod(shape) for shape in shapes]
    saved = sum(count * (1 - sizes.get((shape[0], shape[1]), 1.0))
                for shape, count in zip(shapes, elements, strict=True) if len(shape) == 2)  # fmt: skip
    return 1 - saved / max(sum(elements), 1)


RULE = Rule("MEMORY006", "The gradient of a large embedding is dense", dense_embedding_gradient, needs="computation")
