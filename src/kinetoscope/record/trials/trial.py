"""A trial: one change that is put into a process before its program runs, where it applies, and how to keep it.

Imports nothing that needs more than the standard library: both the process of a job and `kinetoscope try` read it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal

from kinetoscope.record.output.run_info import usable_cores

Effect = Literal["none", "rounding", "training"]
"""What a change may do to results: nothing; other last digits; another training, such as a larger batch."""

_LIBRARIES: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", f"{os.sep}lib{os.sep}python")
_MAX_PLACES: Final = 20
_MAX_LOOKS: Final = 500
"""Changes of which the place is looked up at most: it takes microseconds, and what is in a step comes again."""


@dataclass(frozen=True, kw_only=True)
class Edit:
    """How a change is made permanent. Texts may name facts of the change: `{workers}`; {{ and }} are braces.

    What is said of calls is said of those at the places that the change noted; the first that is given is done.

    Attributes:
        calls: names of the calls that are meant at a place; without names, the only call there.
        removes: the statements of those calls go. A call that is no statement of its own becomes `instead`.
        instead: what a call becomes; "" for a change that cannot be made to it.
        keywords: arguments, as Python, that each of those calls is to have; `{was}` is what it has now, and one that is
            to be "" goes.
        keywords_of: other arguments for calls of these names: `{"to": {"non_blocking": "True"}}`.
        positional: names of the parameters that may be given without a name, in order.
        within: the statements of those calls go into a `with` of this.
        after_made: lines after the statement that made what is called; `{called}` is its name there.
        lines: Python to add once, after the imports of the program, where no place was noted.
        environment: variables to set before the program starts.
        text: what to do where none of these can be applied to a file, in a sentence without its full stop.
    """

    calls: tuple[str, ...] = ()
    removes: bool = False
    instead: str = ""
    keywords: Mapping[str, str] = field(default_factory=dict)
    keywords_of: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    within: str = ""
    after_made: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change to try.

    Attributes:
        name: of the trial, as on the command line.
        title: what it does, as the end of a sentence that begins with "try to".
        answers: codes of the rules whose findings it answers.
        put_in: puts the change into the process, right after torch was imported.
        effect: what it may do to results.
        edit: how it is made permanent.
        environment: variables that the process gets besides; of those the user has set, none is replaced.
        needs: "device": only where torch has one; "ranks": only in a job of several.
        unasked: it is tried even if no finding asks for it, where a look at the program says that it applies.
        allow: the word for `--allow` without which it is not tried; "" for what needs no permission.
        compiles: its first steps may take minutes, and it gets a cache of the compiler of its own.
        partners: the names of trials that it is also tried together with, as each alone may bring nothing.
        loss_within: relative difference up to which the first loss that differs is what the change is known to do.
    """

    name: str
    title: str
    answers: tuple[str, ...]
    put_in: Callable[[Change], None]
    effect: Effect
    edit: Edit
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: Literal["", "device", "ranks"] = ""
    unasked: bool = False
    allow: str = ""
    compiles: bool = False
    partners: tuple[str, ...] = ()
    loss_within: float = 1e-5


class Change:
    """A trial in one process: all that it sees and does there.

    Attributes:
        acts: False in a run that only looks where the change would apply.
        cores: that the process may use, by itself; at least 1.
        facts: what the change chose, for its edit and its row: `{"workers": 2}`.
        count: how many things were changed, or would be.
    """

    def __init__(self, trial: Trial, *, acts: bool) -> None:
        self.trial, self.acts = trial, acts
        self.cores = cores()
        self.facts: dict[str, Any] = {}
        self.count = 0
        self._refused: Counter[str] = Counter()
        self._places: dict[tuple[str, int], None] = {}
        self._at_first_step: list[Callable[[], object]] = []
        self._checks: list[Callable[[], str]] = []

    def applies(self, *, place: bool = True, where: tuple[str, int] | None = None) -> bool:
        """Note one thing that the change applies to, and return whether it is to be made.

        place: note the line of the program that called what was wrapped, if the program called it and no library.
        where: that line, if it is known already.
        """
        if place and where is None:
            where = self.place(sys._getframe(1))
        self.count += 1
        if where is not None and len(self._places) < _MAX_PLACES:
            self._places[where] = None
        return self.acts

    def place(self, frame: FrameType) -> tuple[str, int] | None:
        """The line of the program that led to a frame; None for a library's, and where enough are known."""
        is_wanted = self.count < _MAX_LOOKS and len(self._places) < _MAX_PLACES
        return calling_line(frame) if is_wanted else None

    def refuses(self, why: str) -> None:
        """Note one thing to which the change must not be made; `why` completes "not tried: "."""
        self._refused[why] += 1

    def at_first_step(self, act: Callable[[], object]) -> None:
        """Have something called when the first step has ended; before it, for what must be in place then, see torch."""
        self._at_first_step.append(act)

    def checks(self, check: Callable[[], str]) -> None:
        """Have read back at the end whether the change was in effect: "", or why not."""
        self._checks.append(check)

    def first_step_ended(self) -> None:
        """The first step has ended."""
        for act in self._at_first_step:
            act()

    def note(self) -> dict[str, Any]:
        """The outcome, for the driver: {count, refused, places, facts, ineffective}."""
        failed = [why for check in self._checks if (why := check())] if self.acts and self.count else []
        return {
            "acts": self.acts,
            "count": self.count,
            "refused": dict(self._refused),
            "places": [list(each) for each in self._places],
            "facts": self.facts,
            "ineffective": failed[0] if failed else "",
        }


def calling_line(frame: FrameType | None) -> tuple[str, int] | None:
    """File and line of the program's own call of something that was wrapped; None where a library called it.

    Frames of this package and of torch are passed over: they stand between the call and the wrapper.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        if not _is_between(name):
            is_own = not name.startswith("<") and not any(part in name for part in _LIBRARIES)
            return (str(Path(name).absolute()), frame.f_lineno) if is_own else None
        frame = frame.f_back
    return None


def _is_between(name: str) -> bool:
    return name.startswith((_RECORDER, _torch())) or name.endswith("contextlib.py")


_RECORDER: Final = f"{Path(__file__).absolute().parents[1]}{os.sep}"


def _torch() -> str:
    torch = sys.modules.get("torch")
    return f"{Path(getattr(torch, '__file__', None) or '<no torch>/').parent}{os.sep}"


def cores() -> int:
    """Cores that this process may use, divided by the ranks on its machine; at least 1."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(usable_cores() // max(int(local) if local.isdecimal() else 1, 1), 1)


NO_DEVICE: Final = "the program uses no device"


def uses_device() -> bool:
    """Has the program begun to use a device? To ask CUDA itself before it has would break its later forks."""
    import torch

    return bool(torch.cuda.is_initialized() and torch.cuda.is_available())
