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
from kinetoscope.views.numbers import shown

_SINGLE_RATIOS: Final = 0.82, 1.08
"""Least and most gain from mending a single straggler, as ratios to its lack of exposed communication."""

_PLAUSIBLE_RATIOS: Final = 0.3, 3.0
"""So many times what the others wait for it; beyond these the two say different things, and waiting alone counts."""

_WAITED: Final = 0.7, 1.35
"""The same factors of what the others wait for it."""

_MIN_STEPS: Final = 3
"""Steps below which an accident looks like a lasting cause: half as much is certain."""

_PIPELINE: Final = 0.35, 2.5
"""The same factors where ranks send and receive: a delay of one stage delays others, or fills bubbles."""


@dataclass(frozen=True)
class _Words:
    """What is said of a cause: what the rank does, what to change, and which analysis shows it."""

    does: str
    change: str | Callable[[Wording], str]
    analysis: str

    def diff(self, job: JobView) -> str:
        """What to change, in the words of the program."""
        return self.change if isinstance(self.change, str) else self.change(wording(job.program))


_CAUSES: Final[dict[str, _Words]] = {
    "computation": _Words(
        "which computes longer", "+ nvidia-smi -q -d PERFORMANCE,CLOCK  # on its machine: slowed by heat or power?\n"
        "+ give each rank the same work", "kernel_spread",
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
    ),
    "host gap": _Words(
        "whose host works longer between launches", attrgetter("save"), "idle_breakdown",
    ),
}  # fmt: skip

_UNKNOWN_CAUSE: Final = _Words("which comes late", "", "stragglers")


def straggling_rank(job: JobView) -> Iterator[Finding]:
    """Do all ranks wait for one that is late in most steps?

    What it checks. The ranks that the analysis `stragglers` names: by their own fault they cost the waiting ranks more
    than 1 % of a step, significantly, in step after step. The cause is the activity of which that rank has more than
    the median rank. Where ranks of a server have the same steps, RANKS011 says it.

    Why it matters. A collective is as late as the last of its ranks: one slow rank slows the whole job, and on the
    other ranks that looks like slow communication. At stake is the difference in exposed communication between this
    rank and the median of the others, which is the time that they wait for it. Eight tenths of it count as sure, less
    the delay of the next straggler, which the ranks would wait for then.

    What to do. Examine that rank's loader, host or device, in the analysis that the finding names.
    """
    if len(shared_steps(job)):
        return
    costs = communication_costs(job)
    for straggler in costs.stragglers:
        words = _CAUSES.get(straggler.cause, _UNKNOWN_CAUSE)
        yield Finding(
            message=f"All ranks wait for rank {straggler.rank}, {words.does}. They wait"
            f" {shown(straggler.cost, 'ns')} of each step.",
            stake=_stake(costs, straggler),
            change=words.diff(job),
            why="The other ranks spend this much more time in exposed collectives; with several stragglers, fixing one"
            " gains only its delay beyond the next one's.",
            confidence="medium" if costs.pipeline or costs.steps < _MIN_STEPS else "high",
            evidence=(
                Evidence("who is late, and why", "stragglers"),
                Evidence("the activity that it has more of", words.analysis, rank=straggler.rank),
            )[: 2 if words is not _UNKNOWN_CAUSE else 1],
            time=costs.of_straggler(straggler),
            key=f"rank {straggler.rank}",
        )


def _stake(costs: CommunicationCosts, straggler: Straggler) -> Stake:
    low, high = (factor * straggler.cost for factor in (_PIPELINE if costs.pipeline else _WAITED))
    rivals = [each.ahead for each in costs.stragglers if each is not straggler]
    least, most = (ratio * straggler.cost for ratio in _PLAUSIBLE_RATIOS)
    if not costs.pipeline and least <= straggler.ahead <= most:
        # Without it, the next one is waited for.
        low = _SINGLE_RATIOS[0] * (straggler.ahead - max([*rivals, 0.0]))
        high = _SINGLE_RATIOS[1] * straggler.ahead if not rivals else max(high, _SINGLE_RATIOS[1] * straggler.ahead)
    elif rivals:
        low = 0.0
    if costs.steps < _MIN_STEPS:
        low /= 2
    high = min(high, costs.step)
    return Stake(min(max(low, 0.0), high), high)


RULE = Rule("RANKS005", "All ranks wait for one", of_job=straggling_rank)
