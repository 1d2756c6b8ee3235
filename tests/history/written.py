"""Files of histories as the recorder writes them, of any steps and marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinetoscope.record.history import layout
from tests.history.drawn import Drawn

RECORD = np.dtype([(name, {"q": "<i8", "f": "<f4", "I": "<u4"}[code]) for name, code, _ in layout.FIELDS])
START = 1_795_900_000_000_000_000


def records(count: int, *, first: int = 0, each: int = 100_000_000, **fields: Any) -> np.ndarray[Any, Any]:
    """Steps of `each` ns and a gap of a tenth of that; what is not given is not known."""
    rows = np.zeros(count, RECORD)
    for name, code, _ in layout.FIELDS:
        rows[name] = {"q": 0, "f": np.nan, "I": layout.UNKNOWN_INTEGER}[code]
    rows["step"] = np.arange(first, first + count)
    rows["start"] = START + rows["step"].astype(np.int64) * (each + each // 10)
    rows["duration"] = each
    for name, values in fields.items():
        rows[name] = values
    return rows


def blocks(rows: np.ndarray[Any, Any], of: int = 10) -> bytes:
    """Blocks of so many records."""
    size = RECORD.itemsize * of
    content = rows.tobytes()
    return b"".join(
        layout.block(layout.STEPS_BLOCK, RECORD.itemsize, content[at : at + size])
        for at in range(0, len(content), size)
    )


def head(rank: int = 0, **facts: Any) -> dict[str, Any]:
    """The head of a file."""
    return {
        "format": layout.FORMAT,
        "run": "",
        "rank": rank,
        "world": 1,
        "attempt": 0,
        "host": "host",
        "local_rank": 0,
        "pid": 7,
        "began": START,
        "fields": layout.FIELDS,
        **facts,
    }


def write(
    folder: Path,
    rows: np.ndarray[Any, Any],
    marks: Sequence[layout.Mark] = (),
    *,
    rank: int = 0,
    of: int = 10,
    **facts: Any,
) -> Path:
    """A file in the folder of a run."""
    about = head(rank, **facts)
    path = folder / layout.FOLDER / f"host.{rank}.attempt{about['attempt']}.7-{about['began']:x}{layout.ENDING}"
    path.parent.mkdir(parents=True, exist_ok=True)
    body = blocks(rows, of) + (layout.text_block(layout.MARKS_BLOCK, list(marks)) if marks else b"")
    path.write_bytes(layout.text_block(layout.HEAD_BLOCK, about) + body)
    return path


def write_run(folder: Path, series: Drawn, *, ended: bool = True) -> Path:
    """The files of a drawn run, one for each rank; returns the folder."""
    for row, frame in enumerate(series.frames):
        fields: dict[str, Any] = {name: frame[name].to_numpy() for name in ("data", "forward", "backward", "optimizer")}
        duration = (frame["end"] - frame["start"]).to_numpy()
        rows = records(len(frame), start=frame["start"].to_numpy(), duration=duration, **fields)
        marks = [(kind, detail, *times) for _, _, kind, detail, *times in series.marks.filter(rank=row).iter_rows()]
        last = int(frame["end"][-1])
        marks += [("end", None, len(frame) - 1, last, last)] if ended else []
        write(folder, rows, marks, rank=row, of=50, world=len(series.frames))
    return folder
