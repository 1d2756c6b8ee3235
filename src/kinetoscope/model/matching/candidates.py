"""Which ranks were in a collective together, where the groups of each rank are listed and calls do not say which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.matching.membership import Attendance
from kinetoscope.model.matching.simultaneity import PIVOTS, Seen


def of_listed(known: Attendance, seen: Seen) -> Iterator[list[int]]:
    """Where the groups of each rank are listed: those that alone fit what one of their ranks did."""
    left = _options(known, seen)
    tried = False
    while left:
        counts = Counter(rank for here in left for rank in here)
        sure = [here for here in left if any(counts[rank] == 1 for rank in here)]
        if not sure and (tried or not known.calls.sized[seen.some[0]]):
            return  # calls of unknown size are too much alike
        if not sure:
            _strike_out(seen, left)
            tried = True
        for here in sure:
            if any(here & other for other in sure if other != here):
                left.pop(here, None)  # both cannot be
            elif here in left:
                members = left[here]
                if members is not None and len(members) > 1:
                    yield members.tolist()
                left = {each: places for each, places in left.items() if not each & here}


Options = dict[frozenset[int], Int64s | None]
"""Groups that may be meant: ranks that are there, and their places in the table; None if it lacks one of them."""


def _options(known: Attendance, seen: Seen) -> Options:
    """Groups all of whose ranks, as far as there are files, make such calls."""
    place = {rank: each for each, rank in enumerate(seen.rank.tolist())}
    doing = known.doing(known.calls.signature[seen.some[:1]])
    found: Options = {}
    for rank in place:
        for ranks in known.groups[rank] or ():
            here = frozenset(known.there[each] for each in ranks if each in known.there)
            if here not in found and (here <= doing or known.calls.gaps):
                found[here] = np.array(sorted(place[each] for each in here)) if here <= place.keys() else None
    return dict(sorted(found.items(), key=lambda each: (-len(each[0]), sorted(each[0]))))


def _strike_out(seen: Seen, options: Options) -> None:
    """Strike out the groups that cannot be."""
    if not seen.binds or seen.calls.gaps or seen.rows.shape[1] * seen.end.size > PIVOTS:
        return
    place = {rank: each for each, rank in enumerate(seen.rank.tolist())}
    sure = {rank: seen.bound(each, seen.limit(each)) for rank, each in place.items()}
    for here, members in list(options.items()):
        wrong = any(not here >= set(seen.rank[sure[rank]].tolist()) for rank in here if rank in sure)
        if members is not None and not wrong:
            wrong = not all(seen.together(each)[members].all() for each in members.tolist())
            wrong |= seen.waited_for_others(members)
        if wrong:
            del options[here]
