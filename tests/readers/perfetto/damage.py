"""Damaged recordings, from seeds; `python -m tests.readers.perfetto.damage COUNT FIRST_SEED` reads as many."""

from __future__ import annotations

import random
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any, Final

from kinetoscope.errors import InputError
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.perfetto import reader
from tests.readers.perfetto.encoding import THREAD, begin, end, recording, varint

MOST_BYTES: Final = 64 << 20
"""What reading a damaged recording of a kilobyte may take."""

_MEASURED_EACH: Final = 10


def whole() -> bytes:
    """A recording with everything in it that is read."""
    specifications = [{"iid": 1, "name": "Kernel"}, {"iid": 9, "name": "stream 7"}]
    names = [{"iid": 1, "name": "gemm"}]
    keys = [{"iid": 1, "name": "correlation"}]
    counter = [{"iid": 1, "gpu_id": 3, "counter_descriptor": {"specs": [{"counter_id": 4, "name": "Power (W)"}]}}]
    tables: dict[str, Any] = {
        "event_names": names,
        "debug_annotation_names": keys,
        "gpu_specifications": specifications,
    }
    launch: dict[str, Any] = {
        "type": 1,
        "track_uuid": 2,
        "name_iid": 1,
        "debug_annotations": [{"name_iid": 1, "int_value": 5}],
    }
    launch["gpu_correlation"] = {"render_stage_submission_event_ids": [1]}
    stage: dict[str, Any] = {"event_id": 1, "duration": 9, "hw_queue_iid": 9, "stage_iid": 1, "name_iid": 1}
    stage |= {"extra_data": [{"name": "bytes", "value": "8"}], "launch": {"grid_size": {"x": 4}}}
    clocks = [{"clock_id": 6, "timestamp": 10}, {"clock_id": 1, "timestamp": 99}]
    clocks += [{"clock_id": 64, "timestamp": 1, "is_incremental": 1, "unit_multiplier_ns": 1000}]
    one = {"trusted_packet_sequence_id": 1}
    return recording(
        {"timestamp": 10, "clock_snapshot": {"clocks": clocks}} | one,
        *THREAD,
        {"sequence_flags": 1, "interned_data": tables | {"gpu_counter_descriptors": counter}} | one,
        {"timestamp": 12, "track_event": launch} | one,
        end(15),
        begin(16, "op", category="cpu_op", dims=[[1, 2], [3]], more={"a": 1.5, "b": True}),
        end(19),
        {"timestamp": 17, "gpu_render_stage_event": stage} | one,
        {
            "timestamp": 18,
            "gpu_counter_event": {"counter_descriptor_iid": 1, "counters": [{"counter_id": 4, "int_value": 7}]},
        }
        | one,
        {"timestamp": 3, "timestamp_clock_id": 64, "track_event": {"type": 3, "track_uuid": 2, "name": "mark"}} | one,
    )


def mutated(dice: random.Random, data: bytes) -> bytes:
    """The recording with one to eight things done to it."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(6):
            case 0:
                changed[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                changed[at : at + dice.randint(1, 20)] = b""
            case 2:
                changed[at:at] = dice.randbytes(dice.randint(1, 12))
            case 3:
                changed[at:at] = varint(dice.choice((0, 1 << 31, 1 << 62, 1 << 63, (1 << 64) - 1)))
            case 4:
                other = dice.randrange(len(data))
                changed[at:at] = data[other : other + dice.randint(1, 200)]
            case _ if at < len(changed):
                changed[at] ^= 1 << dice.randrange(8)
    return bytes(changed)


def damaged(count: int, first: int) -> int:
    """How many of so many damaged recordings are read, or refused in one line, in little memory."""
    good, data = 0, whole()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "damaged.pftrace"
        for seed in range(first, first + count):
            file.write_bytes(mutated(random.Random(seed), data))
            is_measured = seed % _MEASURED_EACH == 0
            if is_measured:
                tracemalloc.start()
            said = _read(file)
            most = tracemalloc.get_traced_memory()[1] if is_measured else 0
            tracemalloc.stop()
            assert "\n" not in said, (seed, said)
            assert most < MOST_BYTES, (seed, most)
            good += 1
    return good


def _read(file: Path) -> str:
    """Read all events; returns why it is refused."""
    try:
        trace = reader.load(Source(str(file), reader="perfetto"))
        [trace.event(row) for row in range(len(trace))]
    except InputError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    total, seed = int(sys.argv[1]), int(sys.argv[2])
    for done in range(0, total, 5_000):
        damaged(min(5_000, total - done), seed + done)
        sys.stdout.write(f"{min(done + 5_000, total):,} damaged recordings are read or refused\n")
        sys.stdout.flush()
