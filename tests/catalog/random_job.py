"""Jobs drawn at random: everything at once, as in a real trace, and small."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from tests.drawn import Event, annotation, kernel, launch, memory, op, python, written

_WORK: Final = (
    ("kernel", "gemm"),
    ("kernel", "relu"),
    ("kernel", "ncclDevKernel_AllReduce"),
    ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
    ("gpu_memset", "Memset (Device)"),
)
_OPERATORS: Final = ("aten::mm", "aten::add", "aten::relu")
_SHAPES: Final = {"Input Dims": [[4, 8], [8, 2]], "Input type": ["float", "float"]}
_ADDRESSES: Final = 9


class RandomJob:
    """Two devices, several streams and threads, graphs, copies, collectives, memory, and steps.

    Calls nest, as on a real host; device work overlaps as it likes, and some of it was launched by nobody known.
    """

    def __init__(self, seed: int, *, annotated: bool = True) -> None:
        """`annotated`: nodes of some graphs have annotations, so that replays have captured calls."""
        self._dice = random.Random(seed)
        self._annotated = annotated
        self._correlation = 0
        self._allocations: list[tuple[int, int]] = []
        self.events: list[Event] = []
        for step in range(4):
            self.events.append(annotation(f"ProfilerStep#{step}", 1000 * step, 900 + 100 * (step % 2)))
            self._calls(1000 * step, 1000 * step + 900, 1, 0)
            self._calls(1000 * step + 50, 1000 * step + 700, 2, 0)
            self.events.append(op("aten::add", 1000 * step + 750, 40, tid=2))
        self._memory()

    def written(self, folder: Path) -> Path:
        """As a file."""
        return written(folder / "random.json", *self.events)

    def _calls(self, start: int, end: int, tid: int, depth: int) -> None:
        dice, at = self._dice, start
        while at < end and dice.random() < 0.9:
            at += dice.randrange(0, 40)
            length = min(dice.randrange(1, 200), end - at)
            if length <= 0:
                return
            self.events.append(self._call(at, length, tid, depth))
            if depth < 4 and length > 10 and dice.random() < 0.6:
                self._calls(at, at + length, tid, depth + 1)
            elif length > 6:
                self._launch(at + 1, length // 2, tid)
            if dice.random() < 0.3:
                self._allocations.append((at + length // 2, tid))
            at += length

    def _call(self, at: int, length: int, tid: int, depth: int) -> Event:
        name = self._dice.choice([*_OPERATORS, f"train.py({depth}): f", f"nn.Module: Net_{depth}"])
        if name in _OPERATORS:
            return op(name, at, length, tid=tid, **(_SHAPES if name == "aten::mm" else {}))
        return python(name, at, length, tid=tid)

    def _launch(self, at: int, length: int, tid: int) -> None:
        dice = self._dice
        self._correlation += 1
        graph, device = dice.random() < 0.1, dice.randrange(2)
        if dice.random() < 0.9:
            name = "cudaGraphLaunch" if graph else "cudaLaunchKernel"
            self.events.append(launch(at, length, self._correlation, name=name, tid=tid))
        for node in range(dice.randrange(1, 5) if graph else 1):
            category, name = dice.choice(_WORK)
            ids: dict[str, Any] = {"graph id": 1, "graph node id": node + 1} if graph else {}
            annotation = {"module_fqn": f"Net_{node % 2}.layer"} if graph and self._annotated else {}
            facts = {"blocks per SM": dice.random() * 2} if category == "kernel" else {"bytes": dice.randrange(1000)}
            begin, duration, stream = at + dice.randrange(-5, 400), dice.randrange(300), dice.choice([7, 7, 20])
            self.events.append(
                kernel(
                    name,
                    begin,
                    duration,
                    self._correlation,
                    stream=stream,
                    device=device,
                    category=category,
                    **facts,
                    **ids,
                    **annotation,
                )
            )

    def _memory(self) -> None:
        held: dict[tuple[int, int | None], int] = {}
        for time, tid in sorted(self._allocations):
            address, device = self._dice.randrange(_ADDRESSES), self._dice.choice([None, 0])
            size = -held.pop((address, device), 0)
            if not size:
                size = held[address, device] = self._dice.choice([512, 1024])
            self.events.append(memory(time, size, tid=tid, device=device, Addr=address + 1))
