"""The files beside a trace that say what torch.compile did: torch's structured log, generated code, provenance.

They are read when something first asks about them, and a file that cannot be read is left out: a trace is read without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.trace.trace import Trace

FileKind = Literal["log", "code", "graph", "json"]
"""log: torch's structured log (TORCH_TRACE). code: what Inductor generated, a graph a file. graph: a printed FX graph.
json: provenance and tables of lines."""

COMPILE_TABLES: Final = (
    "linemaps.json",
    "inductor_provenance_tracking_node_mappings.json",
    "inductor_provenance_tracking_kernel_stack_traces.json",
)
"""Endings of the names of tables, which are JSON and no traces."""

MAX_FILES: Final = 4096
"""Files of one rank at most: a cache of Inductor's may hold those of years."""

MAX_TEXT_BYTES: Final = 1 << 25
"""Bytes of a file that is read as a whole: generated files of large models have some megabytes."""

_LINE_BREAK: Final = re.compile(rb"\r?\n")
_KINDS: Final[tuple[tuple[FileKind, re.Pattern[str]], ...]] = (
    ("log", re.compile(r"(?:^|/)dedicated_log_torch_trace_[^/]*\.log(?:\.gz)?\Z")),
    ("graph", re.compile(r"(?:^|/)(?:fx_graph_(?:readable|transformed)|computation_graph)\.py\Z")),
    ("json", re.compile(rf"(?:{'|'.join(re.escape(name) for name in COMPILE_TABLES)})\Z")),
    ("code", re.compile(r"(?:^|/)(?:output_code|c[a-z2-7]{50,52})\.py\Z|\.wrapper\.cpp\Z")),
)
"""Names of files: of TORCH_TRACE, of TORCH_COMPILE_DEBUG, of our recorder, of the caches of Inductor and vLLM."""

Opener = Callable[[str], Iterable[bytes]]
"""The bytes of a file, decompressed, in blocks. It raises a KinetoscopeError where there is none."""


@dataclass(frozen=True)
class CompileFile:
    """One file.

    Attributes:
        name: its path or URL.
        kind: what is in it.
    """

    name: str
    kind: FileKind
    _open: Opener

    def text(self) -> str:
        """All of it, "" of one longer than MAX_TEXT_BYTES; what is no UTF-8 is replaced."""
        blocks: list[bytes] = []
        for block in self._open(self.name):
            blocks.append(block)
            if sum(map(len, blocks)) > MAX_TEXT_BYTES:
                return ""
        return b"".join(blocks).decode("utf-8", "replace")

    def lines(self) -> Iterator[str]:
        """Its lines, without their ends, as they are read, up to one longer than MAX_TEXT_BYTES."""
        rest = b""
        for block in self._open(self.name):
            *lines, rest = _LINE_BREAK.split(rest + block)
            yield from (line.decode("utf-8", "replace") for line in lines)
            if len(rest) > MAX_TEXT_BYTES:
                return
        if rest:
            yield rest.decode("utf-8", "replace")


def kind_of_file(path: str) -> FileKind | None:
    """The content of a file by its name; None for files that are of no use here."""
    return next((kind for kind, pattern in _KINDS if pattern.search(path.replace("\\", "/"))), None)


def compile_files(trace: Trace) -> tuple[CompileFile, ...]:
    """The files of the trace's rank, in order of name."""
    return tuple(trace.companions("compile")[:MAX_FILES])


def readable(file: CompileFile) -> str:
    """The text of a file; "" where it cannot be read."""
    try:
        return file.text()
    except KinetoscopeError:
        return ""
