"""The rest of a window of a run whose trace is deleted: its numbers and its summary, in some kilobytes.

The file is a baseline of `kinetoscope gate` (step time, memory, operators and kernels), which `--baseline` takes, with
what `kinetoscope summary` shows as one more field: parts of the step, findings, what is odd.

    python -m kinetoscope.outputs.window_summary low TRACE FILE TRACE FILE    as `kinetoscope record` runs it
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from kinetoscope.compare.gate.baseline import dump, load
from kinetoscope.compare.statistics.numbers import numbers
from kinetoscope.errors import InputError
from kinetoscope.model.history.windows import WindowNumbers
from kinetoscope.model.trace.trace import Trace
from kinetoscope.outputs.summary import summary
from kinetoscope.pages.blocks import to_plain
from kinetoscope.readers.history.alone import FOLDER
from kinetoscope.readers.history.files import WINDOW_ENDING, window_files
from kinetoscope.reading import read
from kinetoscope.views.exports.target import written

_NICENESS: Final = 19


def write_window_summary(trace: str, path: str) -> None:
    """Write the file of a trace, at once or not at all.

    Raises:
        InputError: the trace cannot be read.
        OSError: the file cannot be written.
    """
    job = read(trace)
    document = json.loads(dump([numbers(job)])) | {"summary": to_plain(summary(job))}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with written(path) as file:
        file.write(json.dumps(document, allow_nan=False).encode())


def window_numbers(path: str | Path) -> Mapping[str, float]:
    """The mean of each metric in a step, ns or bytes, of a file of this kind or of a trace.

    Raises:
        InputError: it cannot be read, or has no step.
    """
    run = load(path)[0] if str(path).endswith(WINDOW_ENDING) else numbers(str(path))
    return {name: series.mean for name, series in run.series.items()}


def numbers_by_window(trace: Trace) -> WindowNumbers:
    """The numbers of the windows beside the history that belongs to a trace, by the names of their files."""
    folder = Path(trace.source.files("history")[0]).parent
    files = window_files(folder.parent if folder.name == FOLDER else folder)

    def numbers_of(name: str) -> Mapping[str, float] | None:
        if name not in files:
            return None
        with contextlib.suppress(InputError, OSError):
            return _cached_numbers(files[name], files[name].stat().st_mtime_ns)
        return None

    return numbers_of


@lru_cache(256)
def _cached_numbers(path: Path, _changed: int) -> Mapping[str, float]:
    return window_numbers(path)


if __name__ == "__main__":
    os.nice(_NICENESS if sys.argv[1] else 0)
    for source, target in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        with contextlib.suppress(InputError):  # of the others there is something to be said
            write_window_summary(source, target)
