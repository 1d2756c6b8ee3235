"""What is known of a job that may hang, and what follows from it about one group of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from kinetoscope.model.hangs.comparing import Difference, Differing, differing
from kinetoscope.model.hangs.hosts import HostCause
from kinetoscope.model.hangs.pace import Pace, pace
from kinetoscope.model.hangs.standing import CLOCKS, MEETING, Node, Standing, of_one_state, standing

ReasonCause = (
    Difference
    | HostCause
    | Literal["skipped call", "missing rank", "order of groups", "device or network", "slow rank", "unknown"]
)


@dataclass(frozen=True)
class Reason:
    """Why ranks do not go on.

    Attributes:
        cause, certainty, ranks, differs, cycle: as of a `verdict.Verdict`.
        node: the collective that it is about.
        row: the send or receive that it is about.
    """

    cause: ReasonCause
    certainty: Literal["sure", "likely", "guess"]
    ranks: tuple[int, ...] = ()
    node: Node | None = None
    row: Mapping[str, Any] | None = None
    differs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    cycle: tuple[tuple[int, str, int, int], ...] = ()


@dataclass(frozen=True)
class HangEvidence:
    """What is known of a job.

    Attributes:
        calls: as `records.CALLS`, with `row`.
        at: where the ranks stand.
        pace: how they move.
        broken: collectives whose ranks do not call the same.
    """

    calls: pl.DataFrame
    at: Standing
    pace: Pace
    broken: dict[Node, Differing]

    @property
    def moves(self) -> bool | None:
        """Every rank has shown something within its usual pauses; None where that is unknown."""
        stand = [self.pace.stands(rank) for rank in self.at.recorded if rank not in self.at.stale]
        if any(stand):
            return False
        return True if False in stand else None

    def there(self, node: Node) -> dict[int, list[dict[str, Any]]]:
        """Rows of the ranks that have come to a collective."""
        return {rank: rows for rank, rows in self.at.came[node].items() if self.at.is_there(rank, node)}

    def begun(self, node: Node) -> int:
        """When the first rank has come to a collective, ns since 1970."""
        return min(int(row["created"]) for rows in self.there(node).values() for row in rows)


def evidence(calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame) -> HangEvidence:
    """What tables as in `records` say of a job."""
    calls = of_one_state(calls.with_row_index("row"))
    at = standing(calls, groups, hosts)
    job = HangEvidence(calls, at, pace(calls, hosts), {})
    at = replace(at, stale=at.stale | {*_of_before(job)})
    job = replace(job, at=at)
    return replace(job, broken=dict(_broken(job)))


def _of_before(job: HangEvidence) -> Iterable[int]:
    """Ranks whose records are older than what the others wait for, so that they may have gone on since."""
    written = {rank: host["written"] for rank, host in job.at.hosts.items() if host["written"] is not None}
    for node in job.at.came:
        there = job.there(node)
        if not there:
            continue
        begun = job.begun(node)
        yield from (
            rank
            for rank in job.at.groups[node[0]].ranks
            if rank not in there and rank in written and written[rank] < begun + CLOCKS
        )
        ended = {rank: rows[-1] for rank, rows in there.items() if rows[-1]["state"] == "completed"}
        if not ended or next(iter(ended.values()))["name"] not in MEETING:
            continue
        when = max((row["completed"] or begun for row in ended.values()), default=begun)
        for rank in there.keys() - ended.keys():
            if written.get(rank, when + CLOCKS) < when + CLOCKS or job.pace.stands(rank) is False:
                yield rank


def _broken(job: HangEvidence) -> Iterable[tuple[Node, Differing]]:
    for node in job.at.came:
        group, there = job.at.groups[node[0]], job.there(node)
        lists = {text: tuple(rank for rank in ranks if rank in there) for text, ranks in group.lists.items()}
        lists = {text: ranks for text, ranks in lists.items() if ranks}
        if len(lists) > 1:
            most = max(lists.values(), key=len)
            ranks = sorted(rank for each in lists.values() for rank in each)
            few = [rank for rank in ranks if rank not in most] if 2 * len(most) > len(ranks) else ranks
            yield node, Differing("different group", lists, tuple(few))
        elif there and (parts := differing(there, len(group.ranks) if group.are_known else 0)) is not None:
            yield node, parts
