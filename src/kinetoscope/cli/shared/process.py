"""Settings of a process of ours, in which nothing else runs: when garbage is collected."""

from __future__ import annotations

import gc
from typing import Final

_OBJECTS_BETWEEN_COLLECTIONS: Final = 50_000


def begin() -> None:
    """Set it at the start: of what is imported nothing is garbage, and collections would take 5 % of a short run."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


def end() -> None:
    """Leave all to the system: to look for garbage first would take 10 % of a short run."""
    gc.freeze()
