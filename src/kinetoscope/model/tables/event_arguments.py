"""The arguments of events as rows, one for each argument: what the table `arguments` holds."""

from __future__ import annotations

import json

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.shapes import ARGUMENT_LEVEL, FALSE, FLOAT, INT, NUMBER_TEXT, RAW, SLOTS, STRING, TRUE
from kinetoscope.model.trace.trace import Trace


def rows_of_arguments(trace: Trace) -> Int32s:
    """The row of the event that each argument belongs to, in the order of the file: int32 [arguments]."""
    counts = np.array([sum(level == ARGUMENT_LEVEL for *_, level in shape) for shape in trace.shapes.items], np.int64)
    return np.repeat(np.arange(len(trace), dtype=np.int32), counts[trace.shape] if len(trace) else 0)


def keys_and_values(trace: Trace, rows: Int32s) -> dict[str, pl.Series]:
    """Key, value as text and value as a number of each argument; `rows` as `rows_of_arguments` gives them."""
    items, first = _items(trace)
    begins = np.flatnonzero(np.append(True, rows[1:] != rows[:-1])) if len(rows) else np.empty(0, np.int64)
    place = np.arange(len(rows)) - np.repeat(begins, np.diff(np.append(begins, len(rows))))
    key, kind, slot = items[first[trace.shape[rows]] + place].T if len(rows) else np.empty((3, 0), np.int64)
    bits = np.zeros(len(rows), np.int64)
    held = kind < SLOTS
    bits[held] = trace.values[trace.first[rows[held]] + slot[held]]
    plain = polars_columns.texts(trace.strings, np.where(np.isin(kind, (STRING, NUMBER_TEXT)), bits, -1))
    nested = polars_columns.labelled(
        np.where(kind == RAW, bits, -1), lambda code: json.dumps(trace.strings.nested(code))
    )
    parts = pl.DataFrame({"kind": kind, "integer": bits, "float": bits.view(np.float64)})
    text = pl.coalesce(plain.cast(pl.String), nested.cast(pl.String))
    value = (
        pl.when(pl.col("kind") == INT)
        .then(pl.col("integer").cast(pl.String))
        .when(pl.col("kind") == FLOAT)
        .then(pl.col("float").cast(pl.String))
        .when(pl.col("kind") == TRUE)
        .then(pl.lit("true"))
        .when(pl.col("kind") == FALSE)
        .then(pl.lit("false"))
        .otherwise(text)
    )
    number = (
        pl.when(pl.col("kind") == INT).then(pl.col("integer").cast(pl.Float64)).when(pl.col("kind") == FLOAT)
    ).then(pl.col("float"))
    return {
        "row": pl.Series(rows),
        "key": polars_columns.texts(trace.strings, key),
        "value": parts.select(value.alias("value")).to_series(),
        "number": parts.select(number.alias("number")).to_series(),
    }


def _items(trace: Trace) -> tuple[Int64s, Int64s]:
    """Key, kind and slot of the arguments of all shapes: int64 [items, 3]; and where those of each shape begin."""
    items: list[tuple[int, int, int]] = []
    first = []
    for shape in trace.shapes.items:
        first.append(len(items))
        slot = 0
        for key, kind, level in shape:
            if level == ARGUMENT_LEVEL:
                items.append((key, kind, slot))
            slot += kind < SLOTS
    return np.array(items, np.int64).reshape(-1, 3), np.array(first, np.int64)
