"""Ranges that torch and its frameworks record around the calls of a program: steps, optimizers, modules, loaders."""

from __future__ import annotations

from typing import Final

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import COLLECTIVE_OPS, COLLECTIVE_WORDS, EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.trace import Trace

RANGE_KINDS: Final = (EventKind.ANNOTATION, EventKind.HOST_OP)
"""Kinds of a named range: an annotation; in files of 2021 an operator."""

STEP: Final = "ProfilerStep#"
"""Beginning of the names of the profiler's steps."""

LIGHTNING: Final = "[pl]["
"""Beginning of the names of the ranges that Lightning's profiler records."""

MODULE: Final = "nn.Module: "
"""Beginning of the names of Python calls that are a module's forward."""

OPTIMIZER: Final = "Optimizer."
"""Beginning of the names of torch's spans of an optimizer, such as `Optimizer.step#SGD.step`."""

OPTIMIZER_STEP: Final = "Optimizer.step"

_LOADER: Final = "enumerate(DataLoader)#"
_PIPE: Final = "enumerate(DataPipe)#"
_ASYNCHRONOUS: Final = ("gloo:",)


@derived
def is_step(trace: Trace) -> Bools:
    """Ranges that are the profiler's steps: bool [events]."""
    return rows_beginning(trace, (STEP,), *RANGE_KINDS)


@derived
def is_mark(trace: Trace) -> Bools:
    """Ranges around calls that are no work of their own, those of the profiler and of Lightning: bool [events]."""
    return rows_beginning(trace, (STEP, LIGHTNING), *RANGE_KINDS)


@derived
def is_optimizer_range(trace: Trace, beginning: str = OPTIMIZER) -> Bools:
    """Torch's ranges of an optimizer: bool [events]; with OPTIMIZER_STEP only those of its steps."""
    return rows_beginning(trace, (beginning,), *RANGE_KINDS)


@derived
def is_module_call(trace: Trace) -> Bools:
    """Python calls that are a module's forward: bool [events]."""
    return rows_beginning(trace, (MODULE,), EventKind.PYTHON)


@derived
def is_data_loading(trace: Trace) -> Bools:
    """Spans of torch's data loader on the host: bool [events]."""

    def fits(name: str) -> bool:
        return (name.startswith(_LOADER) and name.endswith(".__next__")) or name.startswith(_PIPE)

    return rows_named(trace, fits, *RANGE_KINDS, holding=(_LOADER, _PIPE))


@derived
def is_collective_range(trace: Trace) -> Bools:
    """Operators and annotations that are collectives: bool [events]."""
    return rows_named(
        trace, lambda name: COLLECTIVE_OPS.match(name) is not None, *RANGE_KINDS, holding=COLLECTIVE_WORDS
    )


@derived
def is_asynchronous(trace: Trace) -> Bools:
    """Annotations that end on another thread than they begin on, and so nest in none, gloo's: bool [events]."""
    return rows_beginning(trace, _ASYNCHRONOUS, EventKind.ANNOTATION)
