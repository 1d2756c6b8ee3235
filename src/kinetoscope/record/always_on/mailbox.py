"""Notes that the processes of a run, and those who ask them for a recording, leave each other in one folder.

Each note is a small JSON file that appears whole or not at all. The folder holds

    ranks/RANK.PID       a process that takes steps: {rank, world, pid, host}
    request              what is asked for: {id, steps, warmup, with_stack, …}; the newest counts
    ID/seen.RANK.PID     it has read the request: {rank, step, seconds}
    ID/start             all begin at this step: {step, ranks}
    ID/done.RANK.PID     what came of it: {rank, path, problem, first_step, last_step}

No process waits for another, and nobody removes a note while the run goes on. Imports nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

TOUCH: Final = "trigger"
"""A file of this name in the folder of the run asks for a recording too: `touch runs/a/trigger`."""

MailboxNote = dict[str, Any]


def leave(path: Path, note: Mapping[str, Any]) -> None:
    """Write a note.

    Raises:
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        part.write_text(json.dumps(note), encoding="utf-8")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def read(path: Path) -> MailboxNote | None:
    """A note, None if there is none, or something else under its name."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return note if isinstance(note, dict) else None


def read_all(folder: Path, prefix: str = "") -> dict[str, MailboxNote]:
    """The notes of a folder whose names begin so."""
    return dict(_notes(folder, prefix))


def _notes(folder: Path, prefix: str) -> Iterator[tuple[str, MailboxNote]]:
    try:
        names = sorted(each.name for each in folder.iterdir())
    except OSError:
        return
    for name in names:
        if name.startswith(prefix) and not name.startswith(".") and (note := read(folder / name)) is not None:
            yield name, note


def new_number() -> str:
    """The number of a new request."""
    return f"{time.time_ns()}-{secrets.token_hex(3)}"


def ask(control: Path, request: Mapping[str, Any]) -> str:
    """Ask the processes of a run for a recording; the number of the request comes back.

    Raises:
        OSError: the folder cannot be written.
    """
    number = new_number()
    leave(control / "request", {**request, "id": number, "time": time.time()})
    return number
