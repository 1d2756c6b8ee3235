"""Shares of the device's time in a step: attention, GEMM, MoE, communication, sampling."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, exclusive, extents, union
from kinetoscope.model.execution.call_tree import inside
from kinetoscope.model.execution.device_work import device_work, launched_by
from kinetoscope.model.execution.engines import Phase, is_in_phase
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.operators.categories import CATEGORIES, COMMUNICATION, COPY, work_categories
from kinetoscope.model.operators.categories import category as category_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

SHARES: Final = ("attention", "gemm", "moe", "sampling", "computation", "communication", "copy")
"""Shares of a step in order of priority: each instant belongs to the first of which work runs."""

_PRODUCTS: Final = tuple(SHARES.index(name) for name in ("attention", "gemm", "moe"))

_OF_CATEGORY: Final = {"attention": "attention", "GEMM": "gemm", "MoE": "moe"}

_SAMPLING: Final = re.compile(
    r"(?<![a-z])(?<!grid_)(?:re)?sampl(?:e|er|ing)(?![a-z])|arg_?max|multinomial|gumbel|top_?p(?![a-z])|min_p(?![a-z])"
    r"|exponential_|apply_penalt|logits?_(?:bias|process)|vocab_mask|bitmask|rejection",
    re.IGNORECASE,
)
"""In names of kernels and operators: the choice of the next token."""

_EXPERTS: Final = re.compile(r"nn\.Module: \w*(?:MoE|MoeBlock|Experts)_\d+$")
"""Modules that route tokens to experts; a whole layer or model of that name (`Qwen3MoeDecoderLayer`) is none."""

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@derived
def in_phase(trace: Trace, phase: Phase) -> Bools:
    """Ranges and Python calls that are a phase of an engine: bool [events]."""
    return rows_named(trace, lambda name: is_in_phase(name, phase), EventKind.ANNOTATION, EventKind.PYTHON)


@derived
def work_shares(trace: Trace) -> Int8s:
    """The place in SHARES of each piece of device work: int8 [work].

    Sampling is what was launched in the sampler of an engine, or is named so. All that was launched in an operator or a
    module of experts is MoE, in an operator of attention attention; the rest is as in `categories`.
    """
    work, category = device_work(trace), work_categories(trace)
    computation = SHARES.index("computation")
    of_category = [SHARES.index(_OF_CATEGORY.get(name, "computation")) for name in CATEGORIES]
    of_category[COMMUNICATION], of_category[COPY] = SHARES.index("communication"), SHARES.index("copy")
    shares: Int8s = np.array(of_category, np.int8)[category]
    is_open = shares != SHARES.index("communication")

    def launched_in(calls: Bools) -> Bools:
        launched: Bools = launched_by(trace, inside(trace, calls)) & is_open
        return launched

    shares[launched_in(rows_named(trace, lambda name: category_of(name) == "attention", EventKind.HOST_OP))] = (
        SHARES.index("attention")
    )
    experts = rows_named(trace, lambda name: category_of(name) == "MoE", EventKind.HOST_OP)
    experts |= rows_named(trace, lambda name: bool(_EXPERTS.match(name)), EventKind.PYTHON, holding=(MODULE,))
    shares[launched_in(experts)] = SHARES.index("moe")
    named = rows_named(trace, _is_sampling, EventKind.KERNEL, EventKind.HOST_OP)
    sampling = named[work.rows] | ((work.op >= 0) & named[work.op]) if len(trace) else np.zeros(0, np.bool_)
    sampling &= np.isin(shares, (computation, SHARES.index("copy")))
    shares[sampling | launched_in(in_phase(trace, "sampling"))] = SHARES.index("sampling")
    return shares


def _is_sampling(name: str) -> bool:
    return _SAMPLING.search(_CAPITAL.sub("_", name)) is not None


def shares_in_steps(trace: Trace, step: Int64s) -> Int8s:
    """As `work_shares`, of work in steps (int64 [work], −1 for none): what follows the last product is sampling.

    The last product of a step makes the logits. Samplers launch operators with names of their own only now and then.
    """
    work, shares = device_work(trace), work_shares(trace).copy()
    earliest, never = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    product = np.flatnonzero(np.isin(shares, _PRODUCTS) & (step >= 0))
    last = np.full(int(step.max(initial=-1)) + 2, earliest)
    np.maximum.at(last, step[product], work.start[product])
    last[last == earliest] = never
    follows = (step >= 0) & (work.start > last[step]) & (shares == SHARES.index("computation"))
    shares[follows] = SHARES.index("sampling")
    return shares


def times_of_shares(ran: Intervals, share: Int8s, step: Int64s, steps: int) -> Int64s:
    """The time of each share in each step: int64 [steps, SHARES]; a row sums to the time in which its work runs.

    Of each piece of device work, [work]: when it ran, its share, and its step, −1 for none.
    """
    if not steps:
        return np.zeros((0, len(SHARES)), np.int64)
    inside = np.flatnonzero(step >= 0)
    # Each step has a stretch of time of its own here, so that work of two steps never meets.
    low, high = extents(step, steps, ran.start, ran.end)
    length = np.where(high > low, high - low, 0)
    begin = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    share = share[inside]
    start = ran.start[inside] - low[step[inside]] + begin[step[inside]]
    end = start + (ran.end - ran.start)[inside]
    classes = [union(start[share == place], end[share == place]) for place in range(len(SHARES))]
    return exclusive(Intervals(begin[:-1], begin[1:]), classes)[:, :-1]
