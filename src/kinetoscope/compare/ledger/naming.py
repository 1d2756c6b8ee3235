"""What runs are called beside one another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath


def told_apart(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths that tell them apart: `num_workers_0` and `num_workers_4`."""
    parts = [PurePath(path.rstrip("/")).parts or (path,) for path in paths]
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return list(paths)
