"""The records of a rank's memory: those of its snapshot, and what only the trace has."""

from __future__ import annotations

from collections.abc import Collection

from kinetoscope.model.memory.allocator import CUDA, memory_instants
from kinetoscope.model.memory.category_series import series_of
from kinetoscope.model.memory.record import CategoryRecord, MemoryRecord
from kinetoscope.model.memory_records.of_snapshot import SnapshotRecord
from kinetoscope.model.memory_records.of_trace import SeriesRecord, TraceRecord
from kinetoscope.model.snapshot.replay import histories
from kinetoscope.model.steps.scope import Scope


def memory_records(view: Scope, chosen: Collection[int] | None) -> list[MemoryRecord]:
    """The records of the chosen devices (None: all), the host last: a snapshot's of those that it has.

    Where nothing of such a device is selected in the snapshot, and the trace has it, too, it is the trace's.
    """
    trace = view.trace
    devices = memory_instants(trace).devices
    of_snapshots = [
        record
        for record in (SnapshotRecord(trace, past) for past in histories(trace))
        if (CUDA, record.past.device) not in devices or len(record.selected(view))
    ]
    pairs = {(CUDA, record.past.device) for record in of_snapshots}
    return [
        *(record for record in of_snapshots if chosen is None or record.past.device in chosen),
        *(
            TraceRecord(trace, place)
            for place, pair in enumerate(devices)
            if pair not in pairs and (chosen is None or pair[1] in chosen)
        ),
    ]


def category_records(view: Scope, chosen: Collection[int] | None) -> list[CategoryRecord]:
    """These records, and the series of a file of `export_memory_timeline`."""
    series = series_of(view.trace)
    return [*([] if series is None else [SeriesRecord(view.trace, series)]), *memory_records(view, chosen)]
