from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinetoscope.algorithms.alignment.alignment import align, aligned_pairs
from kinetoscope.algorithms.alignment.sequence_alignment import Witness, best_lag


def lag(one: Witness, other: Witness, offset: int | None = None) -> int | None:
    best, ambiguous = best_lag(one, other, offset)
    return None if ambiguous else best


def events(seed: int, count: int, *, kinds: int = 3, regular: bool = False) -> tuple[NDArray[np.int64], ...]:
    """True ends, the least durations, and signatures of a sequence of events."""
    draw = np.random.default_rng(seed)
    gaps = np.full(count, 500_000) if regular else draw.integers(150_000, 900_000, count)
    return 10**15 + np.cumsum(gaps), draw.integers(5_000, 90_000, count), draw.integers(0, kinds, count)


def seen(sequence: tuple[NDArray[np.int64], ...], places: NDArray[np.int64], *, seed: int, offset: int = 0) -> Witness:
    """What a witness saw of the events at some places, with a clock that is ahead."""
    draw = np.random.default_rng(seed)
    end, least, signature = (each[places] for each in sequence)
    leaves = end + draw.integers(0, 5_000, len(places)) + offset
    arrives = end - least - draw.integers(0, 60_000, len(places)) + offset
    return Witness(arrives, leaves, signature.astype(np.int64), np.ones(len(places), np.bool_))


@given(
    seed=st.integers(0, 1000), count=st.integers(12, 200), cut=st.integers(0, 5), late=st.integers(0, 5),
    offset=st.integers(-10_000_000, 10_000_000),
)  # fmt: skip
def test_whole_windows_are_shifted_by_one_lag(seed: int, count: int, cut: int, late: int, offset: int) -> None:
    sequence = events(seed, count, kinds=1)  # nothing but time tells the events apart
    one, other = np.arange(0, count - cut), np.arange(late, count)
    pairs = aligned_pairs(seen(sequence, one, seed=1), seen(sequence, other, seed=2, offset=offset))
    assert one[pairs[0]].tolist() == other[pairs[1]].tolist()
    if count >= 24:  # of few events too few may be common to both windows
        assert one[pairs[0]].tolist() == list(range(late, count - cut))


@given(
    seed=st.integers(0, 1000), share=st.floats(0.5, 0.95), offset=st.sampled_from([0, 3_000_000, -9_123_456]),
    known=st.booleans(),
)  # fmt: skip
def test_windows_with_gaps_pair_nothing_wrong(seed: int, share: float, offset: int, known: bool) -> None:
    count = 150
    sequence = events(seed, count)
    draw = np.random.default_rng(seed + 1)
    one, other = (np.flatnonzero(draw.random(count) < share) for _ in range(2))
    witnesses = seen(sequence, one, seed=1), seen(sequence, other, seed=2, offset=offset)
    mine, theirs = aligned_pairs(*witnesses, offset if known else None)
    assert one[mine].tolist() == other[theirs].tolist()
    if known:
        assert len(mine) >= 0.9 * len(np.intersect1d(one, other))


def test_where_events_are_regular_and_gaps_hide_the_lag_nothing_is_paired() -> None:
    sequence = events(0, 100, kinds=1, regular=True)
    draw = np.random.default_rng(3)
    one, other = (np.flatnonzero(draw.random(100) < 0.6) for _ in range(2))
    mine, _ = aligned_pairs(seen(sequence, one, seed=1), seen(sequence, other, seed=2, offset=500_000))
    assert not len(mine)


def test_events_of_which_only_one_side_has_more_are_told_by_overlap() -> None:
    sequence = events(5, 60)
    sequence[2][30] = 9  # a call that only one rank makes
    one, other = np.arange(60), np.delete(np.arange(60), 30)
    mine, theirs = aligned_pairs(seen(sequence, one, seed=1), seen(sequence, other, seed=2), 0)
    assert sorted(one[mine].tolist()) == other.tolist()
    assert one[mine].tolist() == other[theirs].tolist()


def test_events_that_do_not_bind_are_paired_between_those_that_do() -> None:
    sequence = events(7, 40)
    sequence[2][::5] = 8
    sequence[2][13] = 9
    one, other = seen(sequence, np.arange(40), seed=1), seen(sequence, np.delete(np.arange(40), 13), seed=2)
    loose = [Witness(each.start, each.end, each.signature, each.signature != 8) for each in (one, other)]
    # A root leaves long before the others come: time tells nothing.
    loose[0].end[loose[0].signature == 8] -= 100_000
    mine, theirs = aligned_pairs(loose[0], loose[1], 0)
    pairs = dict(zip(mine.tolist(), theirs.tolist(), strict=True))
    assert {place: pairs[place] for place in range(0, 40, 5)} == {
        place: place - (place > 13) for place in range(0, 40, 5)
    }


