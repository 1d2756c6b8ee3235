"""A small training loop, drawn: what the tests of comparisons have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope.model.job import Job
from kinetoscope.reading import read
from tests.drawn import Event, annotation, kernel, launch, op, written

LENGTH = 1000


def loop(folder: Path, *steps: list[Event], name: str = "run", length: int = LENGTH, **top: object) -> Job:
    """A run of a step of `length` ns for each list of events, whose times count from the beginning of the step."""
    folder.mkdir(parents=True, exist_ok=True)
    events: list[Event] = []
    for number, inside in enumerate(steps):
        begin = number * length
        events.append(annotation(f"ProfilerStep#{number + 10}", begin, length))
        for each in inside:
            moved = {**each, "ts": each["ts"] + begin / 1000, "args": dict(each["args"])}
            if "correlation" in moved["args"]:
                moved["args"]["correlation"] += number * 100
            events.append(moved)
    return read(written(folder / f"{name}.pt.trace.json", *events, **top), jobs=1)


def call(
    name: str, start: int, length: int, kernel_name: str, at: int, duration: int, number: int, **args: Any
) -> list[Event]:
    """An operator with a launch in it, and the kernel that it launches."""
    return [
        op(name, start, length, **args),
        launch(start + 1, min(5, length - 2), number),
        kernel(kernel_name, at, duration, number),
    ]
