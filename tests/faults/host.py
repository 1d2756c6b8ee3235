"""The host of a simulated program: one clock, calls that nest, and what a profiler writes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

Event = dict[str, Any]

MAIN: Final = 4242
"""Process, and thread, that the program runs in."""

AUTOGRAD: Final = 4297
"""Thread that the backward pass runs in on programs with a device."""

_STACK_US: Final = 90.0
"""What anomaly detection takes to write the stack of a node."""

_HANDOVER: Final = 15.0
"""us from one thread to the other."""


def ns(us: float) -> int:
    """Microseconds as whole nanoseconds."""
    return round(us * 1000)


@dataclass
class Host:
    """What the threads of the program's process do. They never run at once, so one clock is enough.

    Attributes:
        seed: of everything that is drawn.
        noise: relative spread of each time.
        preempted: times a second that another process gets the core, for 1 to 6 ms.
        stacks: Python calls are recorded.
        now: the clock, ns.
        events: what was recorded so far.
        recording: whether anything is.
        anomaly: autograd's anomaly detection is on: each node keeps a stack, and its gradients are looked at.
    """

    seed: int = 1
    noise: float = 0.02
    preempted: float = 0.0
    stacks: bool = False
    shapes: bool = True
    anomaly: bool = False
    now: int = field(default=10_000_000, init=False)
    events: list[Event] = field(default_factory=list, init=False)
    recording: bool = field(default=False, init=False)
    thread: int = field(default=MAIN, init=False)
    _ids: int = field(default=0, init=False)
    _around: list[int] = field(default_factory=list, init=False)
    _frames: list[int] = field(default_factory=list, init=False)
    _tape: list[tuple[int, int, int]] = field(default_factory=list, init=False)
    _sequence: int = field(default=100, init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._machine = random.Random(self.seed)

    # --- time

    def drawn(self, us: float) -> int:
        """How long something takes this time, ns: two parts in a thousand of it at the least."""
        took = ns(us * max(1 + self.noise * self.random.gauss(0, 1), 0.002))
        if self.preempted and self._machine.random() < took * 1e-9 * self.preempted:
            took += ns(self._machine.uniform(1000, 6000))
        return took

    def host(self, us: float) -> None:
        """The thread computes; nothing says what."""
        self.now += self.drawn(us)

    def wait(self, us: float) -> None:
        """The thread sleeps, or waits for what nobody sees."""
        self.now += self.drawn(us)

    # --- calls

    def number(self) -> int:
        """A new one, of an event or a correlation."""
        self._ids += 1
        return self._ids

    @property
    def external(self) -> int:
        """The number of the innermost operator or annotation; 0 for none."""
        return self._around[-1] if self._around else 0

    def record(
        self, category: str, name: str, start: int, end: int, *, pid: int = MAIN, tid: int = 0, **args: Any
    ) -> None:
        """An event that is over."""
        if self.recording:
            place = {"pid": pid, "tid": tid or self.thread, "ts": start, "dur": end - start}
            self.events.append({"ph": "X", "cat": category, "name": name, **place, "args": args})

    @contextmanager
    def _call(self, category: str, name: str, **args: Any) -> Iterator[None]:
        number, start = self.number(), self.now
        self._around.append(number)
        place = len(self.events)
        try:
            yield
        finally:
            self._around.pop()
            self.record(category, name, start, self.now, **{"External id": number, "Record function id": 0, **args})
            if self.recording:  # events stand in the order of their starts, as Kineto writes them
                self.events.insert(place, self.events.pop())

    @contextmanager
    def op(
        self,
        name: str,
        us: float = 2.0,
        *,
        shapes: Sequence[Sequence[int]] = (),
        types: Sequence[str] = (),
        concrete: Sequence[str] = (),
        strides: Sequence[Sequence[int]] = (),
        grad: str = "",
        **args: Any,
    ) -> Iterator[None]:
        """An operator around what is asked inside; it takes `us` of its own before that.

        grad: the name of its backward node, such as "MmBackward0", which `grad()` then takes from the tape.
        """
        if self.shapes and shapes:
            args["Concrete Inputs"] = list(concrete) or [""] * len(shapes)
            args["Input type"] = list(types) or ["float"] * len(shapes)
            args["Input Strides"] = [list(each) for each in strides] or [contiguous(each) for each in shapes]
            args["Input Dims"] = [list(each) for each in shapes]
        if grad:
            self._sequence += 1
            args["Sequence number"] = self._sequence
            args["Fwd thread id"] = 0
            self._tape.append((self._sequence, self.now, self.thread))
        keeps = self.anomaly and bool(grad)
        us += _STACK_US if keeps and not self.stacks else 0
        with self._call("cpu_op", name, **args):
            if keeps and self.stacks:
                with self.python("torch/fx/traceback.py(497): format_stack", _STACK_US):
                    pass
            self.now += self.drawn(us)
            yield
            self.now += self.drawn(us * 0.1)

    def call(self, name: str, us: float, **more: Any) -> None:
        """An operator that calls no other."""
        with self.op(name, us, **more):
            pass

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        """A range that the user or a library named."""
        with self._call("user_annotation", name):
            yield

    @contextmanager
    def python(self, frame: str, us: float = 0.0) -> Iterator[None]:
        """A Python call, recorded only if stacks are; `us` of its own before what is inside."""
        number, start, place = self.number(), self.now, len(self.events)
        parent = self._frames[-1] if self._frames else None
        self._frames.append(number)
        self.now += self.drawn(us)
        try:
            yield
        finally:
            self._frames.pop()
            if self.stacks:
                ids: dict[str, Any] = {"Python id": number, "Python parent id": parent}
                self.record("python_function", frame, start, self.now, **ids)
                if self.recording:
                    self.events.insert(place, self.events.pop())

    # --- the backward pass

    @contextmanager
    def backward(self, *, threaded: bool = True) -> Iterator[None]:
        """The calling thread waits while autograd's own thread runs what is inside; on the host alone it is one."""
        with self.python("torch/_tensor.py(600): backward"), self.python("torch/autograd/__init__.py(243): backward"):
            before, around, frames = self.thread, self._around, self._frames
            if threaded:
                self.host(_HANDOVER)
                self.thread, self._around, self._frames = AUTOGRAD, [], []
            try:
                yield
            finally:
                self.thread, self._around, self._frames = before, around, frames
                self._tape.clear()
                if threaded:
                    self.host(_HANDOVER)

    @contextmanager
    def grad(self, name: str, us: float = 3.0) -> Iterator[None]:
        """The backward node of the latest operator that is still on the tape."""
        sequence, start, thread = self._tape.pop() if self._tape else (0, self.now, MAIN)
        linked: dict[str, Any] = {"Sequence number": sequence, "Fwd thread id": 1} if sequence else {}
        with self.op(f"autograd::engine::evaluate_function: {name}", 2.0, **linked):
            self._flow(sequence, start, thread)
            with self.op(name, us, **linked):
                yield
            if self.anomaly:
                self.look_for_nan()

    def look_for_nan(self) -> None:
        """Two gradients of a node are looked at."""
        for _ in range(2):
            with self.op("aten::isnan", 3):
                self.call("aten::ne", 12)
            with self.op("aten::_is_any_true", 3):
                self.call("aten::any", 10)
            with self.op("aten::item", 1):
                self.call("aten::_local_scalar_dense", 1)

    def _flow(self, number: int, start: int, thread: int) -> None:
        if self.recording and number:
            both = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": MAIN}
            self.events.append({"ph": "s", **both, "tid": thread, "ts": start})
            self.events.append({"ph": "f", **both, "tid": self.thread, "ts": self.now, "bp": "e"})


def contiguous(shape: Sequence[int]) -> list[int]:
    """The strides of a tensor of this shape, laid out row by row."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


Body = Callable[[Any, int], object]
"""What a program does in a step: it is given the program, and which step it is."""
