"""Pairs of owners of two runs that are the same: by their whole key, then by ever less of it.

What an owner is known by may change between two runs although the program does the same: a kernel gets another name at
the same place, a batch another size, a wrapper stands around the model. Each pass pairs what the passes before left
over; what none pairs is new or gone. No pass can lose or double time: an owner is in one pair.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from kinetoscope.compare.diff.normalize_names import without_digits
from kinetoscope.compare.diff.run_profile import Owner, RunProfile
from kinetoscope.model.execution.frames import SEPARATOR

_MAX_SPLIT: Final = 3
"""Kernels at one place that may become one, or into which one kernel may split."""

_ON_DEVICE: Final = ("kernel", "memcpy", "memset")


T = TypeVar("T")


@dataclass(frozen=True)
class Pair(Generic[T]):
    """The same in both runs: owners of the one and of the other; either may be none, one, or several."""

    base: tuple[T, ...]
    new: tuple[T, ...]


Pairing = Callable[[Sequence[T], Sequence[T]], Iterator[Pair[T]]]
"""Pairs some of the owners that have a key in common; those of both runs are in the order in which they occur."""


def aligned(base: RunProfile, new: RunProfile) -> list[Pair[Owner]]:
    """All owners of both runs, each in one pair."""
    return in_pairs(base.owners, new.owners, _PASSES)


def in_pairs(
    base: Sequence[T], new: Sequence[T], passes: Iterable[tuple[Callable[[T], Hashable], Pairing[T]]]
) -> list[Pair[T]]:
    """All of both sides, each in one pair: of each pass what has the same key, by its rule; None is no key."""
    left, right = list(base), list(new)
    result: list[Pair[T]] = []
    for key, rule in passes:
        pairs = list(_paired(left, right, key, rule))
        result += pairs
        taken = {id(owner) for pair in pairs for owner in (*pair.base, *pair.new)}
        left = [owner for owner in left if id(owner) not in taken]
        right = [owner for owner in right if id(owner) not in taken]
    result += [Pair((owner,), ()) for owner in left]
    result += [Pair((), (owner,)) for owner in right]
    return result


def _paired(left: Sequence[T], right: Sequence[T], key: Callable[[T], Hashable], rule: Pairing[T]) -> Iterator[Pair[T]]:
    mine: dict[Hashable, list[T]] = {}
    for owner in left:
        mine.setdefault(key(owner), []).append(owner)
    yours: dict[Hashable, list[T]] = {}
    for owner in right:
        if (common_key := key(owner)) in mine:
            yours.setdefault(common_key, []).append(owner)
    for common_key, owners in yours.items():
        if common_key is not None:
            yield from rule(mine[common_key], owners)


# --- rules


def all_together(left: Sequence[T], right: Sequence[T]) -> Iterator[Pair[T]]:
    """All that have the key are one pair."""
    yield Pair(tuple(left), tuple(right))


def _in_order(left: Sequence[Owner], right: Sequence[Owner]) -> Iterator[Pair[Owner]]:
    """As many on both sides are paired in order; else all of them are one pair."""
    if len(left) == len(right):
        for one, other in zip(left, right, strict=True):
            yield Pair((one,), (other,))
    else:
        yield Pair(tuple(left), tuple(right))


def _renamed(left: Sequence[Owner], right: Sequence[Owner]) -> Iterator[Pair[Owner]]:
    """As many on both sides are paired in order; one kernel may have become a few, or a few one."""
    if len(left) == len(right) or (min(len(left), len(right)) == 1 and max(len(left), len(right)) <= _MAX_SPLIT):
        yield from _in_order(left, right)


def _moved(left: Sequence[Owner], right: Sequence[Owner]) -> Iterator[Pair[Owner]]:
    """All together, where one side has fewer places, or both have one: a graph launches what ran in many operators.

    As many places on both sides are operators that came and went; they share a kernel by chance.
    """
    places = [{(owner.key.path, owner.key.input_shapes) for owner in side} for side in (left, right)]
    if len(places[0]) != len(places[1]) or max(map(len, places)) == 1:
        yield Pair(tuple(left), tuple(right))


# --- keys


def _without_numbers(owner: Owner) -> Hashable:
    """Annotations may be numbered by what differs from run to run: requests, batches."""
    key = owner.key
    name = key.name if key.kind in _ON_DEVICE else without_digits(key.name)
    return key._replace(name=name, path=without_digits(key.path))


def _place(owner: Owner) -> Hashable:
    """The place that device work is launched from, whatever its name."""
    key = owner.key
    known = key.kind in _ON_DEVICE and key.path
    return (key.category, without_digits(key.path), key.input_shapes) if known else None


def _without_shapes(owner: Owner) -> Hashable:
    return owner.key._replace(path=without_digits(owner.key.path), input_shapes=None)


def _place_without_shapes(owner: Owner) -> Hashable:
    key = owner.key
    return (key.category, without_digits(key.path)) if key.kind in _ON_DEVICE and key.path else None


def _innermost(owner: Owner) -> Hashable:
    """The call that it stands in, wherever that stands."""
    key = owner.key
    return key._replace(path=without_digits(key.path.rpartition(SEPARATOR)[2]))


def _kernel(owner: Owner) -> Hashable:
    """The kernel, wherever it is launched from and whatever shapes its operator has."""
    key = owner.key
    return (key.category, key.kind, key.name) if key.kind in _ON_DEVICE else None


_PASSES: Final[tuple[tuple[Callable[[Owner], Hashable], Pairing[Owner]], ...]] = (
    (lambda owner: owner.key, all_together),
    (_without_numbers, all_together),
    (_place, _renamed),
    (_without_shapes, _in_order),
    (_place_without_shapes, _renamed),
    (_innermost, all_together),
    (lambda owner: owner.key._replace(path=""), all_together),
    (_kernel, _moved),
)
