"""What a trace may lack, and how it is recorded next time: one sentence for each, wherever it is said."""

from __future__ import annotations

from typing import Final, Literal

from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

What = Literal["device work", "memory", "shapes", "Python calls", "call stacks", "modules", "counters"]

_SENTENCES: Final[dict[What, tuple[str, str]]] = {
    "device work": (
        "No device work was recorded",
        "ProfilerActivity.CUDA, XPU, … records it where there is a device",
    ),
    "memory": ("Memory was not recorded", "profile_memory=True records it"),
    "shapes": ("Input shapes were not recorded", "record_shapes=True records them"),
    "Python calls": ("Python calls were not recorded", "with_stack=True records them"),
    "call stacks": ("Call stacks were not recorded", "with_stack=True records them"),
    "modules": ("Modules were not recorded", "with_stack=True and with_modules=True record them in newer torch"),
    "counters": ("No hardware counters were recorded", "CUPTI's range profiler records them: profiler_metrics"),
}
"""That it is missing, and what records it."""


def unrecorded(what: What, consequence: str = "") -> str:
    """The sentence that says it, and what follows: `Memory was not recorded (…): its columns are empty`."""
    missing, remedy = _SENTENCES[what]
    return f"{missing} ({remedy})" + (f": {consequence}." if consequence else ".")


Option = Literal["record_shapes", "profile_memory", "with_stack"]

OPTIONS: Final[tuple[Option, ...]] = ("record_shapes", "profile_memory", "with_stack")
"""Options of torch.profiler that leave events or arguments behind."""


@derived
def recorded_options(trace: Trace) -> frozenset[Option]:
    """Which options of the profiler were on, by what they left in the trace.

    None of them is advised. `with_stack` leaves Python calls, or a stack with each operator (until torch 1.12).
    """
    ops = trace.rows(EventKind.HOST_OP)
    found: dict[Option, bool] = {
        "record_shapes": bool(arguments.has(trace, "input_dims", ops).any()),
        "profile_memory": bool(len(trace.rows(EventKind.MEMORY))),
        "with_stack": bool(len(trace.rows(EventKind.PYTHON)) or arguments.has(trace, "call_stack", ops).any()),
    }
    return frozenset(option for option in OPTIONS if found[option])
