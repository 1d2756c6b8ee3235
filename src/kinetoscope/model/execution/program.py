"""The kind of program that a trace is of, and the features that it uses already: advice is worded by both."""

from __future__ import annotations

import re
from typing import Final, Literal

from kinetoscope.model.execution.engines import ENGINES, STEP_WORDS, engine_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_containing, rows_named
from kinetoscope.model.trace.trace import Trace

ProgramKind = Literal["training", "serving", "inference", "unknown"]

_FOLDERS: Final = tuple(folder for engine in ENGINES if engine.serves for folder in engine.folders)
"""Folders of serving engines, in the names of Python calls."""

_BACKWARD: Final = re.compile(
    r"autograd::engine::evaluate_function|(?:^|:)\w*Backward\d*$|AccumulateGrad|CompiledFunctionBackward"
    r"|Optimizer\.step#|torch/autograd/__init__\.py\(\d+\): backward|torch/optim/\w+\.py\(\d+\): step"
)
_BACKWARD_WORDS: Final = ("autograd", "Backward", "AccumulateGrad", "Optimizer.step", "torch/optim/")
_LINKS: Final = ("fwdbwd", "forward_backward")
_BACKWARD_KERNEL: Final = re.compile(r"backward|_bwd_|fusedadam|fused_adam|fusedsgd", re.IGNORECASE)
_BACKWARD_KERNELS: Final = ("ackward", "_bwd_", "dam", "SGD", "Sgd")
"""In names of kernels: of a step that is replayed as a graph nothing else is recorded."""

Use = Literal["compiled", "graphs"]

_COMPILED: Final = re.compile(r"Torch-Compiled Region|CompiledFxGraph")
_KERNEL: Final = re.compile(
    r"triton_(?:poi|per|red|tem|mm|bmm|convolution|unk|for|spl|fused)_\w*|triton__(?:\d+(?:de|d|c))+\d*"
    r"|(?:graph_\d+_)?cpp_(?:fused|Cpp)\w*|multi_kernel_\d+"
)
_MAX_NAME_CHARACTERS: Final = 1000
_FUSED_NAME: Final = re.compile(r"(?:graph_\d+_)?(?:triton|cpp)_(?:[a-z]+_)?fused_(.+?)_\d+(?:[a-z]\w*)?")
COMPILED_WORDS: Final = ("triton_", "cpp_fused", "cpp_Cpp", "multi_kernel_")
"""Words of which the name of each kernel that Inductor generates has one."""
_GRAPH_LAUNCH: Final = re.compile(r"(?:cuda|hip|cu)GraphLaunch")


@derived
def program_kind(trace: Trace) -> ProgramKind:
    """The kind of program.

    Training: it has a backward pass or an optimizer. Serving: steps or functions of a serving engine. Inference:
    operators of torch, and none of a backward pass. Unknown: the recording has none of these.
    """
    if _trains(trace):
        return "training"
    ranges = (EventKind.ANNOTATION, EventKind.DEVICE_ANNOTATION)
    if rows_named(trace, lambda name: engine_of(name) is not None, *ranges, holding=STEP_WORDS).any():
        return "serving"
    if (rows_containing(trace, _FOLDERS, EventKind.PYTHON) & rows_containing(trace, (".py(",), EventKind.PYTHON)).any():
        return "serving"
    return "inference" if rows_beginning(trace, ("aten::",), EventKind.HOST_OP).any() else "unknown"


def _trains(trace: Trace) -> bool:
    calls = (EventKind.HOST_OP, EventKind.ANNOTATION, EventKind.PYTHON)
    return bool(
        rows_named(trace, lambda name: _BACKWARD.search(name) is not None, *calls, holding=_BACKWARD_WORDS).any()
        or rows_named(trace, _LINKS.__contains__, EventKind.FLOW_START).any()
        or rows_named(
            trace, lambda name: _BACKWARD_KERNEL.search(name) is not None, EventKind.KERNEL, holding=_BACKWARD_KERNELS
        ).any()
    )


def is_compiled_kernel(name: str) -> bool:
    """True if this is the name of a kernel that Inductor generates, for a device or in C++."""
    return _KERNEL.fullmatch(name) is not None


def operators_in_name(name: str) -> tuple[str, ...]:
    """The operators that the name of a generated kernel holds, in one text, as nothing parts them; () for none."""
    match = _FUSED_NAME.fullmatch(name) if len(name) <= _MAX_NAME_CHARACTERS else None
    return (match[1],) if match else ()


@derived
def optimizations_used(trace: Trace) -> frozenset[Use]:
    """Optimizations of the program that nobody needs to advise: compiled code, graphs."""
    compiled = rows_named(
        trace,
        lambda name: is_compiled_kernel(name) or _COMPILED.search(name) is not None,
        *(EventKind.HOST_OP, EventKind.ANNOTATION, EventKind.KERNEL, EventKind.PYTHON),
        holding=("Torch-Compiled Region", "CompiledFxGraph", *COMPILED_WORDS),
    )
    graphs = rows_named(
        trace, lambda name: _GRAPH_LAUNCH.match(name) is not None, EventKind.RUNTIME, holding=("GraphLaunch",)
    )
    is_used: dict[Use, bool] = {"compiled": bool(compiled.any()), "graphs": bool(graphs.any())}
    return frozenset(use for use in is_used if is_used[use])
