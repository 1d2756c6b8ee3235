"""Surroundings of one event: the calls around it, its Python stack and module, what was launched inside it.

Only what one event needs is looked at, so that a click is answered at once on a trace of millions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.execution.autograd import backward_links
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.frames import MAX_DEPTH, SEPARATOR, frame_text, recorded_stack
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_FRAME: Final = re.compile(r"(.+)\((\d{1,9})\): (.*)", re.DOTALL)
_NO_EVENT: Final = -1


class Frame(NamedTuple):
    """A frame of a Python stack; file "" and line 0 where they are not known."""

    name: str
    file: str
    line: int


@dataclass(frozen=True)
class CallContext:
    """The place of an event in the program.

    Attributes:
        stack: the outermost frame first.
        of_forward: whether these are of the forward pass that the event runs backwards.
        module: the innermost module, "" where none is known.
    """

    stack: tuple[Frame, ...]
    of_forward: bool
    module: str


def call_context(trace: Trace, row: int) -> CallContext:
    """The stack and the module of a call of the host; of device work ask with its launch."""
    chain = ancestors(trace, row)
    stack, module = _stack(trace, chain), _module(trace, chain)
    forward = forward_of(trace, chain)
    if forward == _NO_EVENT or (stack and module):
        return CallContext(stack, False, module)
    chain = ancestors(trace, forward)
    return CallContext(stack or _stack(trace, chain), not stack, module or _module(trace, chain))


def ancestors(trace: Trace, row: int) -> list[int]:
    """The event and the calls around it, the innermost first."""
    parent, chain = call_tree(trace).parent, [row]
    while len(chain) <= MAX_DEPTH and (above := int(parent[chain[-1]])) >= 0:
        chain.append(above)
    return chain


def forward_of(trace: Trace, chain: list[int]) -> int:
    """The operator of the forward pass that these calls run backwards, −1 for none."""
    forward = backward_links(trace).forward
    return next((int(forward[row]) for row in chain if forward[row] >= 0), _NO_EVENT)


def launched_in(trace: Trace, row: int) -> Int32s:
    """Places in `device_work` of what a call, or a call inside it, launched; in order of launch: int32 [work]."""
    calls, work = call_tree(trace), device_work(trace)
    if not calls.member[row]:
        return np.empty(0, np.int32)
    places, launched = _by_launch(trace)
    low = int(np.searchsorted(launched, trace.start[row]))
    high = int(np.searchsorted(launched, max(trace.end[row], trace.start[row] + 1)))
    places = places[low:high]
    places = places[trace.track[work.launch[places]] == trace.track[row]]
    at = work.caller[places]
    for _ in range(MAX_DEPTH):
        climbing = np.flatnonzero((at >= 0) & (at != row))
        if not len(climbing):
            break
        at[climbing] = calls.parent[at[climbing]]
    reached: Int32s = places[at == row]
    return reached


@derived
def _by_launch(trace: Trace) -> tuple[Int32s, Int64s]:
    """Places in `device_work` of what has a launch, by when that starts, then by its own start; and those times."""
    work = device_work(trace)
    places = np.flatnonzero(work.launch >= 0).astype(np.int32)
    launched = trace.start[work.launch[places]]
    order = np.lexsort((places, work.start[places], work.launch[places], launched))
    return places[order], launched[order]


def launch_of(trace: Trace, row: int) -> int:
    """The call that launched a piece of device work; −1 if that was not recorded, or for other events."""
    work = device_work(trace)
    place = int(np.searchsorted(work.rows, row))
    return int(work.launch[place]) if place < len(work) and work.rows[place] == row else _NO_EVENT


def _stack(trace: Trace, chain: list[int]) -> tuple[Frame, ...]:
    """The stack that the nearest call spells out, unless a Python call is nearer; else the Python calls around."""
    spelled = arguments.codes(trace, "call_stack", np.array(chain, np.int32)).tolist()
    frames: list[str] = []
    for row, code in zip(chain, spelled, strict=True):
        if not frames and code >= 0 and (text := recorded_stack(trace.strings.label(code))):
            return tuple(_frame(part) for part in text.split(SEPARATOR))
        if trace.kind[row] == EventKind.PYTHON and row != chain[0]:
            frames.append(frame_text(trace.strings.label(int(trace.name[row]))))
    return tuple(_frame(name) for name in reversed(frames))


def _frame(text: str) -> Frame:
    match = _FRAME.fullmatch(text)
    return Frame(match[3], match[1], int(match[2])) if match else Frame(text, "", 0)


def _module(trace: Trace, chain: list[int]) -> str:
    for row in chain:
        if trace.kind[row] == EventKind.PYTHON:
            name = trace.strings.label(int(trace.name[row]))
            if name.startswith(MODULE):
                return name.removeprefix(MODULE)
    return ""
