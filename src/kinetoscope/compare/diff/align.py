"""Which owners of two runs are the same: by their whole key, then by ever less of it.

What an owner is known by may change between two runs although the program does the same: a kernel gets another name at
the same place, a batch another size, a wrapper stands around the model. Each pass pairs what the passes before left
over; what none pairs is new or gone. No pass can lose or double time: an owner is in one pair.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kinetoscope.compare.diff.normalize_names import without_digits
from kinetoscope.compare.diff.run_profile import Entry, Side
from kinetoscope.model.execution.call_stacks import SEPARATOR

_FEW: Final = 3
"""Kernels at one place that may become one, or one that may become so many."""

_ON_DEVICE: Final = ("kernel", "memcpy", "memset")


@dataclass(frozen=True, slots=True)
class Pair:
    """The same in both runs: owners of the one and of the other; either may be none, one, or several."""

    base: tuple[Entry, ...]
    new: tuple[Entry, ...]


Rule = Callable[[Sequence[Entry], Sequence[Entry]], Iterator[Pair]]
"""Pairs some of the owners that have a key in common; those of both runs are in the order in which they occur."""


def aligned(base: Side, new: Side) -> list[Pair]:
    """All owners of both runs, each in one pair."""
    left, right = list(base.entries), list(new.entries)
    found: list[Pair] = []
    for key, rule in _PASSES:
        pairs = list(_paired(left, right, key, rule))
        found += pairs
        taken = {id(entry) for pair in pairs for entry in (*pair.base, *pair.new)}
        left = [entry for entry in left if id(entry) not in taken]
        right = [entry for entry in right if id(entry) not in taken]
    found += [Pair((entry,), ()) for entry in left]
    found += [Pair((), (entry,)) for entry in right]
    return found


def _paired(
    left: Sequence[Entry], right: Sequence[Entry], key: Callable[[Entry], Hashable], rule: Rule
) -> Iterator[Pair]:
    mine: dict[Hashable, list[Entry]] = {}
    for entry in left:
        mine.setdefault(key(entry), []).append(entry)
    yours: dict[Hashable, list[Entry]] = {}
    for entry in right:
        if (found := key(entry)) in mine:
            yours.setdefault(found, []).append(entry)
    for found, entries in yours.items():
        if found is not None:
            yield from rule(mine[found], entries)


# --- rules


def _all_together(left: Sequence[Entry], right: Sequence[Entry]) -> Iterator[Pair]:
    yield Pair(tuple(left), tuple(right))


def _in_order(left: Sequence[Entry], right: Sequence[Entry]) -> Iterator[Pair]:
    """As many on both sides are paired in order; else all of them are one pair."""
    if len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            yield Pair((one,), (other,))
    else:
        yield Pair(tuple(left), tuple(right))


def _renamed(left: Sequence[Entry], right: Sequence[Entry]) -> Iterator[Pair]:
    """As many on both sides are paired in order; one kernel may have become a few, or a few one."""
    if len(left) == len(right) or (min(len(left), len(right)) == 1 and max(len(left), len(right)) <= _FEW):
        yield from _in_order(left, right)


# --- keys


def _whole(entry: Entry) -> Hashable:
    return entry.key


def _without_numbers(entry: Entry) -> Hashable:
    """Annotations may be numbered by what differs from run to run: requests, batches."""
    key = entry.key
    name = key.name if key.kind in _ON_DEVICE else without_digits(key.name)
    return key._replace(name=name, path=without_digits(key.path))


def _place(entry: Entry) -> Hashable:
    """The place that device work is launched from, whatever its name."""
    key = entry.key
    known = key.kind in _ON_DEVICE and key.path
    return (key.category, without_digits(key.path), key.input_shapes) if known else None


def _without_shapes(entry: Entry) -> Hashable:
    key = entry.key
    return key._replace(path=without_digits(key.path), input_shapes=None)


def _place_without_shapes(entry: Entry) -> Hashable:
    key = entry.key
    return (key.category, without_digits(key.path)) if key.kind in _ON_DEVICE and key.path else None


def _innermost(entry: Entry) -> Hashable:
    """The call that it stands in, wherever that stands."""
    key = entry.key
    return key._replace(path=without_digits(key.path.rpartition(SEPARATOR)[2]))


def _anywhere(entry: Entry) -> Hashable:
    return entry.key._replace(path="")


_PASSES: Final[tuple[tuple[Callable[[Entry], Hashable], Rule], ...]] = (
    (_whole, _all_together),
    (_without_numbers, _all_together),
    (_place, _renamed),
    (_without_shapes, _in_order),
    (_place_without_shapes, _renamed),
    (_innermost, _all_together),
    (_anywhere, _all_together),
)
