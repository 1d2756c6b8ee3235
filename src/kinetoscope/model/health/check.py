"""Checks of the events of a trace: symptoms that reading alone does not see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kinetoscope.model.health import data_quality, flight_recorder, lost_records, missing_data, snapshots
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.recording import has_timeline
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

Check = Callable[[Trace], Iterator[Note]]

CHECKS: Final[tuple[Check, ...]] = (
    missing_data.no_events,
    missing_data.ended_early,
    data_quality.stray_times,
    data_quality.unknown_events,
    data_quality.empty_keys,
    data_quality.impossible_durations,
    data_quality.negative_durations,
    data_quality.grid_of_times,
    data_quality.overlapping_work,
    data_quality.partial_overlap,
    data_quality.kernel_replay,
    data_quality.unlinked_work,
    lost_records.lost_launches,
    lost_records.partial_replays,
    lost_records.lost_at_end,
    lost_records.work_before_launch,
    lost_records.ranges_without_device_part,
    data_quality.no_device_number,
    data_quality.graphs,
    data_quality.gaps_in_replays,
    data_quality.unfinished,
    missing_data.captured_launches,
    missing_data.work_from_before,
    missing_data.no_device_work,
    missing_data.no_operators,
    missing_data.no_steps,
    missing_data.empty_step,
    missing_data.no_distributed_info,
    missing_data.recorder_messages,
    missing_data.several_spans,
    missing_data.python_export,
    missing_data.no_shapes,
    missing_data.no_stacks,
    missing_data.no_memory,
    snapshots.memory_snapshot,
    flight_recorder.flight_recorder,
    flight_recorder.host_files,
)
"""Every check, in the order of symptoms of one severity."""


@derived
def examine(trace: Trace) -> Health:
    """All symptoms of a trace, of reading and of the checks. `docs/reading-traces.md` lists their codes."""
    checks = CHECKS
    if trace.source.is_snapshot:
        checks = (snapshots.memory_snapshot,)
    elif trace.source.is_dump:
        checks = (flight_recorder.flight_recorder, flight_recorder.host_files)
    elif trace.source.is_of_host:
        checks = (flight_recorder.host_files,)
    elif trace.source.is_history:
        checks = ()
    elif not has_timeline(trace):
        checks = (missing_data.no_events, missing_data.no_device_work)
    return Health.of(trace.reading, *(check(trace) for check in checks))
