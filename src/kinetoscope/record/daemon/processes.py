"""Other processes of this machine, as /proc shows them: what they were started with, and what they started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def environment_of(process: int) -> dict[str, str]:
    """The variables that a process was started with; empty where we may not know."""
    try:
        text = Path(f"/proc/{process}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return {}
    return dict(each.split("=", 1) for each in text.split("\0") if "=" in each)


def descendants(process: int) -> Iterator[int]:
    """A process and all that it started, the nearest first."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for each in Path("/proc").iterdir():
            if each.name.isdecimal() and (parent := _parent_of(each)) is not None:
                children.setdefault(parent, []).append(int(each.name))
    found = [process]
    for one in found:
        yield one
        found.extend(sorted(children.get(one, ())))


def _parent_of(folder: Path) -> int | None:
    try:
        after_name = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(after_name[1])
    except (OSError, ValueError, IndexError):
        return None


def is_alive(process: int) -> bool:
    """Does it still run?"""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
