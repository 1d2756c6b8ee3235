"""A look at the events of a trace for what is odd: the part of its health that reading alone cannot tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kinetoscope.model import damage, omissions
from kinetoscope.model.device import device_work
from kinetoscope.model.health import Health, Symptom
from kinetoscope.model.trace import Trace

Check = Callable[[Trace], Iterator[Symptom]]

CHECKS: Final[tuple[Check, ...]] = (
    omissions.no_events,
    omissions.ended_early,
    damage.stray_times,
    damage.unknown_events,
    damage.impossible_durations,
    damage.negative_durations,
    damage.grid_of_times,
    damage.overlapping_work,
    damage.partial_overlap,
    damage.kernel_replay,
    damage.unlinked_work,
    damage.no_device_number,
    damage.graphs,
    damage.unfinished,
    omissions.captured_launches,
    omissions.work_from_before,
    omissions.no_device_work,
    omissions.no_steps,
    omissions.empty_step,
    omissions.no_distributed_info,
    omissions.recorder_messages,
    omissions.several_spans,
    omissions.python_export,
    omissions.no_shapes,
    omissions.no_stacks,
    omissions.no_memory,
)
"""Every check, in the order in which findings of one severity are told."""


def damage_of(trace: Trace) -> str:
    """That data was lost, and what may be missing because of that; "" where none was. Ask by `trace.of`."""
    found = Health(trace.reading).damage
    if found and not len(trace.of(device_work)):
        return f"{found} That no device work is seen may be because of that."
    return found


def examine(trace: Trace) -> Health:
    """All that is wrong or odd: what reading found, and what the checks find. Codes: `symptoms.SYMPTOMS`."""
    return Health.of(trace.reading, *(check(trace) for check in CHECKS))
