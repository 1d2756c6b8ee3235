"""HOST013: a step computes the forward pass twice, once for training and once for something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.autograd_graph import graph_nodes
from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.evidence.stakes import without_calls
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.execution.autograd import in_backward
from kinetoscope.model.execution.call_tree import enclosing_module, main_thread, outermost_op, outermost_ops
from kinetoscope.model.execution.marks import is_module_call
from kinetoscope.model.execution.optimizers import optimizer_steps, zero_grads
from kinetoscope.model.operators.categories import view_ops
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace import arguments
from kinetoscope.views.sentences import say

_RUN: Final = 4
"""Operators in a row that must be the same, inputs' sizes included."""

_REPEATED_SHARE: Final = 0.5
"""Share of a step's trained operators that must come again."""

_CERTAIN_SHARE: Final = 0.9
"""Certain share of the gain where modules were recorded, and are the same."""


_WHY: Final = "Both are calls of the same modules."
_WHY_NOT: Final = (
    "It may be another batch, if it comes before what is trained, or, where no modules were recorded (with_stack=True),"
    " another model of these sizes."
)


def forward_twice(rank: RankView) -> Iterator[Finding]:
    """Does a training step compute its forward pass a second time, without a backward pass through it?

    What it checks. Runs of four and more operators of the main thread with the same names and sizes of inputs that a
    step calls once with a backward pass and again without, if these are half of what it trains or more; without sizes
    (`record_shapes`) nothing is said. Recomputation of checkpointed activations lies in the backward pass and does not
    count. Where modules were recorded (`with_stack`) both must be calls of the same modules.

    Why it matters. Metrics, predictions to log or a loss for display are often computed by a second call of the model,
    though the first has the outputs already. At stake is the time that the steps gain without the second call. Nine
    tenths of it are the lower end where the modules are known to be the same, and the second call comes after the one
    that is trained; else it is a guess, as a second model of the same sizes (a teacher, an average of the weights) and
    an evaluation on another batch look alike.

    What to do. Keep the outputs of the first call: `outputs.detach()`.
    """
    trace = rank.trace
    rows, is_sure = _repeated(rank)
    if not len(rows):
        return
    calls = marked(len(trace), rows)
    gains, busy, time, took, factors = without_calls(rank, calls)
    certain = _CERTAIN_SHARE if is_sure else 0.0
    saved = saving(rank, certain, gains, busy, took=took, goes=time, factors=factors)
    if saved is None:
        return
    shown = user_evidence(rank, int(rows[0]), "the first operator of the second forward pass", "operators")
    yield saved.finding(
        message=say(
            "The forward pass runs a second time{where}. {operators} repeat what the same step trains, with inputs of"
            " the same sizes, in {took} ({part} of the step).",
            where=in_source(shown),
            operators=rank.each_step(len(rows), "operator"),
            took=saved.per_step,
            part=saved.part,
        ),
        change="- loss = criterion(model(x), y); metric(model(x), y)\n"
        "+ output = model(x)\n+ loss = criterion(output, y); metric(output.detach(), y)",
        why=_WHY if is_sure else _WHY_NOT,
        confidence="medium" if is_sure else "low",
        evidence=shown,
    )


def _repeated(rank: RankView) -> tuple[Int32s, bool]:
    """Outermost operators that repeat trained ones of their step, by time; and whether they surely could be spared.

    That is where modules were recorded, and what is repeated comes after what is trained: before it, behind the update
    of the step before, an evaluation on another batch is the more likely.
    """
    trace, graph = rank.trace, graph_nodes(rank.trace)
    other = view_ops(trace) | in_backward(trace) | optimizer_steps(trace).inside | zero_grads(trace).inside
    chosen = outermost_ops(trace) & rank.scope.host_mask & ~other & (trace.track == main_thread(trace))
    rows: Int32s = np.flatnonzero(chosen).astype(np.int32)
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    dims = arguments.codes(trace, "input_dims", rows)
    rows, dims = rows[dims >= 0], dims[dims >= 0]  # without sizes each call is like the next
    if len(rows) < 2 * _RUN:
        return rows[:0], False
    is_trained = np.zeros(len(trace), np.bool_)
    makes = np.diff(graph.node, append=-1) != 0  # the others of a number precede the node: it is none of theirs
    top = outermost_op(trace)[graph.rows[makes & graph.is_run[graph.node]]]
    is_trained[top[top >= 0]] = True
    trained = is_trained[rows]
    step = step_of(rank.scope.steps.host, trace.start[rows])
    module = enclosing_module(trace)[rows]
    named = np.where(module >= 0, trace.name[module], -1)
    has_modules = bool(is_module_call(trace).any())
    code, _ = group(trace.name[rows], dims, named)
    windows = np.lib.stride_tricks.sliding_window_view
    runs, _ = group(*windows(code, _RUN).T.astype(np.int64), step[: len(code) - _RUN + 1])
    whole = step[: len(runs)] == step[_RUN - 1 :]
    counts = windows(trained, _RUN).sum(axis=1)
    again = whole & (counts == 0) & np.isin(runs, runs[whole & (counts > 0)])
    covered = np.zeros(len(rows), np.bool_)
    for offset in range(_RUN):
        covered[np.flatnonzero(again) + offset] = True
    if covered.sum() < _REPEATED_SHARE * trained.sum():
        covered[:] = False
    return rows[covered], has_modules and _comes_after(rows, step, covered, trained)


def _comes_after(rows: Int32s, step: Int64s, covered: Bools, trained: Bools) -> bool:
    """Does most of what is repeated come after the first trained operator of its step? Rows are in order of time."""
    place = np.arange(len(rows))
    first = np.full(int(step.max()) + 1, len(rows))
    np.minimum.at(first, step[trained], place[trained])
    return bool(np.mean(place[covered] > first[step[covered]]) > 0.5) if covered.any() else False


RULE = Rule("HOST013", "The forward pass runs twice", forward_twice, needs="computation", programs=("training",))
