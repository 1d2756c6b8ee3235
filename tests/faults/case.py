"""A planted fault and its fixed twin, and programs with which nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.host import Body
from tests.faults.program import Program

Draw = Callable[[Path], float]
"""Writes the traces of a run into a folder that is there and empty; the mean step in ns, 0 where it means nothing."""


@dataclass(frozen=True)
class Case:
    """A fault that the advisor has to find, and the same program without it.

    Attributes:
        code: of the rule that has to find it; of several, joined by +, where the twin is rid of several faults.
        name: what is wrong, in a few words, unique in its family.
        faulty, fixed: draw the program with and without it.
        timed: what is at stake is time, so that the measured gain has to lie in the promised interval.
        still: codes that may warn about the fixed twin too, because something else is wrong with it on purpose.
        family: "Data", "Host", "Device", "Memory", "Across ranks", "Recording", or "Real programs".
    """

    code: str
    name: str
    faulty: Draw
    fixed: Draw
    timed: bool = True
    still: tuple[str, ...] = ()
    family: str = ""


@dataclass(frozen=True)
class Healthy:
    """A program with which nothing is wrong that a step would gain three percent by."""

    name: str
    draw: Draw


def drawing(body: Body, *, steps: int = 12, warm: int = 3, **program: Any) -> Draw:
    """Draws one rank of a simulated program; more arguments are those of `Program`."""

    def draw(folder: Path) -> float:
        return Program(**program).run(body, folder / "rank0.pt.trace.json", steps=steps, warm=warm)

    return draw


def planted(code: str, name: str, faulty: Body, fixed: Body, *, steps: int = 12, warm: int = 3, **more: Any) -> Case:
    """A case of two bodies of one simulated program; `more` is of `Case` or of `Program`."""
    case = {key: more.pop(key) for key in ("timed", "still", "family") if key in more}
    draw_faulty, draw_fixed = (drawing(body, steps=steps, warm=warm, **more) for body in (faulty, fixed))
    return Case(code, name, draw_faulty, draw_fixed, **case)
