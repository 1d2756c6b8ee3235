"""Ranges of NVTX as what they were in the program: operators of torch (`emit_nvtx`), markers of pyprof, and others.

`torch.autograd.profiler.emit_nvtx` and `nsys profile --pytorch=autograd-nvtx` write the operator's name, and behind it
any of seq, op_id, sizes and input_op_ids: `aten::mm, seq = 12, op_id = 34, sizes = [[4, 8], [8, 2]]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.trace.build import Coded
from kinetoscope.readers.sqlite.database import MISSING

_ATTRIBUTES: Final = r"(?s)((?:, (?:seq|op_id|sizes|input_op_ids) = [^=]*)+)$"
"""What stands behind the name; parsed from the right, as names may have commas."""

_MARKER: Final = r"""^\{.*['"]op['"]\s*:\s*['"]([^'"]+)['"]"""
_MODULE: Final = r"""^\{.*['"]mod['"]\s*:\s*['"]([^'"]+)['"]"""
_MAX_SIZES_BYTES: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class NvtxRanges:
    """Texts of ranges, taken apart; one row each.

    Attributes:
        name: of the operator or the range.
        is_operator: bool, torch recorded it.
        sequence: int64, that joins an operator with its backward; `MISSING` for none.
        operator_id: int64, `op_id`; `MISSING` for none.
        sizes: lists of the sizes of its inputs; an empty list where unknown.
    """

    name: Coded
    is_operator: Bools
    sequence: Int64s
    operator_id: Int64s
    sizes: Coded


def ranges(texts: pl.Series | list[str]) -> NvtxRanges:
    """The parts of the texts of ranges."""
    text = pl.Series("text", texts, pl.String)
    attributes = text.str.extract(_ATTRIBUTES).fill_null("")
    length = text.str.len_bytes() - attributes.str.len_bytes()
    frame = pl.DataFrame({"text": text, "attributes": attributes, "length": length})
    marker, module = text.str.extract(_MARKER), text.str.extract(_MODULE)
    names = frame.select(
        pl.when(marker.is_not_null())
        .then(pl.concat_str(module.fill_null(""), marker.fill_null(""), separator="."))
        .otherwise(pl.col("text").cast(pl.Binary).bin.slice(0, pl.col("length")).cast(pl.String))
        .str.strip_prefix(".")
    ).to_series()
    sizes = attributes.str.extract(r"(?s), sizes = (\[[^=]*?\])(?:, \w+ = |$)")
    sizes = sizes.set(sizes.str.len_bytes() > _MAX_SIZES_BYTES, None)
    return NvtxRanges(
        name=coded(names),
        is_operator=((attributes.str.contains(", op_id = ", literal=True)) | marker.is_not_null()).to_numpy(),
        sequence=_integers(attributes.str.extract(r", seq = (\d{1,18})(?:,|$)")),
        operator_id=_integers(attributes.str.extract(r", op_id = (\d{1,18})(?:,|$)")),
        sizes=_lists(sizes),
    )


def coded(texts: pl.Series) -> Coded:
    """Texts, each once."""
    distinct = texts.unique(maintain_order=True)
    places = pl.DataFrame({"text": distinct, "place": np.arange(len(distinct))})
    codes = texts.to_frame("text").join(places, on="text", how="left", maintain_order="left", nulls_equal=True)
    return Coded(codes["place"].to_numpy().astype(np.int64), distinct.fill_null("").to_list())


def _integers(texts: pl.Series) -> Int64s:
    numbers: Int64s = texts.cast(pl.Int64, strict=False).fill_null(MISSING).to_numpy()
    return numbers


def _lists(texts: pl.Series) -> Coded:
    """Lists of lists of numbers, as JSON has them; an empty one for what is none."""
    every = coded(texts.fill_null(""))
    return Coded(every.codes, [_sizes(text) for text in every.values])


def _sizes(text: str) -> list[list[int]]:
    inside = text.strip()[1:-1]
    return [
        [int(number) for number in part.split(",") if number.strip().isdecimal() and len(number) < 20]
        for part in inside.replace("[", "").split("]")[:-1]
    ]
