"""Whether ranks that meet in one collective call the same, by the rules of each collective."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Difference = Literal["different collective", "different sizes", "different types", "different root", "different group"]

GATHERS: Final = ("all_gather", "allgather", "_all_gather_base", "_allgather_base", "all_gather_single")
SCATTERS: Final = ("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single")
UNEVEN: Final = ("all_to_all", "alltoall", "all_gather_v", "reduce_scatter_v")
"""Collectives whose sizes are each rank's own: names that begin so."""

ROOTED: Final = ("broadcast", "_broadcast_oop", "reduce", "_reduce_oop")
"""Collectives with a root that no record says."""


@dataclass(frozen=True)
class Differing:
    """What ranks that meet in one collective do not call alike.

    Attributes:
        cause: what differs.
        by_value: each value, and the ranks that have it.
        ranks: those that differ from most; all of them where no value has more than half of the ranks.
    """

    cause: Difference
    by_value: dict[str, tuple[int, ...]]
    ranks: tuple[int, ...]


def differing(came: Mapping[int, Sequence[Mapping[str, Any]]], members: int) -> Differing | None:
    """What differs among the calls of ranks that have come to one collective; None if nothing that matters does.

    Args:
        came: rows of each rank: several of one that has called collectives as one.
        members: ranks of the group.
    """
    names = {rank: " + ".join(row["name"] for row in rows) for rank, rows in came.items()}
    if (by_name := _parted("different collective", names)) is not None:
        return by_name
    for place in range(len(next(iter(came.values()), ()))):
        rows = {rank: rows[place] for rank, rows in came.items()}
        difference = _of_sizes(rows, members) or _of_types(rows)
        if difference is not None:
            return difference
    return None


def differing_pair(sent: Mapping[str, Any], received: Mapping[str, Any]) -> Differing | None:
    """What differs between a send and its receive."""
    ranks = {sent["rank"]: sent, received["rank"]: received}
    sizes = {sent["rank"]: sent["input_elements"], received["rank"]: received["output_elements"]}
    texts = {sent["rank"]: sent["input_sizes"], received["rank"]: received["output_sizes"]}
    if None not in sizes.values() and len({*sizes.values()}) > 1:
        return _parted("different sizes", texts) or _parted("different sizes", sizes)
    return _of_types(ranks)


def _of_sizes(rows: Mapping[int, Mapping[str, Any]], members: int) -> Differing | None:
    name = next(iter(rows.values()))["name"]
    given = {rank: row["input_elements"] for rank, row in rows.items()}
    taken = {rank: row["output_elements"] for rank, row in rows.items()}
    if name.startswith(UNEVEN) or name in ("barrier", "all_reduce_barrier", "coalesced"):
        return None
    if name in ("gather", "scatter"):
        # The root alone has tensors at both ends.
        at_root = taken if name == "gather" else given
        each = given if name == "gather" else taken
        roots = [rank for rank, elements in at_root.items() if elements]
        if len(roots) > 1 or (not roots and len(rows) == members):
            return Differing("different root", {"root": tuple(roots)}, tuple(roots) or tuple(sorted(rows)))
        return _parted("different sizes", _texts(rows, "input_sizes" if name == "gather" else "output_sizes", each))
    parted = _parted("different sizes", _texts(rows, "input_sizes", given))
    if parted is None:
        parted = _parted("different sizes", _texts(rows, "output_sizes", taken))
    if parted is not None:
        return parted
    wrong = [rank for rank in rows if not _fits(name, given[rank], taken[rank], members)]
    if wrong and members > 0 and len(rows) > 1:
        texts = {rank: f"{row['input_sizes']} -> {row['output_sizes']}" for rank, row in rows.items()}
        return Differing("different sizes", _by_value(texts), tuple(wrong))
    return None


def _fits(name: str, given: int | None, taken: int | None, members: int) -> bool:
    """What a rank gives fits what it gets. A list of outputs that a dump leaves out is no fault."""
    if not given or not taken:
        return True
    if name in GATHERS:
        return taken == given * members
    return given == taken * members if name in SCATTERS else True


def _texts(
    rows: Mapping[int, Mapping[str, Any]], column: str, elements: Mapping[int, int | None]
) -> dict[int, str | None]:
    """Sizes as texts where the numbers of elements differ: collectives count elements, and know no shapes."""
    known = {rank: count for rank, count in elements.items() if count is not None}
    if len({*known.values()}) <= 1:
        return {}
    shapes = {rank: rows[rank][column] for rank in known}
    return shapes if len({*shapes.values()}) > 1 else {rank: f"{count} elements" for rank, count in known.items()}


def _of_types(rows: Mapping[int, Mapping[str, Any]]) -> Differing | None:
    return _parted("different types", {rank: row["types"] for rank, row in rows.items() if row["types"]})


def _parted(cause: Difference, values: Mapping[int, Hashable]) -> Differing | None:
    """The ranks parted by a value that should be one; None if it is one."""
    counts = Counter(values.values())
    if len(counts) <= 1:
        return None
    (common, most), *_ = counts.most_common()
    ranks = sorted(values) if 2 * most <= len(values) else sorted(r for r, value in values.items() if value != common)
    return Differing(cause, _by_value(values), tuple(ranks))


def _by_value(values: Mapping[int, Hashable]) -> dict[str, tuple[int, ...]]:
    by_value: dict[str, list[int]] = defaultdict(list)
    for rank, value in sorted(values.items()):
        by_value[str(value)].append(rank)
    return {value: tuple(ranks) for value, ranks in by_value.items()}
