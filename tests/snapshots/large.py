"""Snapshots of any size: one training step, which leaves the allocator unchanged, is written many times.

What varies from step to step (times, and places in the pickle's memo) is patched into the bytes of one step, so that a
gigabyte takes seconds and no memory. Loaded, it is what a process that ran as many steps would have written.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training

PythonPickler: Any = vars(pickle)["_Pickler"]
"""The pickler written in Python, of which parts can be called."""

WARM_STEPS = 3
BATCH = 1000
TIME_BYTES = 7


class Time(int):
    """A time, whose place in the file is remembered."""


class StepPickler(PythonPickler):  # type: ignore[misc]
    """Pickles piece by piece; remembers where times stand, and references to what the current piece memoized."""

    dispatch: ClassVar = dict(PythonPickler.dispatch)

    def __init__(self, protocol: int) -> None:
        self.buffer = io.BytesIO()
        super().__init__(self.buffer, protocol)
        self.count = 0
        self.begin()

    def begin(self) -> None:
        self.buffer.seek(0)
        self.buffer.truncate()
        self.first = self.count
        self.times: list[int] = []
        self.references: list[int] = []

    def memoize(self, obj: object) -> None:
        self.write(pickle.MEMOIZE)
        self.memo[id(obj)] = self.count, obj
        self.count += 1

    def get(self, i: int) -> bytes:
        if i >= self.first:
            self.references.append(self.buffer.tell() + 1)
            return b"j" + struct.pack("<I", i)
        return super().get(i)  # type: ignore[no-any-return]

    def save_time(self, time: Time) -> None:
        self.write(b"\x8a" + bytes([TIME_BYTES]))
        self.times.append(self.buffer.tell())
        self.write(int(time).to_bytes(TIME_BYTES, "little"))

    dispatch[Time] = save_time

    def save_batches(self, items: Iterable[object]) -> None:
        """Items of a list that is already open."""
        waiting = list(items)
        for start in range(0, len(waiting), BATCH):
            self.write(b"(")
            for item in waiting[start : start + BATCH]:
                self.save(item)
            self.write(b"e")


class Repeated:
    """The bytes of a piece of the file and how they change from one time to the next."""

    def __init__(self, pickler: StepPickler, items: list[dict[str, Any]], step_us: int) -> None:
        pickler.begin()
        pickler.save_batches(items)
        self.memoized = pickler.count - pickler.first
        self.bytes = np.frombuffer(pickler.buffer.getvalue(), np.uint8).copy()
        self.step_us = step_us
        self.times = self._places(pickler.times, TIME_BYTES)
        self.references = self._places(pickler.references, 4)
        self.first_times = self._values(self.times)
        self.first_references = self._values(self.references)

    @staticmethod
    def _places(starts: list[int], width: int) -> np.ndarray[Any, Any]:
        return np.array(starts, np.int64)[:, None] + np.arange(width)

    def _values(self, places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        wide = np.zeros((len(places), 8), np.uint8)
        wide[:, : places.shape[1]] = self.bytes[places]
        return wide.view(np.int64)[:, 0]

    def again(self, times: int) -> Iterator[bytes]:
        """The bytes of each repetition."""
        for number in range(times):
            for places, first, step in (
                (self.times, self.first_times, self.step_us),
                (self.references, self.first_references, self.memoized),
            ):
                values = (first + number * step).view(np.uint8).reshape(-1, 8)
                self.bytes[places] = values[:, : places.shape[1]]
            yield self.bytes.tobytes()


def steady(layers: int = 24, stacks: str = "python", **settings: Any) -> Training:
    """A training job, recorded from its start until each step leaves the allocator unchanged."""
    process = Process(stacks=stacks, **settings)
    process.record()
    training = Training(process, Model(layers=layers))
    training.build()
    training.run(WARM_STEPS)
    return training


def write_large(path: Path, events: int, protocol: int = 4, training: Training | None = None) -> int:
    """Writes a file with at least this many events, and returns their number."""
    training = training or steady()
    process = training.process
    (allocator,) = process.allocators
    begin, notes, start, state = len(allocator.history), len(process.annotations), process.now, allocator.state()
    training.train_step()
    assert allocator.state() == state, "not steady"
    step_us = process.now - start
    snapshot = process.snapshot()
    trace = [_fresh(event) for event in snapshot["device_traces"][0]]
    annotations = [{**each, "time_us": Time(each["time_us"])} for each in snapshot["external_annotations"]]
    times = max(1, -(-(events - begin) // (len(trace) - begin)))
    with path.open("wb") as file:
        _write(
            file,
            protocol,
            snapshot,
            (trace[:begin], trace[begin:]),
            (annotations[:notes], annotations[notes:]),
            step_us,
            times,
        )
    return begin + times * (len(trace) - begin)


def _fresh(event: dict[str, Any]) -> dict[str, Any]:
    """An event with its own text of `compile_context`, which torch makes anew each time."""
    return {**event, "time_us": Time(event["time_us"]), "compile_context": "".join(("N", "/A"))}


def _write(
    file: BinaryIO,
    protocol: int,
    snapshot: dict[str, Any],
    trace: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    annotations: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    step_us: int,
    times: int,
) -> None:
    pickler = StepPickler(protocol)
    lists: list[list[object]] = [[], [], []]
    file.write(bytes([0x80, protocol]))

    def flush() -> None:
        frame(pickler.buffer.getvalue())
        pickler.begin()

    def frame(data: bytes) -> None:
        file.write(b"\x95" + struct.pack("<Q", len(data)) + data)

    def repeat(piece: list[dict[str, Any]]) -> None:
        repeated = Repeated(pickler, piece, step_us)
        for data in repeated.again(times):
            frame(data)
        pickler.count += repeated.memoized * (times - 1)
        pickler.begin()

    pickler.write(b"}")
    pickler.memoize(snapshot)
    pickler.write(b"(")
    pickler.save("segments")
    pickler.save(snapshot["segments"])
    pickler.save("device_traces")
    for each in lists[:2]:
        pickler.write(b"]")
        pickler.memoize(each)
    pickler.save_batches(trace[0])
    flush()
    repeat(trace[1])
    pickler.write(b"a")
    pickler.save("allocator_settings")
    pickler.save(snapshot["allocator_settings"])
    pickler.save("external_annotations")
    pickler.write(b"]")
    pickler.memoize(lists[2])
    pickler.save_batches(annotations[0])
    flush()
    repeat(annotations[1])
    pickler.write(b"u.")
    flush()
