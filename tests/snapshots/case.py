"""Jobs with a known cause of failure or growth: without the cause, the same job runs through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.snapshots.allocator import OutOfMemory
from tests.snapshots.process import Process

MIB = 1 << 20
GIB = 1 << 30

Program = Callable[..., object]


@dataclass(frozen=True)
class Case:
    """A program, the process that runs it, and the answer.

    Attributes:
        cause: a verdict of `memory_oom`, or "leak" or "healthy".
        facts: of `Process`, by name.
        cured_facts, cured_program: the change that removes the cause, and nothing else.
        line: of a leak, the line of the program that allocates what stays.
        has_text: whether torch's error text is known beside the snapshot.
    """

    name: str
    cause: str
    program: Program
    facts: Mapping[str, Any] = field(default_factory=dict)
    cured_facts: Mapping[str, Any] = field(default_factory=dict)
    cured_program: Program | None = None
    line: str = ""
    has_text: bool = True

    def run(self) -> tuple[Process, OutOfMemory | None]:
        """The process after it ended or ran out of memory."""
        return _run(self.program, self.facts)

    def run_cured(self) -> tuple[Process, OutOfMemory | None]:
        """The same without the cause."""
        return _run(self.cured_program or self.program, {**self.facts, **self.cured_facts})

    def longer(self, steps: int) -> Case:
        """The same training with another number of steps."""
        return replace(self, program=partial(self.program, steps=steps))


def _run(program: Program, facts: Mapping[str, Any]) -> tuple[Process, OutOfMemory | None]:
    process = Process(**facts)
    process.record()
    try:
        program(process)
    except OutOfMemory as error:
        return process, error
    return process, None
