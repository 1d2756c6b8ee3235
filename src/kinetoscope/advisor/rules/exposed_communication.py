"""RANKS003: communication that computation could hide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.communication import EARLY_WORK_SHARE, CommunicationCosts, communication_costs
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.wording import each_step, quoted, share
from kinetoscope.views.sentences import measured, say

_BUCKET: Final = 25e6
"""Bytes of a bucket of DistributedDataParallel."""

_MIN_BYTES: Final = 1 << 20
"""Size of a collective from which on its transfer depends on size rather than latency."""

_FORWARD: Final = 1 / 3
"""Share of a step's computation that is the forward pass: the backward pass does twice as much."""

_LATE_WORK_SHARE: Final = 0.6
"""Share of the computation after which the first reduction begins too late to be hidden well."""

_HIDDEN_TRANSFER_SHARE: Final = 0.1
"""Share of the transfer that is hidden by chance."""

_MIN_STEP_SHARE: Final = 0.02
"""Share of a step that sending less must bring."""

_WIDE_TYPES: Final = ("float32", "float64")


@dataclass(frozen=True)
class _Gradients:
    """Reductions of gradients in one process group, in an average step of all ranks.

    Attributes:
        calls: how many; transfer, exposed: of all together, ns. before: share of the computation done before the first.
        size: bytes of all, 0 if unknown. wide: are elements of four bytes or more? by_host: do hosts reduce them?
    """

    group: str | None
    calls: float
    transfer: float
    exposed: float
    before: float
    size: float
    wide: bool
    by_host: bool

    @property
    def hidden(self) -> float:
        """The part of the transfer that computation hides, ns."""
        return max(self.transfer - self.exposed, 0.0)

    @property
    def is_late(self) -> bool:
        """Do all of them come behind the backward pass?

        Where gradients are accumulated over several batches, they begin late in the step as well, but the last backward
        pass hides some of them.
        """
        return self.before >= _LATE_WORK_SHARE and self.hidden < _HIDDEN_TRANSFER_SHARE * self.transfer

    @property
    def last(self) -> float:
        """The time of the last of them, if they are of a good size, ns: nothing is left to hide it."""
        return self.transfer / max(self.calls, math.ceil(self.size / _BUCKET), 1.0)


def exposed_communication(job: JobView) -> Iterator[Finding]:
    """Does the computation wait for communication that it could hide?

    What it checks. Transfer of collectives (not waiting for late ranks) that no computation hides, in an average step
    of all ranks, and when the collectives begin: gradients that are all-reduced only after the backward pass;
    parameters that are gathered (FSDP) only when they are needed; gradients that are overlapped, but more than the
    backward pass can hide.

    Why it matters. Devices stop computing. If gradients are reduced too late, the backward pass after the first bucket
    could hide all but the last bucket. A gather can be hidden by the layer before. Gradients in float32 take half the
    time in bfloat16; none of that is sure where collectives are under 1 MiB, or where hosts carry them out (gloo), as
    latency and casts remain. The time at stake is computed from these, and is never more than the exposed transfer.
    Collectives whose result is needed at once, as in tensor-parallel layers, count only where nothing is sure.

    What to do. Reduce gradients in buckets as they come, as DistributedDataParallel does; gather ahead; send fewer
    bytes (bf16_compress_hook), or less often (no_sync, with gradients accumulated over several batches).
    """
    costs = communication_costs(job)
    for gradients in _gradients(costs):
        yield from _late(costs, gradients)
        yield from _many_bytes(costs, gradients)
    yield from _gathers(costs)


def _gradients(costs: CommunicationCosts) -> Iterator[_Gradients]:
    reductions = costs.collectives.filter(
        pl.col("kind").is_in(["all_reduce"]) & (pl.col("before") >= EARLY_WORK_SHARE) & ~pl.col("on_host")
    )
    each = pl.col("calls") * pl.col("members")
    for (_,), part in reductions.group_by("group_size", maintain_order=True):
        sums = part.select(
            calls=each.sum() / pl.col("members").sum().clip(0, 1),
            transfer=(each * pl.col("transfer").fill_null(0)).sum(),
            exposed=pl.col("exposed_transfer").sum(),
            before=(pl.col("before") * pl.col("exposed_transfer")).sum() / pl.col("exposed_transfer").sum(),
            size=(each * pl.col("bytes").fill_null(0)).sum() / pl.col("members").sum().clip(0, 1),
            wide=(pl.col("dtype").is_in(_WIDE_TYPES) * pl.col("exposed_transfer")).sum(),
            by_host=pl.col("by_host").any(),
        ).row(0, named=True)
        exposed = sums["exposed"]
        if exposed > 0 and sums["transfer"] > 0:
            group = part["group"][0] if part["group"].n_unique() == 1 else None
            yield _Gradients(group, sums["calls"], sums["transfer"], exposed, sums["before"], sums["size"],
                             sums["wide"] > 0.9 * exposed, bool(sums["by_host"]))  # fmt: skip


