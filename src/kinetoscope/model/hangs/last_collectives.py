"""The last collectives of the groups of a job, and the state of each rank in each of them: what a picture shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from kinetoscope.model.hangs.states import COMPLETED, NEVER, NO_RECORDS, STATES, name_of_group

NO_MEMBER: Final = ""
"""In place of a state: the rank is not in the group, or nobody has called that collective."""

OPEN: Final = "◂"
"""Head of the column of the first collective that is not done everywhere, where groups share columns."""

_COLUMNS: Final = 40
"""Columns in all."""

_MOST, _LEAST = 8, 3
"""Columns of a group."""

_DONE_COLUMNS: Final = 2
"""Of these such that are done everywhere, before the first that is not."""

_NAMES: Final = 8
"""Names of groups up to which each has columns of its own; of more, those that differ in a number share them."""

_NUMBER: Final = re.compile(r"[\d_.:-]*\d+$")
"""What numbers a name, at its end."""

_OF_CALLS: Final = ("rank", "group")

_URGENCY: Final = {state: place for place, state in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class Section:
    """Columns of the picture: those of a group, or of groups of one name.

    Attributes:
        name: of the group, without what numbers it where there are many.
        title: the name, and of how many groups these columns are.
        heads: of the columns.
        of_rank: a state for each column, by rank.
        group_of_rank: the group that these are of.
    """

    name: str
    title: str
    heads: Sequence[str]
    of_rank: Mapping[int, Sequence[str]]
    group_of_rank: Mapping[int, str]


Row = Mapping[str, Any]

Team = Sequence[Row]
"""Rows of `states` of the ranks of a group."""


def sections(frame: pl.DataFrame, calls: pl.DataFrame) -> tuple[list[Section], int]:
    """Columns of groups, those first in which something waits, as many as there is room for; how many are left out.

    Sends and receives of a group have columns of their own if one is not done, or the group has nothing else.
    """
    by_name = _teams_by_name(frame)
    collectives = {name: _with_collectives(teams) for name, teams in by_name.items()}
    pairs = _shown_pairs(by_name, collectives, _pairs(calls))
    waits = {name: _waits(teams) for name, teams in collectives.items() if teams}
    waits |= {name: _is_open(of_rank) for name, of_rank in pairs.items()}
    order = sorted(waits, key=lambda name: not waits[name])
    width = max(min(_COLUMNS // max(len(order), 1), _MOST), _LEAST)
    open_calls = _open_calls(calls)

    def made(name: str) -> Section:
        return (
            _of_pairs(name, pairs[name], width)
            if name in pairs
            else _section(name, collectives[name], open_calls, width)
        )

    drawn = order[: _COLUMNS // width]
    return [made(name) for name in drawn], len(order) - len(drawn)


def _with_collectives(teams: Sequence[Team]) -> list[Team]:
    return [team for team in teams if team[0]["furthest"] is not None]


def _waits(teams: Sequence[Team]) -> bool:
    return any(row["state"] != COMPLETED for team in teams for row in team)


StatesOfPairs = dict[tuple[int, str], list[str]]


def _shown_pairs(
    by_name: Mapping[str, Sequence[Team]], collectives: Mapping[str, Sequence[Team]], pairs: StatesOfPairs
) -> dict[str, dict[int, list[str]]]:
    """Sends and receives that have columns, by name of the group and by rank."""
    shown = {}
    for name, teams in by_name.items():
        keys = [(row["rank"], row["group"]) for team in teams for row in team]
        of_rank = {rank: pairs[rank, group] for rank, group in keys if (rank, group) in pairs}
        if of_rank and (not collectives[name] or _is_open(of_rank)):
            shown[f"{name}: sends"] = of_rank
    return shown


def _teams_by_name(frame: pl.DataFrame) -> dict[str, list[Team]]:
    """The groups by name; where there are many names, by what is left without numbers."""
    needed = ("rank", "group", "desc", "team", "state", "called", "done", "furthest")
    teams: dict[str, list[Row]] = {}
    for row in frame.drop_nulls("group").sort("team", "rank").select(needed).iter_rows(named=True):
        teams.setdefault(row["team"], []).append(row)
    names = [name_of_group(team[0]["group"], team[0]["desc"]) for team in teams.values()]
    if len(set(names)) > _NAMES:  # each has a number of its own
        names = [_NUMBER.sub("", name) or name for name in names]
    by_name: dict[str, list[Team]] = {}
    for name, team in zip(names, teams.values(), strict=True):
        by_name.setdefault(name, []).append(team)
    return by_name


def _is_open(of_rank: Mapping[int, Sequence[str]]) -> bool:
    return any(state != COMPLETED for of in of_rank.values() for state in of)


def _pairs(calls: pl.DataFrame) -> StatesOfPairs:
    """States of sends and receives by rank and group, in order."""
    ordered = calls.filter("is_p2p").sort("rank", "order").group_by(_OF_CALLS, maintain_order=True)
    return {(rank, group): states_of for rank, group, states_of in ordered.agg("state").iter_rows()}


def _of_pairs(name: str, of_rank: Mapping[int, Sequence[str]], width: int) -> Section:
    """Sends and receives around the first that is not done, else the last; ranks share no numbers of them."""
    shown = {}
    for rank, of in of_rank.items():
        first = next((place for place, state in enumerate(of) if state != COMPLETED), len(of))
        begin = max(min(first - _DONE_COLUMNS, len(of) - width), 0)
        shown[rank] = [*of[begin : begin + width], *[NO_MEMBER] * (width - len(of))]
    return Section(name, name, [""] * width, shown, dict.fromkeys(of_rank, name))


OpenCalls = Mapping[tuple[int, str], Mapping[int, str]]
"""States of calls that are not done, by rank and group, and number."""


def _open_calls(calls: pl.DataFrame) -> OpenCalls:
    is_open = (pl.col("state") != COMPLETED) & ~pl.col("is_p2p")
    made: dict[tuple[int, str], dict[int, str]] = {}
    for rank, group, seq, state in calls.filter(is_open).select("rank", "group", "seq", "state").iter_rows():
        made.setdefault((rank, group), {})[seq] = state
    return made


def _section(name: str, teams: Sequence[Team], open_calls: OpenCalls, width: int) -> Section:
    """Columns around the first collective of each group that is not done everywhere; a rank has its worst group."""
    opens = [_first_open(team) for team in teams]
    after = max((last - at for at, last in opens), default=0)
    before = width - 1 - max(min(after, width - 1 - _DONE_COLUMNS), 0)
    of_rank: dict[int, Sequence[str]] = {}
    group_of_rank: dict[int, str] = {}
    for team, (at, _) in zip(teams, opens, strict=True):
        for row in team:
            rank = row["rank"]
            states_of = [_state(row, seq, open_calls) for seq in range(at - before, at - before + width)]
            if rank not in of_rank or urgency(states_of) < urgency(of_rank[rank]):
                of_rank[rank], group_of_rank[rank] = states_of, row["group"]
    title = f"{name} · {len(teams):,} groups" if len(teams) > 1 else name
    return _fitted(Section(name, title, _heads([at for at, _ in opens], before, width), of_rank, group_of_rank))


def _fitted(section: Section) -> Section:
    """The section without columns that nobody has a state in: before the first collective."""
    every = section.of_rank.values()
    first = next((at for at in range(len(section.heads)) if any(each[at] != NO_MEMBER for each in every)), 0)
    of_rank = {rank: states_of[first:] for rank, states_of in section.of_rank.items()}
    return replace(section, heads=section.heads[first:], of_rank=of_rank)


def _heads(opens: Sequence[int], before: int, width: int) -> list[str]:
    """Numbers of collectives; where groups differ in them, how far they are from the first that is not done."""
    if len(set(opens)) > 1:
        return [f"{by:+d}" if by else OPEN for by in range(-before, width - before)]
    return [f"{seq:,}" if seq >= 0 else "" for seq in range(opens[0] - before, opens[0] - before + width)]


def urgency(states_of: Sequence[str]) -> int:
    """The place in `STATES` of the state that matters most; beyond them where there is none."""
    return min((_URGENCY[each] for each in states_of if each != NO_MEMBER), default=len(_URGENCY))


def _first_open(team: Team) -> tuple[int, int]:
    """The first collective of a group that is not done on all ranks that are known, and the last of all."""
    furthest: int = team[0]["furthest"]
    done = min((-1 if row["done"] is None else row["done"] for row in team if row["state"] != NO_RECORDS), default=-1)
    return min(done + 1, furthest), furthest


def _state(row: Row, seq: int, open_calls: OpenCalls) -> str:
    """The state of a rank in the collective of a number; blank where nobody has called it."""
    furthest = row["furthest"]
    if furthest is None or seq < 0 or seq > furthest:
        return NO_MEMBER
    if row["state"] == NO_RECORDS:
        return NO_RECORDS
    if row["called"] is None or seq > row["called"]:
        return NEVER
    of_call = open_calls.get((row["rank"], row["group"]), {}).get(seq)
    if of_call is not None:
        return of_call
    return COMPLETED
