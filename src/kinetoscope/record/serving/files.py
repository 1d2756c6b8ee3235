"""The traces that a server writes: which are new, which are whole."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

CUT_OFF_PROBLEM: Final = "is cut off"
"""How the problem of a file begins that may still be written."""

_ENDINGS: Final = (".json", ".json.gz")
_NO_TRACES: Final = ("server_args", "server_info")
"""How the names of SGLang's other files begin."""

_BLOCK_BYTES: Final = 1 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
_REASONS: Final = {"Not a gzipped file": "something else follows its compressed data"}
"""Errors of Python in words that fit a file that begins as compressed data does."""

_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_HTML: Final = re.compile(rb"\s*<(?:!doctype\s+html|html)", re.IGNORECASE)


def trace_sizes(folder: Path) -> dict[str, int]:
    """The traces in a folder with their sizes."""
    sizes = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(_ENDINGS) and not entry.name.startswith(_NO_TRACES):
                with contextlib.suppress(OSError):
                    sizes[entry.path] = entry.stat().st_size
    return sizes


def new_traces(before: Mapping[str, int], folder: Path) -> dict[str, int]:
    """The traces that are there now, or have another size."""
    return {path: size for path, size in trace_sizes(folder).items() if before.get(path) != size}


def file_problem(path: str) -> str:
    """Why a file is no whole trace, as the rest of a sentence about it; "" if it is one.

    It is read to its end, once; whether each event is as it should be is `kinetoscope doctor`'s matter.
    """
    first = last = b""
    has_events = False
    try:
        for block in _blocks(path):
            first = first or block
            window = last + block  # a key may straddle two blocks
            has_events = has_events or _EVENTS.search(window) is not None
            last = window[-64:]
    except EOFError:
        return f"{CUT_OFF_PROBLEM}: its compressed data ends in the midst"
    except (zlib.error, gzip.BadGzipFile) as error:
        return f"is damaged: {_REASONS.get(str(error).partition(' (')[0], error)}"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return _text_problem(first, last.rstrip(), has_events=has_events)


def _text_problem(first: bytes, end: bytes, *, has_events: bool) -> str:
    if not first:
        return f"{CUT_OFF_PROBLEM}: it is empty"
    if _HTML.match(first):
        return "is an HTML page, no trace"
    if not first.lstrip().startswith((b"{", b"[")):
        return "is no trace: it is no JSON"
    if not end.endswith((b"}", b"]")):
        return f"{CUT_OFF_PROBLEM}: it ends in the midst of an event"
    if first.lstrip().startswith(b"{") and not has_events:
        return "is no trace: it has no traceEvents"
    return ""


def _blocks(path: str) -> Iterator[bytes]:
    """The blocks of the file; whether it is compressed tells its beginning, not its name."""
    with Path(path).open("rb") as file:
        compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        source: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if compressed else file
        while block := source.read(_BLOCK_BYTES):
            yield block
