"""A trace written as a folder of Parquet files: its declared tables, and the columns that make it anew.

`model.tables.parquet` says how the folder looks, `readers.parquet` reads it again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kinetoscope.model.tables import parquet
from kinetoscope.model.tables.parquet import Manifest
from kinetoscope.model.tables.tables import STORED_TABLES, TABLES, table
from kinetoscope.model.trace.shapes import pack_item
from kinetoscope.model.trace.trace import Trace


def write(trace: Trace, folder: str | Path) -> None:
    """Write a trace into a folder, which is made; files of these names in it are replaced.

    Raises:
        OSError: a file cannot be written.
    """
    folder = Path(folder)
    inner = folder / parquet.FOLDER
    inner.mkdir(parents=True, exist_ok=True)
    marker = inner / f"{parquet.EVENTS}.parquet"
    marker.unlink(missing_ok=True)  # until all is there, the folder holds no trace
    for name in STORED_TABLES:
        declared = TABLES[name]
        frame = declared.schema.conform(table(trace, name))
        columns = {column.name: {"unit": column.unit, "doc": column.doc} for column in declared.schema}
        frame.write_parquet(
            folder / f"{name}.parquet",
            metadata={parquet.COLUMNS: json.dumps({"doc": declared.doc, "columns": columns})},
        )
    for name, frame in _frames(trace).items():
        frame.write_parquet(inner / f"{name}.parquet", compression="lz4", statistics=False)
    manifest = json.dumps(_manifest(trace).plain())
    frame = pl.DataFrame({name: getattr(trace, name) for name in parquet.FILES[parquet.EVENTS]})
    frame.write_parquet(marker, compression="lz4", statistics=False, metadata={parquet.MANIFEST: manifest})


def _manifest(trace: Trace) -> Manifest:
    facts = trace.metadata.get("distributedInfo")
    world: Any = facts.get("world_size") if isinstance(facts, dict) else 0
    return Manifest(
        version=parquet.VERSION,
        rank=trace.source.rank,
        cycle=trace.source.cycle,
        world=world if type(world) is int and 0 <= world < 1 << 31 else 0,
        members_before_events=trace.members_before_events,
        text_bytes=trace.text_bytes,
        arena_bytes=trace.strings.capacity,
        reading=trace.reading,
    )


def _frames(trace: Trace) -> dict[str, pl.DataFrame]:
    arena, offsets, oddities = trace.strings.parts
    content = arena.tobytes()
    columns: dict[str, dict[str, Any]] = {
        parquet.VALUES: {"value": trace.values},
        parquet.STRINGS: {"offset": np.ascontiguousarray(offsets), "oddities": oddities},
        parquet.ARENA: {"bytes": [content[at : at + parquet.PIECE] for at in range(0, len(content), parquet.PIECE)]},
        parquet.SHAPES: {"items": [[pack_item(item) for item in items] for items in trace.shapes.items]},
        parquet.TRACKS: {"pid": _json(trace.tracks.pids), "tid": _json(trace.tracks.tids)},
        parquet.MEMBERS: {
            "key": [key.encode("utf-8", "surrogatepass") for key, _ in trace.members],
            "text": [text.encode("utf-8", "surrogatepass") for _, text in trace.members],
        },
    }
    return {name: pl.DataFrame(values, schema=parquet.FILES[name]) for name, values in columns.items()}


def _json(values: list[Any]) -> list[str]:
    return [json.dumps(value) for value in values]
