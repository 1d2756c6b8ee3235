"""Where the windows of a run are: their traces, or what is left of them once these were deleted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kinetoscope.record.history import layout

ENDING: Final = layout.WINDOW_ENDING

_TRACE: Final = ".pt.trace.json.gz"


def window_files(path: str | os.PathLike[str]) -> Mapping[str, Path]:
    """The file of each window, by the name that its mark has as `detail`: its trace, else what is left of it."""
    run = Path(path)
    left = {
        each.name.removesuffix(ENDING) + _TRACE: each
        for each in (run / layout.FOLDER / layout.WINDOWS_FOLDER).glob(f"*{ENDING}")
    }
    return left | {each.name: each for each in run.glob(f"*{_TRACE}")}
