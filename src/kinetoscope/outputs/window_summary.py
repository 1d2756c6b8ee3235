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
from pathlib import Path
from typing import Final

from kinetoscope.compare.gate.baseline import dump, load
from kinetoscope.compare.statistics.numbers import numbers
from kinetoscope.errors import InputError
from kinetoscope.outputs.summary import summary
from kinetoscope.pages.blocks import to_plain
from kinetoscope.readers.history.files import WINDOW_ENDING
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


if __name__ == "__main__":
    os.nice(_NICENESS if sys.argv[1] else 0)
    for source, target in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        with contextlib.suppress(InputError):  # of the others there is something to be said
            write_window_summary(source, target)
