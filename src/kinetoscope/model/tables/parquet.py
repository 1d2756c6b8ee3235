"""The layout of a trace in a folder of Parquet files, for the writer and the reader.

    OUT/ops.parquet, OUT/kernels.parquet, …    the declared tables, for whoever likes; never read again
    OUT/trace/*.parquet                        the columns of the Trace, from which it is made anew, nothing left out

The manifest, a JSON object, is in the metadata of the file EVENTS, which is written last: where it is, the rest is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import polars as pl

from kinetoscope.model.trace.symptoms import facts_of, note_of
from kinetoscope.notes import Note
from kinetoscope.schema import DType

FOLDER: Final = "trace"
MANIFEST: Final = "kinetoscope.trace"
"""Key of the manifest in the metadata."""

COLUMNS: Final = "kinetoscope.columns"
"""Key of what the columns of a declared table mean, in the metadata of its file: JSON, by name."""

VERSION: Final = 1

EVENTS, VALUES, STRINGS, ARENA, SHAPES, TRACKS, MEMBERS = (
    "events", "values", "strings", "arena", "shapes", "tracks", "members"
)  # fmt: skip

FILES: Final[dict[str, dict[str, DType]]] = {
    VALUES: {"value": pl.Int64},
    STRINGS: {"offset": pl.Int64, "oddities": pl.UInt8},
    ARENA: {"bytes": pl.Binary},
    SHAPES: {"items": pl.List(pl.Int64)},
    TRACKS: {"pid": pl.String, "tid": pl.String},
    MEMBERS: {"key": pl.Binary, "text": pl.Binary},
    EVENTS: {
        "ph": pl.UInt8,
        "category": pl.Int32,
        "name": pl.Int32,
        "track": pl.Int32,
        "start": pl.Int64,
        "end": pl.Int64,
        "shape": pl.Int32,
    },
}
"""The files under FOLDER, without their ending, and their columns; see `Trace`, `Strings`, `Shapes`.

ARENA has the bytes of all strings, cut into pieces; SHAPES their items as `shapes.packed` packs them; TRACKS the pids
and tids as JSON; MEMBERS text as UTF-8, which may hold halves of surrogate pairs.
"""

PIECE: Final = 1 << 20
"""Bytes of the arena in one row."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """Facts of a trace that are no column.

    Attributes:
        version: of this layout.
        rank, cycle, world: which of the job's traces it is, and how many ranks the job had; 0 if it does not say.
        members_before_events, text_bytes: see `Trace`.
        arena_bytes: size of the arena with the room that it has left.
        reading: what was odd when the trace was read, a `Note` each.
    """

    version: int
    rank: int
    cycle: int
    world: int
    members_before_events: int
    text_bytes: int
    arena_bytes: int
    reading: tuple[Note, ...]

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {
            "reading": [facts_of(symptom) for symptom in self.reading]
        }

    @classmethod
    def of(cls, facts: Any) -> Manifest:
        """The manifest from JSON.

        Raises:
            ValueError: it is none, or of another version.
        """
        if not isinstance(facts, dict) or facts.get("version") != VERSION:
            version = facts.get("version") if isinstance(facts, dict) else None
            raise ValueError(f"its layout has version {version!r}, and this program knows version {VERSION}")
        numbers = {field.name: _integer(facts, field.name) for field in fields(cls) if field.name != "reading"}
        reading = facts.get("reading")
        return cls(**numbers, reading=tuple(map(note_of, reading if isinstance(reading, list) else [None])))


def _integer(facts: dict[str, Any], name: str) -> int:
    value = facts.get(name)
    least = -1 if name == "members_before_events" else 0
    if type(value) is not int or not least <= value < 1 << 62:
        raise ValueError(f"its manifest says {name} = {value!r}")
    return value
