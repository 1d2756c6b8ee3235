"""RANKS004: many small collectives instead of few large ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.communication import EARLY_WORK_SHARE, communication_costs
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import NO_SERVER, JobView, Rule
from kinetoscope.advisor.step_statistics import mean_of
from kinetoscope.advisor.wording import each_step, quoted
from kinetoscope.views.sentences import measured, say

_MAX_BYTES: Final = 1 << 20
"""Size of a collective up to which its time is mostly latency."""

_BUCKET: Final = 25e6
"""Bytes of a bucket of DistributedDataParallel."""

_MIN_CALLS: Final = 8
"""Calls a step from which on they are worth combining."""

_HOST: Final = 30e3
"""Nanoseconds that a host takes at most to ask for one."""

_MIN_STEP_SHARE: Final = 0.01
"""Share of a step that the latencies must take."""

_JOINED: Final = ("all_gather", "reduce_scatter", "broadcast")
"""Kinds of which one can do the work of several; and all-reduces of gradients."""

_GROUP_KEY: Final = ("group", "kind", "dtype")


def many_small_collectives(job: JobView) -> Iterator[Finding]:
    """Are there many small collectives where few large ones would do?

    What it checks. Collectives of up to 1 MiB of one process group, kind and type, eight or more in a step, whose
    transfer is exposed.

    Why it matters. Each collective costs its latency, however little it carries, and the host has to launch it. One
    collective takes latency + bytes / bandwidth; combined, all but a few of the latencies go. Sure are seven tenths of
    these latencies, as far as they are exposed. At most, all of the exposed transfer of these collectives is at stake,
    and the time for which devices idle while hosts launch them.

    What to do. Larger buckets (bucket_cap_mb); torch.distributed's coalescing manager; one flat tensor instead of many.
    """
    costs = communication_costs(job)
    small = costs.collectives.filter(
        (pl.col("bytes") <= _MAX_BYTES)
        & (pl.col("bytes") > 0)
        & ~pl.col("on_host")
        & pl.col("transfer").is_not_null()
        & (pl.col("kind").is_in(_JOINED) | ((pl.col("kind") == "all_reduce") & (pl.col("before") >= EARLY_WORK_SHARE)))
    )
    idle = mean_of(costs.balance["other"])
    for (_, kind, _), part in small.group_by(_GROUP_KEY, maintain_order=True):
        each = pl.col("calls") * pl.col("members")
        calls, size, took, exposed = part.select(
            each.sum().alias("calls"),
            (each * pl.col("bytes")).sum().alias("size"),
            (each * pl.col("transfer")).sum().alias("took"),
            pl.col("exposed_transfer").sum(),
        ).row(0)
        in_step = float(part["calls"].sum())
        if in_step < _MIN_CALLS:
            continue
        left = math.ceil(size / _BUCKET) / max(in_step, 1.0)
        latency = _latency(part, costs.collectives)
        saved = min(calls * (1 - left) * latency, took, exposed)
        if saved < _MIN_STEP_SHARE * costs.step:
            continue
        launching = min(idle, calls * _HOST)
        high = min(exposed + launching, costs.step)
        sure = 0.7 * saved
        group = part["group"][0]
        yield Finding(
            message=say(
                "Many small {kind} collectives cost their latency. {calls} of {size} on average{where}: nothing hides"
                " {exposed} of them, and devices idle for up to {launching} while hosts launch them.",
                kind=kind,
                calls=each_step(in_step, kind),
                size=measured(size / max(calls, 1e-9), "bytes"),
                where=f" in {quoted(group, 40)}" if group else "",
                exposed=measured(exposed, "ns"),
                launching=measured(launching, "ns"),
            ),
            stake=Stake(min(sure, high), high),
            takes=high,
            change="- DistributedDataParallel(model, bucket_cap_mb=1)\n+ DistributedDataParallel(model)  # 25 MB"
            if kind == "all_reduce"
            else "- for t in tensors: dist.all_reduce(t)\n+ with dist._coalescing_manager(): ...",
            why=say(
                "Each costs a latency of {latency}; combined, all but {left} of these latencies go, and seven tenths of"
                " that are the lower end.",
                latency=measured(latency, "ns"),
                left=measured(math.ceil(size / _BUCKET)),
            ),
            confidence="medium",
            evidence=(Evidence("how long each size takes", "collectives"),),
            time=costs.of_transfer(exposed),
            key=f"{group or ''} {kind}",
        )


def _latency(part: pl.DataFrame, all_sizes: pl.DataFrame) -> float:
    """The time of one beyond its bytes at the best rate of large ones of its kind; half of it if that is unknown."""
    rate = pl.col("bytes") / pl.col("transfer")
    large = all_sizes.filter((pl.col("kind") == part["kind"][0]) & (pl.col("bytes") > _MAX_BYTES))
    best = large.select(rate.max()).item()
    least = float(part["fastest"].min() or 0.0)  # type: ignore[arg-type]
    if not best:
        return 0.5 * least if part["bytes"].n_unique() == 1 else least
    beyond = (pl.col("transfer") - pl.col("bytes") / best) * pl.col("calls")
    return max(float(part.select(beyond.sum() / pl.col("calls").sum()).item()), 0.0)


RULE = Rule("RANKS004", "Many small collectives", of_job=many_small_collectives, programs=NO_SERVER)