def _late(costs: CommunicationCosts, gradients: _Gradients) -> Iterator[Finding]:
    """Gradients that are reduced after the backward pass."""
    if not gradients.is_late or costs.pipeline:  # stages of a pipeline finish one after the other
        return
    computing = _computing(costs)
    count = max(gradients.calls, math.ceil(gradients.size / _BUCKET), 1.0)
    first = _FORWARD + (1 - _FORWARD) / count
    room = gradients.exposed - gradients.last
    high = min((gradients.before - 0.9 * first) * computing, gradients.exposed - 0.7 * gradients.last)
    low = min((gradients.before - first - 0.08) * computing, 0.85 * room)
    if high <= 0:
        return
    yield Finding(
        message=say(
            "Gradients{of} are reduced only after the backward pass. Nothing hides {exposed} of each step, in {calls}.",
            of=_of(gradients),
            exposed=measured(gradients.exposed, "ns"),
            calls=each_step(gradients.calls, "call"),
        ),
        stake=_stake(low, high, gradients.exposed),
        takes=gradients.exposed,
        change="- loss.backward(); all_reduce(gradients)\n"
        "+ model = DistributedDataParallel(model)  # reduces in buckets, while backward() goes on",
        why=say(
            "The first of them begins when {before} of the step's computation is done; in buckets it could begin at"
            " {first}, and all but the last could be hidden.",
            before=share(gradients.before, 1),
            first=share(first, 1),
        ),
        confidence="medium",
        evidence=(Evidence("how much of the communication is hidden on each rank", "overlap"),),
        time=costs.of_transfer(high),
        key="late",
    )


def _many_bytes(costs: CommunicationCosts, gradients: _Gradients) -> Iterator[Finding]:
    """Gradients that are overlapped, but more than can be hidden."""
    spare = gradients.exposed - gradients.last
    if gradients.is_late or spare <= 0:
        return
    halved = gradients.exposed - max(gradients.last / 2, gradients.transfer / 2 - gradients.hidden)
    halved = min(halved, max(float(costs.collectives["halved"][0]), 0.0))
    accumulate = "+ with model.no_sync():  # for all but the last of several batches\n+     loss.backward()"
    follows_bytes = not gradients.by_host and gradients.size >= _MIN_BYTES * gradients.calls
    if gradients.wide:
        change = "+ model.register_comm_hook(None, default_hooks.bf16_compress_hook)"
        why = (
            "Half the bytes take half the time; eight tenths of that are the lower end, as casts cost something too."
            if follows_bytes
            else "Half the bytes take half the time at most: latency and casts stay, so nothing of it is sure."
        )
        stake = _stake(0.8 * halved if follows_bytes else 0.0, max(1.05 * halved, 0.0), gradients.exposed)
    else:
        change = accumulate
        why = "Over several batches gradients are sent once; as that makes the batch larger, nothing of it is sure."
        stake = _stake(0.0, spare, gradients.exposed)
    if stake.high < _MIN_STEP_SHARE * costs.step:
        return
    yield Finding(
        message=say(
            "The backward pass cannot hide the exchange of all gradients{of}. It takes {transfer} of each step, and"
            " nothing hides {exposed} of it.",
            of=_of(gradients),
            transfer=measured(gradients.transfer, "ns"),
            exposed=measured(gradients.exposed, "ns"),
        ),
        stake=stake,
        takes=gradients.exposed,
        change=change,
        why=why,
        confidence="medium",
        evidence=(Evidence("sizes and bandwidths", "collectives"), Evidence("how much is hidden", "overlap")),
        time=costs.of_transfer(stake.high),
        key="bytes",
        at_most="critical" if gradients.wide and follows_bytes else "note",
    )


def _gathers(costs: CommunicationCosts) -> Iterator[Finding]:
    """Parameters that are gathered when they are needed."""
    sharded = costs.collectives.filter(pl.col("kind") == "reduce_scatter")["group"].unique().to_list()
    gathers = costs.collectives.filter((pl.col("kind") == "all_gather") & pl.col("group").is_in(sharded))
    exposed = float(gathers["exposed_transfer"].sum())
    each = pl.col("calls") * pl.col("members")
    if not len(gathers) or exposed <= 0:
        return
    took = (each * pl.col("transfer").fill_null(0)).sum()
    calls, transfer = gathers.select(calls=each.sum(), transfer=took).row(0)
    computing = _computing(costs)
    # Of each pass the first cannot be hidden, and a layer hides no more than it computes.
    left = max(transfer - computing, transfer * 2 / max(calls, 2.0))
    room = exposed - left
    if room < 0.15 * exposed:
        return
    yield Finding(
        message=say(
            "Parameters are gathered only when they are needed. Nothing hides {exposed} of each step, in {calls}.",
            exposed=measured(exposed, "ns"),
            calls=each_step(calls, "all-gather"),
        ),
        stake=_stake(0.75 * room, 1.1 * room, exposed),
        takes=exposed,
        change="+ FSDP(..., forward_prefetch=True, backward_prefetch=BackwardPrefetch.BACKWARD_PRE,"
        " limit_all_gathers=False)",
        why="If parameters are gathered a layer ahead, the layer before hides all but the first gather of each pass, as"
        " far as it computes long enough.",
        confidence="medium",
        evidence=(Evidence("how much is hidden in each process group", "overlap", {"by": "group"}),),
        time=costs.of_transfer(1.1 * room),
        key="gathers",
    )


def _computing(costs: CommunicationCosts) -> float:
    return float(costs.collectives["computation"][0])


def _stake(low: float, high: float, most: float) -> Stake:
    high = min(max(high, 0.0), most)
    return Stake(min(max(low, 0.0), high), high)


def _of(gradients: _Gradients) -> str:
    return f" of {quoted(gradients.group, 40)}" if gradients.group else ""


RULE = Rule(
    "RANKS003",
    "Communication that could be hidden is not",
    of_job=exposed_communication,
    programs=("training", "unknown"),
)
