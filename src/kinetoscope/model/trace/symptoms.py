"""The health of a trace: notes on what is wrong or odd about it, its symptoms, and what their codes mean."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kinetoscope.notes import Note, Severity

DAMAGED: Final = "DAMAGED"
"""Code of the note that data was lost; faces put it first."""

_NOTABLE_LOSS_SHARE: Final = 0.005
"""Share of a file from which its loss is given as a number."""

_SEVERITY_ORDER: dict[str, int] = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Health:
    """All symptoms of a trace, worst first."""

    symptoms: tuple[Note, ...] = ()

    @classmethod
    def of(cls, *groups: Iterable[Note]) -> Health:
        """The symptoms of all groups, sorted by severity and otherwise in the order given."""
        symptoms = [symptom for group in groups for symptom in group]
        return cls(tuple(sorted(symptoms, key=lambda symptom: _SEVERITY_ORDER[symptom.severity])))

    def __iter__(self) -> Iterator[Note]:
        return iter(self.symptoms)

    def __len__(self) -> int:
        return len(self.symptoms)

    def __contains__(self, code: object) -> bool:
        return any(symptom.code == code for symptom in self.symptoms)

    def __getitem__(self, code: str) -> Note:
        for symptom in self.symptoms:
            if symptom.code == code:
                return symptom
        raise KeyError(code)

    @property
    def damage(self) -> Note | None:
        """The note that data was lost, and how much; None where none was."""
        lost = [
            symptom for symptom in self.symptoms if symptom.severity == "error" or symptom.lost >= _NOTABLE_LOSS_SHARE
        ]
        if not lost:
            return None
        share = 1 - math.prod(1 - symptom.lost for symptom in lost)
        if share >= _NOTABLE_LOSS_SHARE:
            percent = min(max(round(100 * share), 1), 99)
            return Note(DAMAGED, f"This file is damaged: {percent}% of it could not be read.", "error")
        ends = any(symptom.code in ("STREAM", "TRUNCATED") for symptom in lost)
        what = "it ends early, and how much is missing is unknown" if ends else "events are lost"
        return Note(DAMAGED, f"This file is damaged: {what}.", "error")

    @property
    def worst(self) -> Severity | None:
        """Severity of the first symptom; None when there is none."""
        return self.symptoms[0].severity if self.symptoms else None


SYMPTOMS: Final[dict[str, str]] = {
    # the file
    "UNREADABLE": "The file cannot be read at all; the other ranks are.",
    "STREAM": "Decompression failed or the file ended early; what came before is kept.",
    "TRUNCATED": "The text ends before the trace does: the process was killed while it wrote, or the disk was full.",
    "REPAIRED": "Some events were broken JSON, as torch writes for names with quotation marks; they were repaired.",
    "LOST": "Some events could not be repaired and are left out.",
    "RUBBISH": "Text between events that is no JSON, such as lines of a log, is left out.",
    "REPAIRED_METADATA": "Values beside the events, as add_metadata writes them, were broken JSON and were repaired.",
    "ODD_COMMAS": "Commas between events are missing or doubled; no event is lost by it.",
    "SEVERAL_LISTS": "The file has several lists of events, which are read as one.",
    "NOT_EVENTS": "Some elements of the list of events are no objects; they are kept, and are no events of any kind.",
    "LONG_INTEGERS": "Integers have more than 4,300 digits, which Python does not convert; each is kept as text.",
    "UNPAIRED_EVENTS": "Events begin or end a span (phases B and E) whose other end is not there.",
    "UNKNOWN_EVENTS": "Events have a category or phase that Kinetoscope does not know: no question counts them.",
    "EMPTY_KEYS": "Counters have their values under an empty key, as torch writes them since 2.13; they are read.",
    "BARE_WORDS": "Values are words that JSON does not know, such as nan or inf; they are kept.",
    "TRAILING": "The file goes on after the end of the trace; that part is ignored.",
    "CONTROL_CHARACTERS": "Strings hold control characters; they are kept.",
    "BAD_UTF8": "Strings are not valid UTF-8; what is not valid is shown as a replacement character.",
    "LONE_BACKSLASH": "Strings hold backslashes that escape nothing, such as Windows paths; each is kept as it is.",
    "SYNONYMS": "One string is spelled in several ways, with and without escapes; they are taken as one.",
    "PYTHON_EXPORT": "torch's Python exporter wrote the file, which leaves out names of threads and versions.",
    "RECORDER_ERROR": "The recorder itself reported errors: activities may be missing.",
    "RECORDER_WARNING": "The recorder itself reported warnings.",
    "RECORDER_INFO": "The recorder left messages.",
    # times
    "ROUNDED_TIMES": "Times with more than three decimals of a microsecond were rounded to the nanosecond.",
    "IMPOSSIBLE_TIMES": "Times are no number, or lie over 142 years away: such events have none and are left out.",
    "STRAY_TIMES": "Events lie over a day from all others, or have no possible time: left out of all questions.",
    "WHOLE_MICROSECONDS": "Times are whole microseconds, as all were before 2024: short work seems to take no time.",
    "COARSE_TIMES": "Times passed through floating-point numbers and lie on a grid; neighbours overlap falsely.",
    "NEGATIVE_DURATIONS": "Events end before they start; they count as empty.",
    "IMPOSSIBLE_DURATIONS": "Events last longer than the recording, from counters that overflowed: sums are wrong.",
    "OVERLAPPING_WORK": "Work on one stream overlaps, which a stream does not do: sums of durations count time twice.",
    "PARTIAL_OVERLAP": "Calls on one thread overlap without one lying inside the other; the shorter piece is cut off.",
    "UNFINISHED": "Spans were open when the recording ended and are cut off there.",
    "KERNEL_REPLAY": "Kernels were run several times to read hardware counters: times are not those of a normal run.",
    # links
    "UNLINKED_WORK": "Device work has no recorded launch, mostly because it was launched before the recording.",
    "NO_CORRELATION": "Device work carries no correlation ids: none can be linked to its launch.",
    "LOST_AT_START": "The first launches have no recorded work: the profiler dropped what came before its window.",
    "LAUNCHES_WITHOUT_WORK": "Launches have no recorded work, though others have, or none has: records were lost.",
    "PARTIAL_REPLAYS": "Replays of a graph lack nodes that other replays of the graph have: records were lost.",
    "LOST_AT_END": "The last launches have no recorded work: it ran after the recording ended.",
    "WORK_BEFORE_LAUNCH": "Device work starts before the call that launched it: clocks of host and device disagree.",
    "NO_DEVICE_PART": "Ranges lack the part on the device that others of the same name have: records were dropped.",
    "NO_DEVICE_NUMBER": "Device work does not say on which device it ran.",
    "GRAPHS": "Graphs were launched: one call started many kernels, which are linked to it and not to operators.",
    "GAPS_IN_REPLAYS": "Devices idle longer than they need between kernels of replays: the recording may do it.",
    "SEVERAL_SPANS": "The file holds several recordings; the window reaches over all of them.",
    "CAPTURED": "A graph was captured: launch calls that became part of it started no work, and count as none.",
    # what is not there
    "WORK_BEFORE": "Devices were busy with work from before the recording until their first recorded work started.",
    "ENDED_EARLY": "The recording was ended before its last step was: that step is cut off and counts as none.",
    "NO_EVENTS": "The trace holds no call: nothing ran on the recorded threads, or the schedule never became active.",
    "NO_DEVICE_WORK": "No device work was recorded: a host-only run, or device activities were not asked for.",
    "NO_OPERATORS": "No operators were recorded, only calls of the runtime and device work: ask for the CPU, too.",
    "NO_STEPS": "No steps are marked; they are proposed from what repeats, or the whole window is one.",
    "EMPTY_STEP": "No operator runs in a short last step: `prof.step()` was called after the last iteration, too.",
    "NO_SHAPES": "No shapes of inputs were recorded: no grouping by shape, no FLOPs.",
    "NO_STACKS": "No Python stacks were recorded: nothing can be traced to source lines or modules.",
    "NO_MEMORY": "No memory events were recorded: no memory curve, peak or growth.",
    "SNAPSHOT_UNREADABLE": "A memory snapshot of the rank cannot be read.",
    "SNAPSHOT_WITHOUT_HISTORY": "The memory snapshot has no history: only what was in use when it was taken is known.",
    "SNAPSHOT_TRUNCATED": "The history of the memory snapshot was full: its oldest events were overwritten.",
    "SNAPSHOT_WITHOUT_STACKS": "Most of what the memory snapshot has in use has no stack: allocated earlier.",
    "SNAPSHOT_ODD_EVENTS": "Events of the memory snapshot have values that cannot be, and are left out, or those are.",
    "SNAPSHOT_CONTRADICTS": "Events of the memory snapshot contradict its state, or more is in use than reserved.",
    "SNAPSHOT_APART": "The memory snapshot and the trace share no instant: they are of different times or runs.",
    "NO_ADDRESSES": "Memory events carry no addresses: allocations and frees cannot be paired.",
    "NO_DISTRIBUTED_INFO": "Collectives occur, but the file does not say its rank and world size.",
}
"""Every code that a symptom can have, and what it means."""
