"""Who belongs to which process group: several may have one name, and ranks may not agree on who belongs to one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import polars as pl

Form = tuple[tuple[int, ...], tuple[int, ...]]
"""A list of members, and the ranks that have it."""


@dataclass(frozen=True)
class MemberGroup:
    """A process group of the job.

    Attributes:
        key: as in the tables; groups of one key are parted by their members.
        ranks: its members, in the order of their numbers in it.
        are_known: a dump says who they are; else they are those that have it.
        lists: where ranks do not agree on its members, each list as text, and the ranks that have it.
    """

    key: str
    ranks: tuple[int, ...]
    are_known: bool = True
    lists: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_of_gloo(self) -> bool:
        """Its records are gloo's, which end a call that has failed as one that is done."""
        return self.key.startswith("gloo:")


def process_groups(groups: pl.DataFrame, ranks: Iterable[int]) -> tuple[pl.DataFrame, tuple[MemberGroup, ...]]:
    """The groups of a job, and which one each rank means by a key.

    Args:
        groups: as `records.GROUPS`.
        ranks: all ranks of the job.

    Returns:
        rank, group and number, which is the place in the groups.
    """
    lists = groups.select("rank", "group", "ranks").with_columns(name=_one_form(groups["group"]))
    same = lists.group_by("name", "ranks", maintain_order=True).agg("rank")
    by_name: dict[str, list[Form]] = defaultdict(list)
    for name, members, reporting in same.iter_rows():
        by_name[name].append((tuple(members or ()), tuple(reporting)))
    made: list[MemberGroup] = []
    meant: list[tuple[int, str, int]] = []
    for name, forms in by_name.items():
        for group, reporting in _of_one_name(name, forms, tuple(ranks)):
            meant += [(rank, name, len(made)) for rank in reporting]
            made.append(group)
    numbers = pl.DataFrame(meant, schema={"rank": pl.Int64, "name": pl.String, "number": pl.Int64}, orient="row")
    return lists.join(numbers, on=["rank", "name"]).select("rank", "group", "number"), tuple(made)


def _one_form(keys: pl.Series) -> pl.Series:
    """A rank that has called nothing in a group does not know its backend, which begins its key at all others."""
    full: dict[str, set[str]] = defaultdict(set)
    for key in keys.unique().to_list():
        backend, _, rest = key.partition(":")
        full[rest if backend else key[1:]].update([key] if backend else [])
    forms = {":" + rest: next(iter(known)) for rest, known in full.items() if len(known) == 1}
    return keys.replace(forms)


def _of_one_name(name: str, forms: list[Form], world: tuple[int, ...]) -> list[tuple[MemberGroup, tuple[int, ...]]]:
    """Groups of one name, each with the ranks that mean it."""
    unknown = tuple(sorted(rank for members, reporting in forms if not members for rank in reporting))
    made = []
    for part in _parts([form for form in forms if form[0]]):
        members = tuple(dict.fromkeys(rank for each, _ in part for rank in each))
        silent = tuple(rank for rank in unknown if rank in members)
        unknown = tuple(rank for rank in unknown if rank not in members)
        lists = {", ".join(map(str, each)): tuple(sorted(reporting)) for each, reporting in part}
        reporting = tuple(rank for _, each in part for rank in each)
        made.append((MemberGroup(name, members, True, lists if len(part) > 1 else {}), reporting + silent))
    if unknown:
        # torch gives the first group this name and all ranks; who else has a group is known only by its calls.
        everyone = name.partition(":")[2] in ("0", "0 (default_pg)")
        made.append((MemberGroup(name, world if everyone else unknown, False), unknown))
    return made


def _parts(known: list[Form]) -> list[list[Form]]:
    """Lists of members, parted into groups: a member with another list makes the two one, on which they disagree."""
    of: dict[int, int] = {}
    for place, (_, reporting) in enumerate(known):
        of |= dict.fromkeys(reporting, place)
    parted = [*range(len(known))]
    for place, (members, _) in enumerate(known):
        same = {parted[place], *(parted[of[rank]] for rank in members if rank in of)}
        parted = [min(same) if each in same else each for each in parted]
    made: dict[int, list[Form]] = defaultdict(list)
    for form, first in zip(known, parted, strict=True):
        made[first].append(form)
    return [*made.values()]
