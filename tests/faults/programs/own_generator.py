# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Batches come from a generator of the user's own, which makes them on demand."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.faults.programs.parts import Batch, perceptron, training, vectors

CODE, NAME, STEPS, STACKS = "HOST008", "own generator of batches", 16, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """A thread makes batches ahead."""
    plain = made()
    yield training(perceptron(512), ahead(plain) if fixed else plain)


def made() -> Iterator[Batch]:
    """Each batch takes its time."""
    for batch in vectors(64):
        time.sleep(0.008)
        yield batch


def ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same, made by two threads."""
    ready: queue.Queue[Batch] = queue.Queue(8)

    def make() -> None:
        for batch in made():
            ready.put(batch)

    for _ in range(4):
        threading.Thread(target=make, daemon=True).start()
    while True:
        yield ready.get()
