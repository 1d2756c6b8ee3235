"""All that is known of a job that may hang, and a reason that follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import polars as pl

from kinetoscope.model.hangs.comparing import Difference, Differing, differing, parted
from kinetoscope.model.hangs.history import ProgramCalls
from kinetoscope.model.hangs.hosts import HostCause
from kinetoscope.model.hangs.pace import Pace, pace
from kinetoscope.model.hangs.standing import MEETING, Node, Standing, of_one_state, standing
from kinetoscope.model.hangs.waiting import CLOCKS
from kinetoscope.model.hangs.waits import missing

ReasonCause = (
    Difference
    | HostCause
    | Literal["skipped call", "missing rank", "order of groups", "device or network", "slow rank", "unknown"]
)


@dataclass(frozen=True)
class Reason:
    """Why ranks do not go on.

    Attributes:
        cause, certainty, ranks, differs, cycle: as of a `verdict.HangVerdict`.
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
    """All that is known of a job.

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

    @cached_property
    def _by_rank(self) -> dict[int, pl.DataFrame]:
        parts = self.calls.sort("rank", "order").partition_by("rank", as_dict=True)
        return {int(rank): rows for (rank,), rows in parts.items()}

    @cached_property
    def _programs(self) -> dict[int, ProgramCalls]:
        return {}

    def program_of(self, rank: int) -> ProgramCalls:
        """The calls of a rank, to be held against its past and those of others: made once, as many ask for them."""
        if rank not in self._programs:
            self._programs[rank] = ProgramCalls.of(self._by_rank.get(rank, self.calls.clear()))
        return self._programs[rank]

    @cached_property
    def left_out(self) -> dict[int, dict[str, Any] | None]:
        """The calls that ranks have left out, of those that were looked at, by `omissions.left_out`."""
        return {}

    @cached_property
    def late(self) -> dict[Node, list[int]]:
        """Members that have not come, of each collective that ranks are at; those of few first."""
        late = {node: missing(self.at, node) for node in self.at.came}
        return dict(sorted(late.items(), key=lambda each: len(each[1])))

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
    """All that tables as in `records` say of a job."""
    calls = of_one_state(calls.with_row_index("row"))
    at = standing(calls, groups, hosts)
    job = HangEvidence(calls, at, pace(calls, hosts), {})
    at = replace(at, stale=at.stale | {*_of_before(job)} | at.damaged)
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
        yield from _before_its_end(job, node, written)


def _before_its_end(job: HangEvidence, node: Node, written: Mapping[int, int]) -> Iterable[int]:
    """Ranks that have come to a collective, and whose records are older than its end on others."""
    there = job.there(node)
    ended = {rank: rows[-1] for rank, rows in there.items() if rows[-1]["state"] == "completed"}
    if not ended or next(iter(ended.values()))["name"] not in MEETING:
        return
    sure = CLOCKS + max(row["completed"] or job.begun(node) for row in ended.values())
    for rank in there.keys() - ended.keys():
        if written.get(rank, sure) < sure or job.pace.stands(rank) is False:
            yield rank


def _broken(job: HangEvidence) -> Iterable[tuple[Node, Differing]]:
    for node in job.at.came:
        group, there = job.at.groups[node[0]], job.there(node)
        lists = {rank: text for text, ranks in group.lists.items() for rank in ranks if rank in there}
        parts = parted("different group", lists)
        if parts is None and there:
            parts = differing(there, len(group.ranks) if group.are_known else 0)
        if parts is not None:
            yield node, parts
