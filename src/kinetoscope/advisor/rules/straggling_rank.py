"""RANKS005: all ranks wait for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from kinetoscope.advisor.evidence.communication import CommunicationCosts, Straggler, communication_costs
from kinetoscope.advisor.evidence.serving import shared_steps
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.wording import Wording, wording
from kinetoscope.views.sentences import cell, measured, say

_CERTAIN_SHARE: Final = 0.9
"""Of the replayed gain: a mended rank is as late as the others now and then."""

_POSSIBLE_RATIO: Final = 1.05
"""Of the replayed gain: the host, which the replay leaves as it was, may be sooner, too."""

_ON_HOSTS_CERTAIN_SHARE: Final = 0.7
"""Of the gain where hosts carry the collectives out: no launch says when one could have begun."""

_PIPELINE: Final = 0.35, 2.5
"""Least and most of the replayed gain where ranks send and receive: a late stage fills bubbles, or makes some."""

_BY_STEPS_CERTAIN_SHARE: Final = 0.7
"""Certain share of what whole steps say of a single straggler."""

_MIN_STEPS: Final = 3
"""Steps below which an accident looks like a lasting cause: half as much is certain."""


@dataclass(frozen=True)
class _Words:
    """Words for a cause: what the rank does, what to change, and which analysis shows it.

    of_another: what to change on a rank that is not the first, which alone logs and saves; "" where that is the same.
    on_hosts, change_on_hosts: the same where there is no device; "" where that is no other.
    """

    does: str
    change: str | Callable[[Wording], str]
    analysis: str
    of_another: str = ""
    on_hosts: str = ""
    change_on_hosts: str = ""

    def diff(self, job: JobView, rank: int, *, has_device: bool) -> str:
        """The change, in the words of the program."""
        if self.change_on_hosts and not has_device:
            return self.change_on_hosts.replace("{rank}", str(rank))
        if rank and self.of_another:
            return self.of_another.replace("{rank}", str(rank))
        return self.change if isinstance(self.change, str) else self.change(wording(job.program))


_CAUSES: Final[dict[str, _Words]] = {
    "computation": _Words(
        "which computes longer", "+ nvidia-smi -q -d PERFORMANCE,CLOCK  # on its machine: slowed by heat or power?\n"
        "+ give each rank the same work", "kernel_spread",
        change_on_hosts="+ top; lscpu  # on the machine of rank {rank}: other processes on its cores, a slower"
        " processor?\n+ give each rank the same work",
    ),
    "memory copies": _Words(
        "which copies longer", "+ pin memory; job at its PCIe link and NUMA node", "memory_bandwidth",
    ),
    "data loading": _Words(
        "which waits for its data", "- DataLoader(dataset, ...)\n+ DataLoader(dataset, num_workers=...,"
        " prefetch_factor=4)"
        "  # and job at the disk and cores of its machine", "step_breakdown",
    ),
    "synchronization": _Words(
        "which waits for its device", attrgetter("synchronize"), "synchronizations",
        "+ kinetoscope show synchronizations --ranks {rank} ...  # which call waits there? with stacks: its line",
    ),
    "host gap": _Words(
        "whose host works longer between launches", attrgetter("save"), "idle_breakdown",
        "+ top; lscpu  # on the machine of rank {rank}: other processes on its cores, a slower processor?\n"
        "+ kinetoscope show operator_stacks --ranks {rank} ...  # what does it do alone? with stacks: its line",
        "whose host does something else between operators",
    ),
}  # fmt: skip

_UNKNOWN_CAUSE: Final = _Words("which comes late", "", "stragglers")


def straggling_rank(job: JobView) -> Iterator[Finding]:
    """Do all ranks wait for one that is late in most steps?

    What it checks. The ranks that the analysis `stragglers` names: by their own fault they cost the waiting ranks more
    than 1 % of a step, significantly, in step after step. The cause is the activity of which that rank has more than
    the median rank. Where ranks of a server have the same steps, RANKS011 says it.

    Why it matters. A collective is as late as the last of its ranks: one slow rank slows the whole job, and on the
    other ranks that looks like slow communication. At stake is what the analysis replays (`gain`): the collectives of
    all ranks as if nobody waited for this one, so that of several stragglers each counts with its delay beyond the next
    one's. Nine tenths of it are the lower end, seven where hosts carry the collectives out; at most it is what the
    others wait for it.

    What to do. Examine that rank's loader, host or device, in the analysis that the finding names.
    """
    if len(shared_steps(job)):
        return
    costs = communication_costs(job)
    for straggler in costs.stragglers:
        words = _CAUSES.get(straggler.cause, _UNKNOWN_CAUSE)
        is_sure = straggler.gain is not None and not costs.pipeline and not costs.by_hosts
        is_sure &= costs.steps >= _MIN_STEPS
        yield Finding(
            message=say(
                "All ranks wait for rank {rank}, {does}. That costs each of them {lost} of each step.",
                rank=cell(job.ask("stragglers"), "rank", rank=straggler.rank),
                does=(costs.of_hosts_alone and words.on_hosts) or words.does,
                lost=measured(straggler.cost, "ns"),
            ),
            stake=_stake(costs, straggler),
            takes=straggler.cost,
            change=words.diff(job, straggler.rank, has_device=not costs.of_hosts_alone),
            why="The steps of the other ranks, replayed as if they did not wait for this one alone; with several"
            " stragglers, mending one gains only its delay beyond the next one's.",
            confidence="high" if is_sure else "medium",
            evidence=(
                Evidence("who is late, and why", "stragglers"),
                Evidence("the activity that it has more of", words.analysis, rank=straggler.rank),
            )[: 2 if words is not _UNKNOWN_CAUSE else 1],
            time=costs.of_straggler(straggler),
            key=f"rank {straggler.rank}",
        )


def _stake(costs: CommunicationCosts, straggler: Straggler) -> Stake:
    if straggler.gain is None:
        low, high = 0.0 if len(costs.stragglers) > 1 else _BY_STEPS_CERTAIN_SHARE * straggler.cost, straggler.cost
    elif costs.pipeline:
        low, high = (factor * straggler.gain for factor in _PIPELINE)
    else:
        sure = _ON_HOSTS_CERTAIN_SHARE if costs.by_hosts else _CERTAIN_SHARE
        low, high = sure * straggler.gain, _POSSIBLE_RATIO * straggler.gain
    if costs.steps < _MIN_STEPS:
        low /= 2
    return Stake(low, min(max(high, low), straggler.cost))


RULE = Rule("RANKS005", "All ranks wait for one", of_job=straggling_rank)
