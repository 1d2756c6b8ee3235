"""The plan of `kinetoscope record` for the processes that it starts: one environment variable that all inherit.

Imports nothing but the standard library, so that Python's own start-up can read it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ENVIRONMENT: Final = "KINETOSCOPE_RECORD"
"""The variable."""

CONTROL: Final = ".kinetoscope"
"""The folder of a run in which its processes, and those who ask them for a recording, leave each other notes."""

TIMED: Final = "timed"
"""The folder, among these notes, of those of processes whose steps are timed."""


@dataclass(frozen=True, kw_only=True)
class TimingPlan:
    """The steps that are timed, and what is changed in the process; the program is ended after them.

    Attributes:
        name: of the run, which the program finds in KINETOSCOPE_TRIAL.
        changes: names of trials that change the process.
        looks: names of trials that only look where they would apply.
        extensions: files and modules of the user's that declare trials.
        steps: how many steps are timed.
        seed: that torch, random and NumPy get before the program runs; None: none.
        writes: the program may write checkpoints.
        record: record a window after the timed steps, by the schedule of the plan.
    """

    name: str
    changes: Sequence[str] = ()
    looks: Sequence[str] = ()
    extensions: Sequence[str] = ()
    steps: int
    seed: int | None = 0
    writes: bool = False
    record: bool = False


@dataclass(frozen=True, kw_only=True)
class RecordPlan:
    """When to record, and how.

    Attributes:
        dir: where traces go: a folder or a URL.
        control: the folder for notes between processes; see `agreeing`.
        package: the folder of this package, for an interpreter that has not installed it.
        wait, warmup, active, repeat: the schedule, in steps; it is not used if `idle` or `every`. `repeat` 0: for ever.
        idle: record only when asked to.
        steps_by: the range, or the class of the module, whose calls are the steps; "": whatever they are.
        seconds: record for so long, not so many steps; 0 for not.
        every: record a window every so many steps; 0 for not.
        budget: share of the time that this may cost.
        keep: how many of the newest, and as many of the slowest, windows are kept; 0 keeps all.
        spans: mark forward, backward and the calls of modules in the trace.
        signal: SIGUSR2 asks for a recording.
        hang: watch for steps that do not end, and write what shows why.
        history: write the times of each step, and marks, into the folder `history` of the run.
        hang_after: seconds that a step may take before it hangs, at least.
        options: fields of `RecordOptions`.
        timing: steps that are timed before anything is recorded; None for none.
    """

    dir: str
    control: str
    package: str = ""
    wait: int = 1
    warmup: int = 1
    active: int = 3
    repeat: int = 1
    idle: bool = False
    steps_by: str = ""
    seconds: float = 0.0
    every: int = 0
    budget: float = 0.01
    keep: int = 5
    spans: bool = True
    signal: bool = True
    hang: bool = False
    history: bool = False
    hang_after: float = 60.0
    options: Mapping[str, Any] = field(default_factory=dict)
    timing: TimingPlan | None = None

    @property
    def window(self) -> int:
        """Steps from one window of the schedule to the next."""
        return self.warmup + self.active + max(self.wait, 1)

    @property
    def scheduled(self) -> bool:
        """True if it records without a request, once the wait is over."""
        return not (self.idle or self.every or self.seconds)

    def as_text(self) -> str:
        """As the value of the environment variable."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_text(text: str) -> RecordPlan:
        """The inverse of `as_text`; what another version wrote beside is left out."""
        known = {each.name for each in dataclasses.fields(RecordPlan)}
        values = {name: value for name, value in json.loads(text).items() if name in known}
        if values.get("timing") is not None:
            values["timing"] = TimingPlan(**values["timing"])
        return RecordPlan(**values)


def control_of(run: str) -> Path:
    """The folder for notes of the run whose traces go to this folder or URL."""
    if "://" not in run:
        return Path(run).absolute() / CONTROL
    user = os.getuid() if hasattr(os, "getuid") else 0
    digest = hashlib.sha256(run.rstrip("/").encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"kinetoscope-{user}" / digest


def daemon_note() -> Path:
    """The file in which this user's daemon on this machine says which folder its notes are in."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir()) / f"kinetoscope-{user}" / "daemon"
