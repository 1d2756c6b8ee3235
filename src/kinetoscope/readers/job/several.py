"""Runs whose ranks were recorded by several tools, or have several roles: which numbers are the same rank.

A trainer by reinforcement learning has groups of processes that each number their ranks from 0, its roles. verl, slime
and NeMo-RL name folders or files after them (`actor_update`, `agent_loop_rollout_replica_0`, `ref_compute_log_prob`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kinetoscope.model.trace.text import numbered
from kinetoscope.notes import Note
from kinetoscope.readers.reader import CandidateFile

_ROLES: Final = {
    "actor": "actor",
    "policy": "actor",
    "critic": "critic",
    "ref": "reference",
    "reference": "reference",
    "reward": "reward",
    "rollout": "rollout",
}
_ROLE: Final = re.compile(rf"(?<![a-z])({'|'.join(_ROLES)})(?![a-z])", re.IGNORECASE)
_REPLICA: Final = re.compile(r"(?<![a-z])replica[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
_FOLDERS: Final = 3
"""Folders above a file whose names may say its role."""

_MAX_SHOWN: Final = 5


def role_in_name(url: str) -> str:
    """The role that the name of a file or of its folders says: `rollout`, `rollout replica 1`; "" none."""
    for part in reversed(url.replace("\\", "/").split("/")[-1 - _FOLDERS :]):
        if match := _ROLE.search(part):
            role = _ROLES[match[1].lower()]
            replica = _REPLICA.search(part)
            return f"{role} replica {int(replica[1])}" if replica else role
    return ""


def numbered_apart(
    traces: Sequence[CandidateFile],
    richness: Mapping[str, int],
    number: Callable[[Sequence[CandidateFile]], list[int]],
) -> tuple[list[CandidateFile], list[int], list[Note]]:
    """The traces, the rank of each, and a note where there are several roles: their ranks follow one another.

    What two tools recorded without a rank may be one rank: files without one are numbered by tool.

    Args:
        traces: with the ranks that they tell.
        richness: of the formats of tools, by the names of their readers: see `Reader.richness`.
        number: gives ranks to those that tell none.
    """
    most = max(richness.values(), default=0)
    roles = [role_in_name(each.url) for each in traces]
    roles = roles if len(set(roles) - {""}) > 1 else [""] * len(traces)
    tools = [each.reader if _richness(each, richness) < most else "" for each in traces]
    ranks = [0] * len(traces)
    for kind in dict.fromkeys(zip(roles, tools, strict=True)):
        places = [place for place in range(len(traces)) if (roles[place], tools[place]) == kind]
        for place, rank in zip(places, number([traces[place] for place in places]), strict=True):
            ranks[place] = rank
    if not any(roles):
        return list(traces), ranks, []
    said, first = [], 0
    for role in sorted(set(roles), key=_order):
        places = [place for place, each in enumerate(roles) if each == role]
        for place in places:
            ranks[place] += first
        said.append(f"{role or 'others'} ({numbered('rank', sorted({ranks[place] for place in places}))})")
        first = 1 + max(ranks[place] for place in places)
    note = Note("ROLES", f"Names tell several roles, whose ranks are numbered one after the other: {'; '.join(said)}.")
    return [replace(each, world=0) for each in traces], ranks, [note]


def _order(role: str) -> tuple[str, int]:
    name, _, replica = role.partition(" replica ")
    return name, int(replica or -1)


def richest(
    traces: Sequence[CandidateFile], ranks: Sequence[int], richness: Mapping[str, int]
) -> tuple[list[CandidateFile], list[int], list[Note]]:
    """The recordings to read, of a rank by several tools those of the richest; their ranks; and notes on it."""
    most: defaultdict[int, int] = defaultdict(int)
    pairs = list(zip(traces, ranks, strict=True))
    for trace, rank in pairs:
        most[rank] = max(most[rank], _richness(trace, richness))
    used = [(trace, rank) for trace, rank in pairs if _richness(trace, richness) == most[rank]]
    poorer = [(trace, rank) for trace, rank in pairs if _richness(trace, richness) < most[rank]]
    by_tool: defaultdict[str, set[int]] = defaultdict(set)
    for trace, rank in used:
        if richness.get(trace.reader):
            by_tool[trace.reader].add(rank)
    notes = []
    if len(by_tool) > 1:
        each = "; ".join(f"{tool} ({numbered('rank', sorted(of))})" for tool, of in by_tool.items())
        notes.append(Note("SEVERAL_TOOLS", f"The ranks of the run were recorded by several tools: {each}."))
    if poorer:
        which = sorted({rank for _, rank in poorer})
        names = shortened(list(dict.fromkeys(last_part(trace.url) for trace, _ in poorer)))
        said = f"{numbered('rank', which)} {'was' if len(which) == 1 else 'were'} recorded with more by another tool"
        notes.append(Note("RECORDED_TWICE", f"Left out, as {said}: {names}."))
    return [trace for trace, _ in used], [rank for _, rank in used], notes


def _richness(trace: CandidateFile, richness: Mapping[str, int]) -> int:
    """The richness of the format of a trace; that of the richest where it is no other tool's."""
    return richness.get(trace.reader, 0) or max(richness.values(), default=0)


def last_part(url: str) -> str:
    """The name of a file or folder."""
    return url.rstrip("/").rpartition("/")[2]


def shortened(texts: list[str]) -> str:
    """The first few of them."""
    more = f"and {len(texts) - _MAX_SHOWN} more"
    return ", ".join([*texts[:_MAX_SHOWN], more] if len(texts) > _MAX_SHOWN else texts)
