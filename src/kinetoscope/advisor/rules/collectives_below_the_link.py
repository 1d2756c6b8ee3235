"""RANKS010: collectives reach little of the links that they pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.communication import PAIRWISE, communication_costs
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.views.sentences import constant, measured, say

_MIN_BYTES: Final = 4 << 20
"""Size from which on the time shows the link rather than latency."""

_LOW_EFFICIENCY: Final = 1 / 3
"""Share of the link's peak below which something else than the link limits."""

_NCCL_REACHES: Final = 0.4
"""Share of the link's peak that NCCL and RCCL reach at least at these sizes: with 8 devices of an HGX A100 or H100
nccl-tests prints 75 to 100 % of it from 100 MB on, and half of that at 4 to 16 MB."""

_CERTAIN_SHARE: Final = 0.8
"""Certain share of the gain: some of what is exposed stays so, as the last collective hides behind nothing."""

_MIN_STEP_SHARE: Final = 0.01
"""Share of a step that must be at stake."""


def collectives_below_the_link(job: JobView) -> Iterator[Finding]:
    """Do collectives within a machine reach little of the links between its devices?

    What it checks. The bus bandwidth, as nccl-tests defines it, of collectives of 4 MiB and more whose ranks are on one
    machine, without the time of waiting for late ranks, against the peak of the device's links in one direction
    (NVLink, xGMI, else PCIe). Between machines only `--peak network=...` tells what to compare with. It reports those
    below a third of the peak.

    Why it matters. Collectives that go over PCIe or through host memory, though the devices are linked, take many times
    as long. At most, the part that no computation hides shrinks by what they take beyond their floor; the lower end is
    eight tenths of the gain at 40 % of the link's peak. Where the files do not name the machines, the ranks may be on
    several, and it is only a note.

    What to do. See why NCCL does not use the links: `NCCL_DEBUG=INFO` prints `via P2P` or `via SHM`; look for
    `NCCL_P2P_DISABLE`, containers without peer access, and devices of different NVLink islands in one group.
    """
    costs = communication_costs(job)
    rate = pl.col("bytes") * pl.col("factor") / pl.col("transfer") * 1e9
    slow = costs.collectives.filter(
        (pl.col("bytes") >= _MIN_BYTES) & (pl.col("transfer") > 0) & ~pl.col("on_host")
        & ~pl.col("kind").is_in(PAIRWISE) & (rate < _LOW_EFFICIENCY * pl.col("link_bandwidth"))
        & (pl.col("hosts").fill_null(1) == 1)
    ).with_columns(
        efficiency=rate / pl.col("link_bandwidth"), each=pl.col("calls") * pl.col("members") * pl.col("transfer")
    )  # fmt: skip
    if not len(slow):
        return

    left = (1 - pl.col("efficiency") / _NCCL_REACHES).clip(0)
    saved = pl.min_horizontal(pl.col("each") * (1 - pl.col("efficiency")), "exposed_transfer").clip(0)
    low, high = slow.select((pl.col("exposed_transfer") * left).sum() * _CERTAIN_SHARE, saved.sum()).row(0)
    if high < _MIN_STEP_SHARE * costs.step:
        return
    first, exposed = slow.row(0, named=True), float(slow["exposed_transfer"].sum())
    yield Finding(
        message=say(
            "Collectives reach little of the links between devices. The {kind} of {size} reaches {share} of {peak};"
            " computation does not hide {exposed} of each step.",
            kind=quoted(first["kind"]),
            size=measured(first["bytes"], "bytes"),
            share=share(first["efficiency"], 1.0),
            peak=measured(first["link_bandwidth"], "bytes/s"),
            exposed=measured(exposed, "ns"),
        ),
        stake=Stake(low, min(high, exposed)),
        takes=exposed,
        change=f"+ NCCL_DEBUG=INFO {'python train.py' if job.program == 'training' else ''}".rstrip()
        + "  # `via SHM` between devices of one machine is slow\n"
        "- NCCL_P2P_DISABLE=1",
        why=say(
            "At most, they reach the peak of the links; surely {least} of it, as NCCL does at such sizes.{hosts}",
            least=constant(_NCCL_REACHES, "fraction"),
            hosts=" The ranks may be on several machines." if slow["hosts"].has_nulls() else "",
        ),
        confidence="medium",
        evidence=(Evidence("bandwidth and share of the links' peak", "collectives"),),
        time=costs.of_transfer(min(high, costs.transfer)),
        at_most="note" if slow["hosts"].has_nulls() else "critical",
    )


RULE = Rule("RANKS010", "Collectives below their links", of_job=collectives_below_the_link)
