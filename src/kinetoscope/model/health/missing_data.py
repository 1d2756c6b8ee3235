"""Checks of missing data: what a trace lacks, and the questions that stay open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import is_collective_range, is_mark
from kinetoscope.model.execution.program import program_kind
from kinetoscope.model.execution.work_before import notes_of_earlier_work
from kinetoscope.model.graphs.lost_work import captured
from kinetoscope.model.health.recording_kinds import recording_kinds
from kinetoscope.model.steps.steps import is_delayed, is_last_empty, steps
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.recording import of_other_program, recorded_options, recording
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note, Severity

_RECORDER: Final[dict[str, tuple[Severity, str]]] = {
    "ERROR": ("warning", "error"),
    "WARNING": ("warning", "warning"),
    "INFO": ("note", "message"),
}
"""Top-level lists in which Kineto left its log until 2026."""

_MAX_QUOTE_LENGTH: Final = 160


def no_events(trace: Trace) -> Iterator[Note]:
    """A trace without events, or with nothing but names of threads and marks of steps."""
    events = np.isin(trace.kind, (EventKind.METADATA, EventKind.SPAN, EventKind.INSTANT), invert=True)
    if not events.any():
        yield Note("NO_EVENTS", "The trace holds no events: nothing was active while it was recorded.", "warning")
    elif not (events & ~is_mark(trace)).any():
        message = "The trace holds marks of steps and no call: torch.profiler records the thread that starts it, and "
        yield Note("NO_EVENTS", message + "another one computes (record it with all_threads), or none.", "warning")


def ended_early(trace: Trace) -> Iterator[Note]:
    """A recording that our recorder ended early."""
    known = recording(trace)
    if known is not None and known.truncated:
        if known.first_step is None or known.last_step is None:  # another process finished the file
            rest = "whether its last step is cut off is not known"
        elif known.first_step <= known.last_step:
            rest = "the step that ran then is cut off and counts as none"
        else:
            rest = "it holds no step from start to end"
        yield Note("ENDED_EARLY", f"The recording was ended early ({known.truncated}): {rest}.", "warning")


def no_device_work(trace: Trace) -> Iterator[Note]:
    """A trace without kernels and copies."""
    if len(device_work(trace)):
        return
    kinds = {each.kind: each.count for each in recording_kinds(trace)}
    if count := kinds.get("lost device work"):
        which = "The only launch has" if count == 1 else f"None of {count:,} launches has"
        no = "no " if count == 1 else "a "
        message = (
            f"{which} {no}recorded kernel: the recorder lost the device's work; a driver or permissions may be why."
        )
        yield Note("LAUNCHES_WITHOUT_WORK", message, "warning", count)
    elif "cut off" in kinds:
        yield Note("NO_DEVICE_WORK", "No device work is in what is left of the file.")
    elif "autograd profiler" in kinds:
        message = (
            "torch's profiler before Kineto wrote the file: its spans of devices are whole operators, and not read."
        )
        yield Note("NO_DEVICE_WORK", message)
    else:
        message = "No device work was recorded: a run on the host, or ProfilerActivity.CUDA (XPU, …) was not asked for."
        yield Note("NO_DEVICE_WORK", message)


def no_operators(trace: Trace) -> Iterator[Note]:
    """Device work and the calls that launch it, and none of torch's operators."""
    count = next((each.count for each in recording_kinds(trace) if each.kind == "no operators"), 0)
    if count:
        message = f"No operator was recorded, only {number_of(count, 'call')} of the runtime and device work: nothing "
        remedy = (
            "have torch mark them as ranges" if of_other_program(trace) else "record with ProfilerActivity.CPU, too"
        )
        yield Note("NO_OPERATORS", f"{message}counts to an operator; {remedy}.")


def no_steps(trace: Trace) -> Iterator[Note]:
    """A trace without steps of the profiler."""
    every = steps(trace, None)
    if every.origin != "profiler":
        is_server = program_kind(trace) == "serving"  # its loop is the engine's, which calls no prof.step()
        call = "Push a range around each step" if of_other_program(trace) else "Call prof.step() in the loop"
        loop = "" if is_server else f"{call}, or name an annotation with --steps-by."
        yield Note("NO_STEPS", f"{every.note} {loop or 'Other annotations are steps with --steps-by.'}")


def work_from_before(trace: Trace) -> Iterator[Note]:
    """Work from before the recording, which kept devices busy at its beginning."""
    if is_delayed(trace, steps(trace, None)):
        yield from notes_of_earlier_work(trace)


