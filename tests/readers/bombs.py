"""The memory that reading a pickle takes, of files made to fill it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

_CHILD: Final = """
import importlib, pathlib, pickle, sys
from kinetoscope.errors import InputError
path, reader, empty = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
load = importlib.import_module(f"kinetoscope.readers.{reader}").load
for warm in ({empty: []}, [1]):  # what is imported for an answer and for a refusal counts before
    try:
        load("warm", [pickle.dumps(warm)])
    except InputError:
        pass
def blocks():
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            yield block
def peak():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
try:
    load("bomb", blocks())
except InputError as error:
    print(str(error)[:200], file=sys.stderr)
print(peak() - before)
"""


def peak(path: Path, reader: str, empty: str) -> int:
    """Bytes that reading a file takes at most, in a process of its own.

    Args:
        path: the file.
        reader: the package of readers that has `load`.
        empty: the key whose empty list makes the smallest file that it reads.
    """
    command: list[Any] = [sys.executable, "-c", _CHILD, path, reader, empty]
    return int(subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout)
