"""The categories of memory: what an allocation is for, whichever record tells it."""

from __future__ import annotations

from typing import Final

CATEGORIES: Final = (
    *("parameter", "gradient", "optimizer state", "activation", "temporary", "workspace", "collective buffer", "input"),
    *("KV cache", "graph pool", "autograd detail", "unknown"),
)
"""Categories of allocations, in the order of their codes.

parameter: allocated where modules are built, loaded or moved; or there before the history, with the size of a gradient;
or allocated anew by an optimizer in each step, after its state.
gradient: allocated in the backward pass, and outlives it. optimizer state: allocated in the optimizer, and outlives its
step. activation: allocated elsewhere, and freed in a backward pass, or by a module and freed after one, or with a graph
of autograd. temporary: freed in the pass in which it was allocated. workspace, collective buffer, KV cache, input: by a
function of the stack; a workspace of cuBLAS also by its size. graph pool: in a pool of its own, as CUDA graphs have it.
autograd detail: in torch's own memory timeline, what autograd keeps beside activations. unknown: what nothing tells.

A snapshot knows all but autograd detail; the profiler's events tell gradients, optimizer state, activations and
temporaries.
"""

(
    PARAMETER,
    GRADIENT,
    STATE,
    ACTIVATION,
    TEMPORARY,
    WORKSPACE,
    COLLECTIVE,
    INPUT,
    KV_CACHE,
    GRAPH_POOL,
    AUTOGRAD_DETAIL,
    UNKNOWN,
) = range(len(CATEGORIES))