def captured_launches(trace: Trace) -> Iterator[Note]:
    """Calls between the begin and the end of a capture."""
    count = int(captured(trace).sum())
    if count:
        message = (
            f"{number_of(count, 'launch call was', 'launch calls were')} captured into a graph: nothing ran then, and "
        )
        yield Note("CAPTURED", f"{message}they count as no launches.", "note", count)


def empty_step(trace: Trace) -> Iterator[Note]:
    """`prof.step()` after the last iteration."""
    if is_last_empty(trace, None):
        last = steps(trace, None).number[-1]
        message = (
            f"No operator runs in the last step ({last}), as where prof.step() is called after the last"
            " iteration, too: means over all steps count it, those over the steady steps (--steps steady) do not."
        )
        yield Note("EMPTY_STEP", message)


def no_shapes(trace: Trace) -> Iterator[Note]:
    """Operators without shapes of inputs."""
    rows = trace.rows(EventKind.HOST_OP)
    if len(rows) and "record_shapes" not in recorded_options(trace) and not of_other_program(trace):
        message = f"None of {len(rows):,} operators has the shapes of its inputs: no grouping by shape and no FLOPs; "
        yield Note("NO_SHAPES", message + "record with record_shapes=True.", "note", len(rows))


def no_stacks(trace: Trace) -> Iterator[Note]:
    """A trace without Python calls and stacks of operators."""
    rows = trace.rows(EventKind.HOST_OP)
    if len(rows) and "with_stack" not in recorded_options(trace) and not of_other_program(trace):
        message = "No Python stacks were recorded: operators cannot be traced to source lines and modules; "
        yield Note("NO_STACKS", message + "record with with_stack=True, which costs time.", "note", len(rows))


def no_memory(trace: Trace) -> Iterator[Note]:
    """A trace without memory events, or without their addresses."""
    rows = trace.rows(EventKind.MEMORY)
    if trace.source.files("snapshot") and not arguments.has(trace, "address", rows).any():
        return  # the snapshot has the answers
    if of_other_program(trace) and not len(rows):
        return
    if not len(rows):
        message = "No memory events were recorded: no memory curve, peak or growth; record with profile_memory=True."
        yield Note("NO_MEMORY", message)
    elif not arguments.has(trace, "address", rows).any():
        message = f"None of {len(rows):,} memory events has an address: allocations and frees cannot be paired."
        yield Note("NO_ADDRESSES", message, "note", len(rows))


def no_distributed_info(trace: Trace) -> Iterator[Note]:
    """Collectives, in a file that does not say its rank."""
    info = trace.metadata.get("distributedInfo")
    if isinstance(info, dict) and "rank" in info:
        return
    on_device = int(np.count_nonzero(device_work(trace).of(WorkKind.COMMUNICATION)))
    is_collective = is_collective_range(trace)
    count = max(on_device, int(np.count_nonzero(is_collective)))
    if count:
        occur = number_of(count, "collective occurs", "collectives occur")
        message = f"{occur}, but the file does not say its rank: it is taken from the file's name or place"
        if of_other_program(trace):
            yield Note("NO_DISTRIBUTED_INFO", f"{message}.", "note", count)
        else:
            message += "; start recording after init_process_group."
            yield Note("NO_DISTRIBUTED_INFO", message, "warning", count)


def several_spans(trace: Trace) -> Iterator[Note]:
    """More than one recording in one file, as profilers inside the profiler leave."""
    rows = trace.rows(EventKind.SPAN)
    if len(rows) > 1:
        names = ", ".join(dict.fromkeys(trace.strings.labels(trace.name[rows].tolist())))
        message = f"The file holds {len(rows)} recordings ({_shortened(names)}); the window reaches over all of them."
        yield Note("SEVERAL_SPANS", message, "note", len(rows))


def python_export(trace: Trace) -> Iterator[Note]:
    """Instants of memory that are spans: how torch's Python exporter writes them."""
    count = int(np.count_nonzero((trace.kind == EventKind.MEMORY) & (trace.ph == ord("X"))))
    if count:
        message = "torch's Python exporter wrote the file: names of threads, versions and the trace id are not in it."
        yield Note("PYTHON_EXPORT", message, "note", count)


def recorder_messages(trace: Trace) -> Iterator[Note]:
    """Messages that Kineto logged while it recorded."""
    for key, (severity, word) in _RECORDER.items():
        logged = trace.metadata.get(key)
        messages = logged if isinstance(logged, list) else [logged] if isinstance(logged, str) else []
        if messages:
            count = len(messages)
            text = f"The recorder left {number_of(count, word)}, the first: {_shortened(str(messages[0]))}"
            yield Note(f"RECORDER_{key}", text, severity, count)


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_QUOTE_LENGTH else text[: _MAX_QUOTE_LENGTH - 1] + "…"
