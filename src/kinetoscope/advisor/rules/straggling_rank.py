"""RANKS005: all ranks wait for one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kinetoscope.advisor.exchange import Exchange, Late, exchange
from kinetoscope.advisor.finding import Claim, Evidence, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.views.numbers import shown

_SURE: Final = 0.8
"""Of what a straggler costs: without it the next one is waited for."""

_MORE: Final = 1.1
_HIDDEN: Final = 0.4
"""Of the exposed transfer, relative to the cost, that may be hidden again once nobody is late."""

_FEW: Final = 3
"""Steps under which an accident cannot be told from what is so for good: half as much is sure."""

_PIPELINE: Final = 0.35, 2.5
"""The same factors where ranks send and receive: what is late in one stage is late in others, or fills bubbles."""


@dataclass(frozen=True)
class _Words:
    """What is said of a cause: what the rank does, what to change, and which analysis shows it."""

    does: str
    change: str
    analysis: str


_CAUSES: Final[dict[str, _Words]] = {
    "computation": _Words(
        "computes longer", "+ nvidia-smi -q -d PERFORMANCE,CLOCK  # on its machine: slowed by heat or power?\n"
        "+ give each rank the same work", "kernel_spread",
    ),
    "memory copies": _Words("copies longer", "+ pin memory; look at its PCIe link and NUMA node", "memory_bandwidth"),
    "data loading": _Words(
        "waits for its data", "- DataLoader(dataset, ...)\n+ DataLoader(dataset, num_workers=..., prefetch_factor=4)"
        "  # and look at the disk and cores of its machine", "step_breakdown",
    ),
    "synchronization": _Words(
        "waits for its device", "- if rank == 0: log(loss.item())\n+ log(loss.detach())  # fetch it now and then",
        "synchronizations",
    ),
    "host gap": _Words(
        "has a host that does something else", "- if rank == 0: save(...)\n+ save asynchronously, or after the step;"
        " look for other processes on its cores", "idle_breakdown",
    ),
}  # fmt: skip

_UNKNOWN: Final = _Words("comes late", "", "stragglers")


def straggling_rank(look: JobView) -> Iterator[Claim]:
    """Do all ranks wait for one that is late again and again?

    What it checks. Ranks that the analysis of stragglers names: by their own fault they cost those who wait more than
    1 % of a step, in step after step, beyond doubt. The cause is what that rank does more of than the one in the
    middle.

    Why it matters. A collective is as late as the last of its ranks: one slow rank slows the whole job, and on the
    others that looks like slow communication. At stake is what the others wait because of it, on average: surely eight
    tenths of it; at most that and a tenth, and transfer that is exposed only because it came late.

    What to do. Look at that rank: its loader, its host, its device, in the analysis that is named.
    """
    found = look.of(exchange)
    for late in found.late:
        words = _CAUSES.get(late.cause, _UNKNOWN)
        yield Claim(
            message=f"All wait for rank {late.rank}, which {words.does}: {shown(late.cost, 'ns')} of each step.",
            stake=_stake(found, late),
            change=words.change,
            why="What the others wait for it in collectives, not hidden by their computation; the next to be late, and"
            " transfer that can be hidden again, make the interval.",
            confidence="medium" if found.pipeline or found.steps < _FEW else "high",
            evidence=(
                Evidence("who is late, and why", "stragglers"),
                Evidence("what it does more of", words.analysis, rank=late.rank),
            )[: 2 if words is not _UNKNOWN else 1],
            time=found.of_late(late),
            key=f"rank {late.rank}",
        )


def _stake(found: Exchange, late: Late) -> Stake:
    if found.steps < _FEW:
        return Stake(_SURE / 2 * late.cost, min(_MORE * late.cost, found.step))
    if found.pipeline:
        return Stake(_PIPELINE[0] * late.cost, min(_PIPELINE[1] * late.cost, found.step))
    return Stake(_SURE * late.cost, min(_MORE * late.cost + min(_HIDDEN * late.cost, found.transfer), found.step))


RULE = Rule("RANKS005", "All ranks wait for one", of_job=straggling_rank)
