"""Runs the tasks one after another within the minutes of a call; what is done is not run again.

A finished task has a folder with `task.json`, which says how it ended, and what it printed in `out.txt` and `err.txt`.
A folder without `task.json` is what a killed call left: it is removed and the task runs anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from tools.gpu.facts import clocks
from tools.gpu.tasks import MAX_PART_S, ROOT, Setting, Task

TOLD: Final = "task.json"
SCRATCH: Final = "scratch"
"""A folder of the work folder that is not packed: caches of compilers."""

FAILED: Final = ("failed", "too long")
"""States of a task that is run anew only with --again."""

_ERROR: Final = re.compile(r"[\w.]+(Error|Exception): ")
"""The last line of a traceback."""

_GRACE_S: Final = 5.0
"""Seconds from SIGTERM to SIGKILL."""

_LEAST_SHARE: Final = 0.5
"""A task is begun if so much of its time is left: most take far less than they may."""


@dataclass(frozen=True)
class Outcome:
    """How a task ended.

    Attributes:
        part, name: of the task.
        state: "done", "failed", "too long" or "skipped".
        why: the error that it printed, or why it was skipped.
        seconds: that it took.
        bytes: that it left.
        clocks: of the devices before and after it, as the driver says.
    """

    part: str
    name: str
    state: str
    why: str = ""
    seconds: float = 0.0
    bytes: int = 0
    clocks: tuple[Any, ...] = ()

    def line(self) -> str:
        """For the terminal."""
        what = f"{self.part}/{self.name}" if self.name != self.part else self.part
        took = f"{self.seconds:6.1f} s {self.bytes / 1e6:7.2f} MB" if self.state != "skipped" else ""
        return f"{what:<44}{self.state:<9}{took}{'  ' + self.why if self.why else ''}"


def folder_of(work: Path, task: Task) -> Path:
    """Where a task's files are."""
    return work / task.part / task.name


def outcome_of(folder: Path) -> Outcome | None:
    """How the task of a folder ended; None: it has not."""
    try:
        return Outcome(**json.loads((folder / TOLD).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def run_all(
    tasks: Sequence[Task],
    setting: Setting,
    work: Path,
    *,
    minutes: float,
    again: bool = False,
    after_part: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = print,
) -> list[Task]:
    """Run what is not done; those for which no time was left.

    Args:
        tasks: in order; a part's follow one another.
        setting: how they run.
        work: the folder that keeps what is done.
        minutes: of this call.
        again: run anew what failed or took too long.
        after_part: called when a part has ended.
        say: prints a line.
    """
    end = time.monotonic() + 60 * minutes
    left: list[Task] = []
    spent: dict[str, float] = {}
    for place, task in enumerate(tasks):
        folder = folder_of(work, task)
        before = outcome_of(folder)
        if before is None or (again and before.state in FAILED):
            seconds = min(task.seconds, end - time.monotonic(), MAX_PART_S - spent.get(task.part, 0.0))
            if not task.missing(setting) and seconds < _LEAST_SHARE * task.seconds:
                left.append(task)
                continue
            outcome = run_one(task, setting, work, seconds)
            if outcome.state == "too long" and seconds < task.seconds:  # it would have had more time at another place
                shutil.rmtree(folder)
                left.append(task)
                continue
            spent[task.part] = spent.get(task.part, 0.0) + outcome.seconds
            say(outcome.line())
        if place + 1 == len(tasks) or tasks[place + 1].part != task.part:
            after_part()
    return left


def run_one(task: Task, setting: Setting, work: Path, seconds: float) -> Outcome:
    """Run a task in a session of its own, and write down how it ended."""
    folder = folder_of(work, task)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    outcome = Outcome(task.part, task.name, "skipped", task.missing(setting))
    if not outcome.why:
        before, began = clocks(), time.monotonic()
        state = _ended(task.arguments(setting, folder), folder, _environment(work), seconds)
        took = round(time.monotonic() - began, 2)
        why = why_ended(folder / "err.txt") if state != "done" else ""
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        outcome = replace(outcome, state=state, why=why, seconds=took, bytes=size, clocks=(before, clocks()))
    part = folder / f"{TOLD}.part"
    part.write_text(json.dumps(asdict(outcome)), "utf-8")
    part.rename(folder / TOLD)
    return outcome


def _ended(command: Sequence[str], folder: Path, environment: dict[str, str], seconds: float) -> str:
    with (
        (folder / "out.txt").open("wb") as out,
        (folder / "err.txt").open("wb") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=errors,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        ) as process,
    ):
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            return "too long"
        finally:
            _signal(process, signal.SIGKILL)  # with what it started and left: workers of loaders, other ranks
    return "failed" if code else "done"


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the whole session of a process, which began it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _environment(work: Path) -> dict[str, str]:
    """Ours, such that the programs find what they import, and compilers keep nothing elsewhere."""
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"), str(ROOT))))
    caches = {
        variable: str((work / SCRATCH / name).resolve())
        for variable, name in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton"))
    }
    return {**os.environ, **caches, "PYTHONPATH": path, "KINETO_LOG_LEVEL": "99"}


def why_ended(file: Path) -> str:
    """The last error in what a process printed, behind which others may print more; else its last line."""
    lines = file.read_text("utf-8", "replace").strip().splitlines()
    errors = [line for line in lines if _ERROR.match(line)]
    return (errors or lines or [""])[-1][:200]
