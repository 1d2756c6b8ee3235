"""Process groups as a rank records them, and one text that stands for each.

A group is its name, its description, its size and its ranks together: names alone are counters that several groups of
a job can share. Lists of ranks are kept as short text (`0-7`, `0-56/8`), since ten thousand ranks times ten thousand
collectives would not fit anywhere.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any, Final

from kinetoscope.model.trace.strings import value_of
from kinetoscope.model.trace.trace import Trace

_MAX_KEY_CHARACTERS: Final = 120
"""Characters of a list of runs beyond which a key holds the beginning and a checksum."""

_MAX_GROUP_SIZE: Final = 1 << 20
"""Ranks of a group; greater numbers are wrong."""

_RUN: Final = re.compile(r"(\d+)(?:-(\d+)(?:/(\d+))?)?")
_NUMBERS: Final = re.compile(r"\d{1,10}")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process group.

    Attributes:
        name: as torch numbers or hashes it; None where it is not recorded.
        description: what it is for, in words; None where it is not recorded.
        size: how many ranks it has; None if unknown.
        ranks: as `ranks_text` writes them; None if unknown.
    """

    name: str | None = None
    description: str | None = None
    size: int | None = None
    ranks: str | None = None

    @property
    def key(self) -> str | None:
        """The text that stands for it: `0 default_pg [0-7]`; None where nothing is recorded."""
        if self.name is None and self.ranks is None:
            return None
        size = "ranks unknown" if self.size is None else f"{self.size} rank{'' if self.size == 1 else 's'}"
        who = f"[{_short(self.ranks)}]" if self.ranks is not None else f"({size})"
        return " ".join(part for part in (self.name, self.description, who) if part)

    def written(self) -> str:
        """All of it in one line, for `read_back`."""
        return json.dumps([self.name, self.description, self.size, self.ranks])


def read_back(line: str) -> ProcessGroup:
    """The group that `written` wrote."""
    name, description, size, ranks = json.loads(line)
    return ProcessGroup(name, description, size, ranks)


def ranks_text(ranks: Sequence[int]) -> str:
    """Ranks in ascending order as runs: `0-7`, `0-56/8` for every eighth, `0-3,6`."""
    ordered = sorted(set(ranks))
    if len(ordered) > 2:
        step = ordered[1] - ordered[0]
        if (
            step > 1
            and ordered[-1] - ordered[0] == step * (len(ordered) - 1)
            and all(b - a == step for a, b in pairwise(ordered))
        ):
            return f"{ordered[0]}-{ordered[-1]}/{step}"
    runs = []
    for _, run in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0]):
        members = [rank for _, rank in run]
        runs.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ",".join(runs)


def ranks_of(text: str) -> list[int]:
    """The ranks that `ranks_text` wrote."""
    runs = (range(int(low), int(high or low) + 1, int(step or 1)) for low, high, step in _RUN.findall(text))
    return list(chain.from_iterable(runs))


def configured(trace: Trace) -> list[ProcessGroup]:
    """The groups that this rank belongs to, by `distributedInfo`."""
    facts = _facts(trace)
    config = facts.get("pg_config")
    groups = []
    for each in config if isinstance(config, list) else ():
        if isinstance(each, dict):
            ranks = _ranks(each.get("ranks"))
            size = each.get("pg_size")
            size = size if _is_count(size) else (len(ranks) if ranks else None)
            whole = ranks is not None and len(ranks) == size
            text = ranks_text(ranks) if ranks is not None and whole else None
            groups.append(ProcessGroup(_text(each.get("pg_name")), _text(each.get("pg_desc")), size, text))
    return list(dict.fromkeys(groups))


def world_size(trace: Trace) -> int | None:
    """The number of ranks of the job; None if it is not recorded."""
    world = _facts(trace).get("world_size")
    return world if _is_count(world) else None


def host_of(trace: Trace) -> str | None:
    """Name of the machine that the rank ran on; None if it is not recorded."""
    return _text(trace.metadata.get("host_name"))


def resolved(group: ProcessGroup, known: Sequence[ProcessGroup], start: int, stride: int) -> ProcessGroup:
    """A group as a call records it, with the ranks that it leaves out: those configured, else an even run of them.

    `known` are the groups of `distributedInfo`; `start` and `stride` the first rank and the distance of the next, as
    newer files have them, −1 if they do not.
    """
    if group.ranks is not None:
        return group
    same = [each for each in known if each.name == group.name and each.size == group.size and each.ranks is not None]
    if group.description is not None:
        same = [each for each in same if each.description in (group.description, None)] or same
    if len({each.ranks for each in same}) == 1:
        return ProcessGroup(group.name, group.description or same[0].description, group.size, same[0].ranks)
    if group.size is not None and start >= 0 and (stride > 0 or group.size == 1):
        ranks = ranks_text(range(start, start + group.size * max(stride, 1), max(stride, 1)))
        return ProcessGroup(group.name, group.description, group.size, ranks)
    return group


def whole_list(text: str, size: int | None) -> str | None:
    """A list of ranks as an argument holds it (`[0, 1]`), in short; None where it was cut or is no such list."""
    listed = value_of(text)
    ranks = _ranks(listed) if isinstance(listed, list) else None
    return ranks_text(ranks) if ranks and (size is None or len(ranks) == size) else None


def _facts(trace: Trace) -> dict[str, Any]:
    facts: Any = trace.metadata.get("distributedInfo")
    return facts if isinstance(facts, dict) else {}


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value <= _MAX_GROUP_SIZE


def _ranks(value: Any) -> list[int] | None:
    if isinstance(value, str) and "..." not in value:  # as traces that are taken on demand have it
        value = [int(number) for number in _NUMBERS.findall(value)]
    if isinstance(value, list) and value and all(type(rank) is int and 0 <= rank < 1 << 31 for rank in value):
        return value
    return None


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() or None
    return str(value) if type(value) is int else None


def _short(ranks: str) -> str:
    if len(ranks) <= _MAX_KEY_CHARACTERS:
        return ranks
    return f"{ranks[:_MAX_KEY_CHARACTERS].rpartition(',')[0]},… #{zlib.crc32(ranks.encode()):08x}"
