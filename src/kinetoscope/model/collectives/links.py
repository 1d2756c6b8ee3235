"""Links that collectives pass: those between the devices of a machine, or the network between machines; their peaks."""

from __future__ import annotations

from typing import Literal

import polars as pl

from kinetoscope.model.collectives.process_groups import ranks_of
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.device.peaks import known_peaks
from kinetoscope.model.trace.trace import Trace

CollectiveLink = Literal["device", "network"]


def link_columns(trace: Trace, calls: pl.DataFrame) -> pl.DataFrame:
    """The calls of a rank with `link`, a `CollectiveLink`, and `link_bandwidth`, its peak in one direction, bytes/s.

    Both are null on the host, the peak also where it is unknown; see `known_peaks`.
    """
    keys = ["device", "group_ranks", "group_size"]
    groups = calls.select(keys).unique().drop_nulls("device")
    local = len(devices(trace))
    links = [_link(ranks, size, local) for _, ranks, size in groups.rows()]
    peaks = [known_peaks(trace, number).peak for number in groups["device"].to_list()]
    rates = [
        None if peak is None else peak.network if link == "network" else peak.link or peak.host_link
        for link, peak in zip(links, peaks, strict=True)
    ]
    known = groups.with_columns(
        pl.Series("link", links, pl.String), pl.Series("link_bandwidth", rates, pl.Float64, strict=False)
    )
    return calls.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _link(ranks: str | None, size: int | None, local: int) -> CollectiveLink:
    """The link that the collectives of a group pass, where the process sees `local` devices.

    Ranks are numbered machine by machine, and a process that sees several devices sees all of its machine's, as with
    torchrun. Where only one is seen, the machines are unknown: the faster link then keeps a floor a floor.
    """
    if local < 2:
        return "device"
    if ranks is None:
        return "network" if size is not None and size > local else "device"
    return "network" if len({rank // local for rank in ranks_of(ranks)}) > 1 else "device"
