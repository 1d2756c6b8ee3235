"""What the devices can do at most: peaks of the datasheets, those that were measured, and those given by hand."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.device.peaks import HOST, UNITS, Lookup, known_peaks
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device that the rank used; null for the host, where none was used."),
    Column("product", pl.String, "The product that the device is taken for, or the variant of it."),
    Column("name", pl.String, "What the peak is of: `--peak` takes these names."),
    Column("peak", pl.Float64, "Operations a second, dense.", "flop/s"),
    Column("peak_bandwidth", pl.Float64, "Bytes a second; of links in one direction.", "bytes/s"),
    Column("attainable_share", pl.Float64, "Attainable / peak.", "fraction"),
    Column("used", pl.String, "Which one shares are taken of: `datasheet`, `measured` or `given`."),
    Column("attainable", pl.Float64, "Operations a second as `kinetoscope calibrate` measured them.", "flop/s"),
    Column("attainable_bandwidth", pl.Float64, "Bytes a second as it measured them.", "bytes/s"),
    Column("size", pl.Int64, "Size of the largest cache.", "bytes"),
    Column("source", pl.String, "Datasheet that states the peak."),
    across={
        "device": "device",
        "key": "product name",
        "agreed": "peak peak_bandwidth size attainable attainable_bandwidth attainable_share used source",
    },
)


def peaks(trace: Trace, select: Selection) -> Partial:
    """What can each device do at most, and who says so?

    Method. A device is recognised by the name that the file has for it, by its multiprocessors and its memory. Its
    peaks are those of the vendor's datasheet: dense, without structured sparsity, at the boost clock; matrix products
    accumulate in FP32. A slice of MIG has its share of multiprocessors and of memory. `--peak NAME=VALUE`, and the file
    that KINETOSCOPE_PEAKS names, count before the datasheet. `kinetoscope calibrate`, run on the device, measures what
    products and copies attain there; `--peak attainable` takes that for all shares, floors and stakes.

    How to read it. `fp64` to `fp4` are matrix products in that precision; `vector_fp32` and `vector_fp64` all other
    arithmetic, which torch does in FP32 for types of fewer bits; `memory` reads and writes together; `link` all links
    to other devices and `host_link` the link to the host, each in one direction; `network` only you can know. Real
    programs attain some 70 to 90 % of a datasheet's products and 90 % of its memory bandwidth.

    Limits. What a datasheet does not state, or sources disagree on, has no row. A device whose power or clock is capped
    attains less than its datasheet says.
    """
    view = scope(trace, select)
    work = device_work(trace)
    used = np.unique(work.device[view.device_work_mask]).tolist() if len(work) else []
    known = [each.number for each in devices(trace)]
    rows, notes = [], []
    for number in used or known or [HOST]:
        lookup = known_peaks(trace, number)
        rows += list(_rows(number, lookup))
        notes.append(lookup.note)
    return Partial(RESULT.per_rank.frame(rows), tuple(dict.fromkeys(notes)))


ANALYSIS = Analysis("Peaks", peaks, RESULT, of_device_work=False, of_sums=())


def _rows(number: int, lookup: Lookup) -> Iterator[tuple[int | str | float | None, ...]]:
    stated = lookup.datasheet.rates if lookup.datasheet else {}
    measured = {name: lookup.attainable.rates[name] for name in lookup.measured} if lookup.attainable else {}
    product = lookup.peak.product if lookup.peak else None
    for name, unit in UNITS.items():
        peak, attained = stated.get(name), measured.get(name)
        if peak is not None or attained is not None:
            yield number if number != HOST else None, product, *_of_rate(lookup, name, unit, peak, attained)


def _of_rate(
    lookup: Lookup, name: str, unit: str, peak: float | None, attained: float | None
) -> tuple[int | str | float | None, ...]:
    """The columns of a row that follow from a rate: as a datasheet has it, and as it was measured."""

    def if_unit(wanted: str, value: float | None) -> float | None:
        return value if unit == wanted else None

    published = peak if name not in lookup.given else None
    return (
        name,
        if_unit("flop/s", peak),
        if_unit("bytes/s", peak),
        attained / published if attained and published else None,
        lookup.origin(name),
        if_unit("flop/s", attained),
        if_unit("bytes/s", attained),
        int(peak or attained or 0) if unit == "bytes" else None,
        lookup.datasheet.source or None if lookup.datasheet and published else None,
    )
