"""Facts of the recording: those that our recorder left, options of the profiler, and what a trace may lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.strings import mapping
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

_KEY: Final = "kinetoscope"
_CPU_FACTS: Final = ("cores", "threads", "workers", "local_ranks")
_INTEGER_LIMIT: Final = 1 << 63
_MAX_REASON_LENGTH: Final = 160


@dataclass(frozen=True, slots=True)
class Recording:
    """Facts of the run that the recorder knew; unknown ones are empty.

    Attributes:
        run: name of the run.
        command: what was typed.
        commit, branch: of the checkout that the job ran in.
        versions: of Python, torch, frameworks, ..., by name.
        about: what the user gave: parameters, batch_size, precision; any JSON, nothing of it checked.
        samples: samples of each step, by its number, where the loop gave them.
        first_step, last_step: the steps that were recorded from start to end; None where unknown.
        cpu: cores that the rank could use, threads of torch, workers of its loaders, local_ranks on the machine; only
            those that are known.
        truncated: why the recording was ended early; "" if it was not.
        reason: why it was made: `schedule` of `kinetoscope record`, `trigger`, `profile` in the program, ...
    """

    run: str = ""
    command: tuple[str, ...] = ()
    commit: str = ""
    branch: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    samples: Mapping[int, int] = field(default_factory=dict)
    first_step: int | None = None
    last_step: int | None = None
    cpu: Mapping[str, int] = field(default_factory=dict)
    truncated: str = ""
    reason: str = ""


@derived
def recording(trace: Trace) -> Recording | None:
    """The facts of our recorder; None for a trace that it did not make. Facts of an unexpected kind are left out."""
    facts = trace.metadata.get(_KEY)
    if not isinstance(facts, dict):
        return None
    command, git = facts.get("command"), mapping(facts.get("git"))
    return Recording(
        run=_text(facts.get("run")),
        command=tuple(map(_text, command)) if isinstance(command, list) else (),
        commit=_text(git.get("commit")),
        branch=_text(git.get("branch")),
        versions={name: text for name, each in mapping(facts.get("versions")).items() if (text := _text(each))},
        about=mapping(facts.get("about")),
        samples=_samples(facts.get("steps")),
        first_step=_count(facts.get("first_step")),
        last_step=_count(facts.get("last_step"), least=-1),
        cpu={
            name: number for name in _CPU_FACTS if (number := _count(mapping(facts.get("cpu")).get(name))) is not None
        },
        truncated=" ".join(_text(facts.get("truncated")).split())[:_MAX_REASON_LENGTH],
        reason=_text(facts.get("reason")),
    )


def _samples(steps: Any) -> dict[int, int]:
    samples_of_step = {}
    for each in steps if isinstance(steps, list) else ():
        facts = mapping(each)
        step, samples = _count(facts.get("step")), _count(facts.get("samples"))
        if step is not None and samples is not None:
            samples_of_step[step] = samples
    return samples_of_step


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any, least: int = 0) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and least <= value < _INTEGER_LIMIT else None


# --- what a trace may lack

NO_TIMELINE: Final = "without_timeline"
"""The top-level key that marks a trace of sums: its value is the program that recorded them.

Its events have durations that add up to what was recorded, and times that say nothing.
"""


def has_timeline(trace: Trace) -> bool:
    """True if the times of its events say when they were."""
    return NO_TIMELINE not in trace.metadata


def no_timeline(trace: Trace) -> Note:
    """The note on a question that needs the times which a trace of sums lacks."""
    program = _text(trace.metadata.get(NO_TIMELINE))[:_MAX_REASON_LENGTH] or "The program that recorded it"
    said = f"{program} recorded sums, not when anything ran: what needs a timeline cannot be told."
    return Note("NO_TIMELINE", said)


Unrecorded = Literal[
    "device work",
    "operators",
    "memory",
    "memory snapshot",
    "shapes",
    "Python calls",
    "call stacks",
    "modules",
    "counters",
]

_SENTENCES: Final[dict[Unrecorded, tuple[str, str]]] = {
    "device work": (
        "No device work was recorded",
        "ProfilerActivity.CUDA, XPU, … records it where there is a device",
    ),
    "operators": ("No operators were recorded", "ProfilerActivity.CPU records them"),
    "memory": ("Memory was not recorded", "profile_memory=True records it"),
    "memory snapshot": (
        "No memory snapshot was recorded",
        "profile(..., memory_snapshot=True) records one",
    ),
    "shapes": ("Input shapes were not recorded", "record_shapes=True records them"),
    "Python calls": ("Python calls were not recorded", "with_stack=True records them"),
    "call stacks": ("Call stacks were not recorded", "with_stack=True records them"),
    "modules": ("Modules were not recorded", "with_stack=True and with_modules=True record them in newer torch"),
    "counters": ("No hardware counters were recorded", "CUPTI's range profiler records them: profiler_metrics"),
}
"""That it is missing, and what records it."""


def not_recorded(what: Unrecorded, consequence: str = "") -> Note:
    """The note that says it, and what follows: `Memory was not recorded (…): its columns are empty`."""
    missing, remedy = _SENTENCES[what]
    return Note("NOT_RECORDED", f"{missing} ({remedy})" + (f": {consequence}." if consequence else "."), about=what)


def shapes_not_recorded(trace: Trace, consequence: str = "") -> Note:
    """That shapes of inputs are missing: for want of operators, or of the option."""
    return not_recorded("shapes" if len(trace.rows(EventKind.HOST_OP)) else "operators", consequence)


_OTHER_PROGRAM: Final = "NO_TENSORS"
"""The code of the note by which a reader says, once, what a profiler of devices does not record of torch."""


def of_other_program(trace: Trace) -> bool:
    """True for a recording of another profiler than torch's: torch's options would not bring what it lacks."""
    return any(note.code == _OTHER_PROGRAM for note in trace.reading)


Option = Literal["record_shapes", "profile_memory", "with_stack"]

OPTIONS: Final[tuple[Option, ...]] = ("record_shapes", "profile_memory", "with_stack")
"""Options of torch.profiler that leave events or arguments behind."""


@derived
def recorded_options(trace: Trace) -> frozenset[Option]:
    """Options of the profiler that were on, by what they left in the trace.

    None of them is advised. `with_stack` leaves Python calls, or a stack with each operator (until torch 1.12).
    """
    ops = trace.rows(EventKind.HOST_OP)
    is_on: dict[Option, bool] = {
        "record_shapes": bool(arguments.has(trace, "input_dims", ops).any()),
        "profile_memory": bool(len(trace.rows(EventKind.MEMORY))),
        "with_stack": bool(len(trace.rows(EventKind.PYTHON)) or arguments.has(trace, "call_stack", ops).any()),
    }
    return frozenset(option for option in OPTIONS if is_on[option])