def test_what_does_not_bind_does_not_blur_the_lag() -> None:
    sequence = events(11, 60, kinds=1)
    sequence[2][np.arange(60) % 3 > 0] = 8
    one, other = seen(sequence, np.arange(0, 57), seed=1), seen(sequence, np.arange(4, 60), seed=2, offset=4_000_000)
    for each, early in ((one, 0), (other, 350_000)):  # the other is the root: it leaves whenever it has sent
        each.end[each.signature == 8] -= early * (np.arange((each.signature == 8).sum()) % 2)
    loose = [Witness(each.start, each.end, each.signature, each.signature != 8) for each in (one, other)]
    mine, theirs = aligned_pairs(loose[0], loose[1])
    assert (mine - theirs == 4).all()
    assert len(mine) == 53


def test_a_lag_needs_signatures_that_agree() -> None:
    sequence = events(1, 20, kinds=1)
    one = seen(sequence, np.arange(20), seed=1)
    other = seen((*sequence[:2], sequence[2] + 5), np.arange(20), seed=2)
    assert lag(one, other) is None
    assert not len(aligned_pairs(one, other)[0])


def test_few_events_far_apart_are_not_taken_for_one() -> None:
    sequence = events(2, 2)
    one = seen(sequence, np.array([0]), seed=1)
    later = seen((sequence[0] + 10**9, sequence[1], sequence[2]), np.array([0]), seed=2)
    assert not len(aligned_pairs(one, later)[0])
    assert len(aligned_pairs(one, seen(sequence, np.array([0]), seed=2))[0]) == 1


def test_nothing_to_pair() -> None:
    none = seen(events(0, 1), np.empty(0, np.int64), seed=0)
    assert not len(aligned_pairs(none, seen(events(0, 5), np.arange(5), seed=0))[0])


def repeating(count: int, first: int, *, seed: int, offset: int = 0, step: bool = False) -> Witness:
    """A window of a sequence of five events over and over, each time at the same distances."""
    places = np.arange(first, first + count)
    end = 10**15 + places // 5 * 10_000_000 + np.array([1, 2, 5, 6, 8])[places % 5] * 1_000_000 + offset
    end = end + np.random.default_rng(seed).integers(0, 1_000, count)
    binding = np.ones(count, np.bool_)
    return Witness(end - 50_000, end, np.zeros(count, np.int64), binding, places // 5 if step else None)


def test_windows_of_a_sequence_that_repeats_itself_are_not_paired_if_nothing_tells_the_lag() -> None:
    one, other = repeating(30, 0, seed=1), repeating(25, 5, seed=2, offset=9_000_000)
    assert lag(one, other) is None
    assert len(align(one, other)[0][0]) == 0
    assert align(one, other)[1]


def test_clocks_or_the_numbers_of_steps_tell_the_lag_of_a_sequence_that_repeats_itself() -> None:
    one, other = repeating(30, 0, seed=1), repeating(25, 5, seed=2, offset=9_000_000)
    assert lag(one, other, 9_000_000) == 5
    one, other = repeating(30, 0, seed=1, step=True), repeating(25, 5, seed=2, offset=9_000_000, step=True)
    assert lag(one, other) == 5
    mine, theirs = aligned_pairs(one, other)
    assert (mine - theirs).tolist() == [5] * 25
    # Windows of one length begin together, unless steps say otherwise.
    assert lag(repeating(30, 0, seed=1), repeating(30, 5, seed=2)) == 0
    assert lag(repeating(30, 0, seed=1, step=True), repeating(30, 5, seed=2, step=True)) == 5


def test_events_that_say_nothing_of_themselves_do_not_spoil_the_lag() -> None:
    sequence = events(3, 40)
    one, other = seen(sequence, np.arange(40), seed=1), seen(sequence, np.arange(1, 40), seed=2)
    vague = np.arange(39) < 8
    other.signature[vague] = 99
    assert not len(aligned_pairs(one, other)[0]) or len(aligned_pairs(one, other)[0]) < 39
    told = Witness(other.start, other.end, other.signature, other.binding, None, vague)
    mine, theirs = aligned_pairs(one, told)
    assert (mine - theirs).tolist() == [1] * 39
