"""The folders of runs by the number of their job, so that `kinetoscope watch 12345` finds one from a login node."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_VARIABLES: Final = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")
"""Variables in which Slurm, PBS, LSF and Grid Engine have the number of a job."""

_JOB: Final = re.compile(r"\d[\w.\[\]-]{0,99}")


def note_job(folder: str, environment: Mapping[str, str] = os.environ) -> None:
    """Leave a note of this folder in the user's cache if this is a job; the home folder is one on all nodes."""
    job = next((environment[name] for name in _VARIABLES if environment.get(name)), "")
    if not _JOB.fullmatch(job):
        return
    with contextlib.suppress(OSError, RuntimeError):  # no home, or none that can be written
        note = _note_of(job, environment)
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(str(Path(folder).absolute()), "utf-8")


def folder_of_job(job: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The folder that the run of a job writes to; None where no note says so."""
    if not _JOB.fullmatch(job):
        return None
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return _note_of(job, environment).read_text("utf-8")
    return None


def _note_of(job: str, environment: Mapping[str, str]) -> Path:
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "kinetoscope" / "jobs" / job
