"""RANKS002: tensors of devices go through gloo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.communication import communication_costs
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.wording import each_step
from kinetoscope.views.sentences import measured, say

_RATE: Final = 4e9
"""Bytes a second on the bus that a library of devices surely reaches, even without fast links."""

_SETUP: Final = 60e3
"""Nanoseconds that such a collective takes however small it is."""

_CERTAIN_SHARE: Final = 0.9
_CERTAIN_SHARE_WITHOUT_SIZES: Final = 0.25


def gloo_between_devices(job: JobView) -> Iterator[Finding]:
    """Do devices exchange data through a library that runs on hosts?

    What it checks. Collectives on the host (gloo) in a job whose work is on devices, and how much of their transfer
    no computation hides.

    Why it matters. gloo copies each tensor to the host, sends it over the host's network, and copies it back. NCCL and
    similar libraries send from device to device. At most, all of the exposed transfer is at stake. The lower end
    is nine tenths of it, less the time that the same bytes take at 4 GB/s on the bus, which devices of one machine
    reach without any fast link. Between machines, or where sizes were not recorded, a quarter of it is the lower end.

    What to do. Make the process group with the backend of the devices. Keep gloo for objects and barriers of the host.
    """
    costs = communication_costs(job)
    slow = costs.collectives.filter("on_host")
    if not len(slow):
        return
    exposed = float(slow["exposed_transfer"].sum())
    bus = pl.col("bytes").fill_null(0) * pl.col("factor").fill_null(2.0) / _RATE * 1e9 + _SETUP
    instead = float(slow.select((pl.col("calls") * pl.col("members") * bus).sum()).item())
    calls = float(slow.select((pl.col("calls") * pl.col("members")).sum()).item())
    known = bool((slow["bytes"].is_not_null() & (slow["bytes"] > 0) & (slow["hosts"] == 1)).all())
    low = max(_CERTAIN_SHARE * exposed - instead, 0.0) if known else _CERTAIN_SHARE_WITHOUT_SIZES * exposed
    yield Finding(
        message=say(
            "Devices exchange data by gloo, which runs on the host. Nothing hides {exposed} of each step, in {calls}.",
            exposed=measured(exposed, "ns"),
            calls=each_step(calls, "call"),
        ),
        stake=Stake(min(low, exposed), exposed),
        takes=exposed,
        change='- dist.init_process_group("gloo")\n+ dist.init_process_group("nccl")',
        why="Exposed transfer, without waiting for late ranks; NCCL reaches 4 GB/s on the bus at least."
        if known
        else "Exposed transfer, without waiting for late ranks; at least a quarter between machines, or without sizes.",
        confidence="medium",
        evidence=(Evidence("the collectives by kind", "collectives"),),
        time=costs.of_transfer(exposed),
    )


RULE = Rule("RANKS002", "Devices exchange data by gloo", of_job=gloo_between_devices)
