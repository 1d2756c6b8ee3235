"""What a trace may lack, and how it is recorded next time: one sentence for each, wherever it is said."""

from __future__ import annotations

from typing import Final, Literal

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
