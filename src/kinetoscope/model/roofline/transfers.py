"""Device work that has its cost as it is: copies, sets of memory, collectives, optimizers that no operator launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.collectives.attributes import POINT_TO_POINT
from kinetoscope.model.collectives.bandwidth import bus_factor
from kinetoscope.model.collectives.calls import collective_calls
from kinetoscope.model.device.copies import SET, UNKNOWN_DIRECTION, copies
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.formulas.optimizers import bytes_of_apex
from kinetoscope.model.roofline.launches import MAX_GIGABYTES, MAX_OPERATIONS, blocks_of_kernels
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing
from kinetoscope.model.trace.trace import Trace

Link = Literal["none", "host", "device", "network"]
"""What bytes pass: the memory of the device itself, its link to the host, to other devices, to other hosts."""

_WITHIN: Final[dict[str, int]] = {"DtoD": 2, SET: 1}
"""Directions that stay in a device's memory, and how often it is read or written for each byte."""

_LEAST_RANKS: Final = 2
"""Ranks of a group of which nothing was recorded."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Transfers of a name and size.

    Attributes:
        name: the direction of a copy, memset, or the kind of a collective.
        bytes: that pass the link, in one direction; within a memory those read and those written. Of a collective they
            are its size × the factor of nccl-tests, 2(n−1)/n for an all-reduce of n ranks; where n was not recorded,
            that of two ranks, the least.
        link: what they pass.
        is_least: may more pass, since the number of ranks was not recorded?
        flop: operations of products, of kernels that say what they cost, whose bytes may be unknown.
        precision: what those are computed in, one of `peaks.PRECISIONS`; "" unknown.
    """

    name: str
    bytes: int | None
    link: Link
    is_least: bool = False
    flop: int = 0
    precision: str = ""


@dataclass(frozen=True)
class TransfersOfWork:
    """The transfers of a trace.

    Attributes:
        code: int32 [work], place in `kinds`, −1 for work that is none.
        kinds: the distinct ones.
    """

    code: Int32s
    kinds: tuple[Transfer, ...]


def transfers(trace: Trace, call: Int32s) -> TransfersOfWork:
    """The device work that is a transfer.

    That are copies between memories, those within one that no call accounts for, and collectives whose size was
    recorded, the first kernel of each. Kernels of optimizers without operators stand with them.

    call: int32 [work], the call that each piece is charged to, −1 for none.
    """
    every = copies(trace)
    is_within = np.array([name in _WITHIN for name in every.directions], np.bool_)[every.direction]
    is_known = np.array([name != UNKNOWN_DIRECTION for name in every.directions], np.bool_)[every.direction]
    chosen = np.flatnonzero(is_known & (every.bytes >= 0) & (~is_within | (call[every.work] < 0)))
    codes, first = group(every.direction[chosen].astype(np.int64), every.bytes[chosen])
    code = scattered(len(call), every.work[chosen], codes, np.int32)
    moved = [
        _copy(every.directions[every.direction[place]], int(every.bytes[place])) for place in chosen[first].tolist()
    ]
    collectives = _collectives(trace)
    at = np.searchsorted(device_work(trace).rows, collectives["row"].to_numpy())
    distinct = collectives.select("kind", "bytes", "link", "is_least").unique(maintain_order=True)
    numbered = collectives.join(distinct.with_row_index("code"), on=distinct.columns, how="left", maintain_order="left")
    code[at] = len(moved) + numbered["code"].to_numpy()
    known = [*moved, *(Transfer(*row) for row in distinct.rows())]
    of_apex, kinds = _kernels_of_apex(trace, np.flatnonzero((call < 0) & (code < 0)))
    code[of_apex >= 0] = len(known) + of_apex[of_apex >= 0]
    known += kinds
    of_own, own = _kernels_with_costs(trace, np.flatnonzero((call < 0) & (code < 0)))
    code[of_own >= 0] = len(known) + of_own[of_own >= 0]
    return TransfersOfWork(code, (*known, *own))


def _kernels_with_costs(trace: Trace, chosen: Int64s) -> tuple[Int32s, list[Transfer]]:
    """Kernels that say themselves what they cost, as Proton's do: see `_kernels_of_apex`."""
    work = device_work(trace)
    rows = work.rows[chosen]
    flop, gigabytes = (arguments.floats(trace, name, rows) for name in ("kernel_flop", "kernel_gigabytes"))
    is_known = ((flop >= 0) & (flop < MAX_OPERATIONS)) | ((gigabytes >= 0) & (gigabytes < MAX_GIGABYTES))
    chosen, rows, flop, gigabytes = chosen[is_known], rows[is_known], flop[is_known], gigabytes[is_known]
    precision = arguments.codes(trace, "kernel_precision", rows)
    moved = np.where(gigabytes >= 0, np.rint(gigabytes * 1e9), -1).astype(np.int64)
    operations = np.where(flop >= 0, np.rint(flop), 0).astype(np.int64)
    codes, first = group(trace.name[rows], operations, moved, precision)
    result = scattered(len(work), chosen, codes, np.int32)
    return result, [
        Transfer(
            trace.strings.glance(int(trace.name[rows[place]])),
            int(moved[place]) if moved[place] >= 0 else None,
            "none",
            flop=int(operations[place]),
            precision=known if (known := trace.strings.label(int(precision[place]))) in PRECISIONS else "",
        )
        for place in first.tolist()
    ]


def _kernels_of_apex(trace: Trace, chosen: Int64s) -> tuple[Int32s, list[Transfer]]:
    """Kernels over lists among some work that no call accounts for: int32 [work], places in the list, −1 for others."""
    work = device_work(trace)
    rows = work.rows[chosen]
    named = rows_containing(trace, ("multi_tensor_apply",), EventKind.KERNEL)[rows]
    chosen, rows = chosen[named], rows[named]
    sizes = blocks_of_kernels(trace, rows)
    codes, first = group(trace.name[rows], sizes)
    result, kinds = np.full(len(work), -1, np.int32), list[Transfer]()
    for code, place in enumerate(first.tolist()):
        kernel = trace.strings.glance(int(trace.name[rows[place]]))
        moved = bytes_of_apex(kernel, int(sizes[place]))
        if moved is not None:
            result[chosen[codes == code]] = len(kinds)
            kinds.append(Transfer(kernel, moved, "none", is_least=True))
    return result, kinds


def _copy(direction: str, nbytes: int) -> Transfer:
    if direction in _WITHIN:
        return Transfer(direction, _WITHIN[direction] * nbytes, "none")
    return Transfer(direction, nbytes, "device" if direction == "PtoP" else "host")


def _collectives(trace: Trace) -> pl.DataFrame:
    """Row, kind, link, bus bytes and whether they are the least of each collective that is known by its size."""
    calls = collective_calls(trace).filter(~pl.col("on_host"))
    size = pl.col("bytes") * bus_factor(pl.col("group_size").fill_null(_LEAST_RANKS))
    moved = calls.select(
        "row", "kind", "link",
        bytes=size.round().cast(pl.Int64, strict=False),
        is_least=pl.col("group_size").is_null() & ~pl.col("kind").is_in(POINT_TO_POINT),
    )  # fmt: skip
    return moved.drop_nulls("bytes")
