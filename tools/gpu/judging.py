"""Judges what came back, without a device: one table in Markdown, the first screen of each recording, and test data."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Final

from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.device.own_peaks import FILE_VARIABLE
from kinetoscope.outputs.summary import summary
from kinetoscope.screens.terminal import lines
from tests.traces.strip import problems, strip_bytes
from tools.gpu.packing import PACKED, unpack
from tools.gpu.sections import BROKEN, MOOT, Recorded, Row, peaks_of, sections

TABLE: Final = "table.md"
_SCREENS: Final = "screens"
_WIDTH: Final = 100
_HEAD: Final = ("part", "what", "found", "held against", "verdict")

_MAX_KEPT_BYTES: Final = 150_000
"""Bytes of a trace that becomes test data, as tests/traces/README.md has it."""

_TRACES: Final = "*.pt.trace.json.gz"


def judge(archives: Sequence[Path], output: Path, *, keep: Path | None = None) -> int:
    """Write and print the table; 1 if something does not hold.

    Args:
        archives: what recording packed, of one machine.
        output: the folder for the table, the screens and what was unpacked.
        keep: where small traces go, stripped of names and paths.
    """
    folder = output / "recorded"
    shutil.rmtree(folder, ignore_errors=True)
    unpack(archives, folder)
    recorded = Recorded(folder, json.loads((folder / PACKED).read_text("utf-8")))
    before = os.environ.get(FILE_VARIABLE)
    os.environ[FILE_VARIABLE] = str(peaks_of(recorded))  # those of that machine, and of no other
    try:
        rows = [*sections(recorded), *screens(recorded, output / _SCREENS)]
    finally:
        os.environ.pop(FILE_VARIABLE)
        os.environ.update({FILE_VARIABLE: before} if before is not None else {})
    if keep is not None:
        rows += kept(recorded, keep)
    text = table(rows)
    (output / TABLE).write_text(text, "utf-8")
    print(text)
    return int(any(row.verdict == BROKEN for row in rows))


def table(rows: Sequence[Row]) -> str:
    """In Markdown."""
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in astuple(row)] for row in rows]
    every = [list(_HEAD), ["---"] * len(_HEAD), *cells]
    return "".join(f"| {' | '.join(row)} |\n" for row in every)


def runs(recorded: Recorded) -> Iterator[tuple[str, Path]]:
    """Folders with traces, and their names; captures and the operators of the floors are no runs."""
    for folder in sorted({file.parent for file in recorded.folder.rglob(_TRACES)}):
        name = folder.relative_to(recorded.folder).as_posix()
        if folder.name != "capture_traces" and not name.startswith("floors/"):
            yield name, folder


def screens(recorded: Recorded, output: Path) -> Iterator[Row]:
    """The first sentences of each summary; the whole of it goes to a file."""
    output.mkdir(parents=True, exist_ok=True)
    for name, folder in runs(recorded):
        try:
            digest = summary(str(folder))
        except KinetoscopeError as error:
            yield Row("screens", name, str(error), "a summary", BROKEN)
            continue
        text = ["".join(piece for piece, _ in line) for line in lines(digest, width=_WIDTH)]
        (output / f"{name.replace('/', '-')}.txt").write_text("\n".join(text) + "\n", "utf-8")
        yield Row("screens", name, _headline(text), verdict=MOOT)


def _headline(screen: Sequence[str]) -> str:
    """The second paragraph, which follows the file's name, and what to change."""
    paragraphs = [" ".join(part.split()) for part in "\n".join(screen).split("\n\n")]
    return " ".join([*paragraphs[1:2], *(each for each in paragraphs[2:] if each.startswith("What to change"))])


def kept(recorded: Recorded, folder: Path) -> Iterator[Row]:
    """Small traces as test data: no name of the host in their names, nor anything private in them."""
    for name, run in runs(recorded):
        for place, file in enumerate(sorted(run.glob(_TRACES))):
            content = strip_bytes(file.read_bytes())
            if len(content) > _MAX_KEPT_BYTES or problems(content):
                continue
            target = folder / f"{name.replace('/', '-')}-{place}.pt.trace.json.gz"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            yield Row("kept", target.name, f"{len(content):,} bytes")
