"""How a program is started so that its processes record: the command as it is run, and its environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kinetoscope.record.output.generated_files import PROVENANCE
from kinetoscope.record.session.child_config import ENVIRONMENT, RecordPlan

_PACKAGE = Path(__file__).parents[1]


def runnable(words: Sequence[str]) -> list[str]:
    """A command as it is run: `-m module` and a script that cannot be run by itself go to this Python."""
    command = list(words)
    if command and (command[0] == "-m" or (command[0].endswith(".py") and not os.access(command[0], os.X_OK))):
        return [sys.executable, *command]
    return command


def program_name(command: Sequence[str]) -> str:
    """The program of a command, to name a folder after: `train` of `python train.py`."""
    names = [Path(each).stem for each in command if each.endswith(".py")]
    if "-m" in command[:-1]:
        names.append(command[command.index("-m") + 1].rpartition(".")[2])
    return (names or ["run"])[0]


def environment_of(plan: RecordPlan) -> dict[str, str]:
    """The variables of a program that is recorded by this plan."""
    environment = dict(os.environ)
    environment[ENVIRONMENT] = plan.as_text()
    injected = str(_PACKAGE / "injected")
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (injected, environment.get("PYTHONPATH"))))
    if plan.options.get("with_provenance"):
        environment = {**PROVENANCE, **environment}
    environment.setdefault("KINETO_LOG_LEVEL", "99")  # torch prints two lines for each window else
    return environment
