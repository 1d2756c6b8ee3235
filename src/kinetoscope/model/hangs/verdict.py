"""What a hanging job waits for: a cause, the ranks where it is, and the calls that show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

import polars as pl

Cause = Literal[
    "no hang",
    "skipped call",
    "missing rank",
    "different collective",
    "different sizes",
    "different types",
    "different root",
    "different group",
    "order of groups",
    "rank ended",
    "host stalled",
    "data loading",
    "checkpoint",
    "unmatched send",
    "unmatched receive",
    "device or network",
    "slow rank",
    "unknown",
]
"""Causes.

- no hang: every collective is done, or ranks still moved when the records were written.
- skipped call: a rank goes on with what the others call later: it has left one out.
- missing rank: a rank did not reach the collective, its host waits for nothing that is recorded, and nothing says more.
- different collective, sizes, types, root: ranks that meet in one collective do not call the same.
- different group: ranks do not agree on who belongs to a group.
- order of groups: ranks wait for each other in several groups, in a cycle.
- rank ended: it has left no records, or they say that it ended.
- host stalled, data loading, checkpoint: as missing rank, where the host's stack, or a log, says what it does.
- unmatched send, unmatched receive: the other end of it was never called.
- device or network: all ranks are in it, with the same, and it does not end.
- slow rank: a rank comes late, but comes; or it still moves towards the collective.
- unknown: none of these follows from what is there.
"""

CAUSES: Final = get_args(Cause)

Certainty = Literal["sure", "likely", "guess"]


@dataclass(frozen=True)
class Verdict:
    """Why a group of ranks does not go on.

    Attributes:
        cause: what it is.
        certainty: sure only if the records prove it; likely where one explanation is left out; guess.
        ranks: where the cause is: those that are missing, that differ, that are on the cycle.
        waiting: ranks that wait because of it, directly or for ranks that wait.
        group: key of the process group; "" where it is about none.
        seq: number of the collective in it, or of the send; None where it is about none.
        name: of the collective that the others wait in; "" for none.
        line: the line of the ranks in `ranks`, where they are or last were; "" without stacks.
        waiting_line: the line where the others wait; "" without stacks.
        waited: how long they have waited when the records were written, ns; None where unknown.
        timeout: after which the watchdog ends the job, ns; None where unknown.
        differs: what differs, by value: the ranks that have it; such as {"[16]": (0, 1, 3), "[17]": (2,)}.
        cycle: of an order of groups the waits in order: (rank, group, seq, rank that it waits for).
        shows: rows of `CALLS` that show it.
    """

    cause: Cause
    certainty: Certainty
    ranks: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    group: str = ""
    seq: int | None = None
    name: str = ""
    line: str = ""
    waiting_line: str = ""
    waited: int | None = None
    timeout: int | None = None
    differs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    cycle: tuple[tuple[int, str, int, int], ...] = ()
    shows: pl.DataFrame | None = None


def verdicts(calls: pl.DataFrame, groups: pl.DataFrame, hosts: pl.DataFrame) -> tuple[Verdict, ...]:
    """Why the job does not go on, the first cause first; never empty.

    Args:
        calls: of all ranks, as `records.CALLS`.
        groups: as `records.GROUPS`.
        hosts: as `records.HOSTS`.
    """
    raise NotImplementedError
