import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinetoscope.algorithms.ordering import track_order
from tests.conftest import few_examples

FIRST, LAST = -(2**63), 2**63 - 1
Int64s = NDArray[np.int64]

Rows = list[tuple[int, int, int, bool]]
times = st.one_of(st.integers(-5, 5), st.sampled_from([FIRST, LAST]))
some_rows = st.lists(st.tuples(st.integers(0, 3), times, times, st.booleans()), max_size=30)


def twin(rows: Rows, tracks: int) -> tuple[list[int], list[int]]:
    order = sorted((track, start, -end, row) for row, (track, start, end, selected) in enumerate(rows) if selected)
    offsets = [sum(key[0] < track for key in order) for track in range(tracks + 1)]
    return [key[-1] for key in order], offsets


@given(some_rows)
def test_order_is_that_of_sorted(rows: Rows) -> None:
    track, start, end, selected = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    order, offsets = track_order(
        np.array(track, np.int32),
        np.array(start, np.int64),
        np.array(end, np.int64),
        tracks=4,
        selected=np.array(selected, np.bool_),
    )
    assert (order.tolist(), offsets.tolist()) == twin(rows, 4)
    assert order.dtype == np.int32


def disordered(how: str, start: Int64s, random: np.random.Generator) -> Int64s:
    match how:
        case "reversed":
            return start[::-1]
        case "shuffled":
            return random.permutation(start)
        case "a little out of place":
            return start + random.integers(0, 300, start.size)
        case "far out of place":
            return np.where(random.random(start.size) < 0.02, start // 2, start)
        case "interleaved":
            return np.concatenate([start[0::3], start[1::3], start[2::3]])
        case "blocks":
            blocks = np.array_split(start, random.integers(1, 30))
            return np.concatenate([blocks[i] for i in random.permutation(len(blocks))])
        case "mostly equal":
            return start // 4000
        case _:
            return start


@pytest.mark.parametrize(
    "disorder",
    [
        "none",
        "reversed",
        "shuffled",
        "a little out of place",
        "far out of place",
        "interleaved",
        "blocks",
        "mostly equal",
    ],
)
@few_examples
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 4000))
def test_every_kind_of_disorder(disorder: str, seed: int, rows: int) -> None:
    random = np.random.default_rng(seed)
    track = random.integers(0, 3, rows).astype(np.int32)
    start = disordered(disorder, np.cumsum(random.integers(0, 20, rows)), random)
    end = start + random.integers(0, 50, rows)
    order, _ = track_order(track, start, end, tracks=3)
    assert np.array_equal(order, np.lexsort((-end, start, track)))


def test_tracks_without_rows_and_no_tracks() -> None:
    nothing = np.empty(0, np.int64)
    assert track_order(nothing.astype(np.int32), nothing, nothing, tracks=0)[1].tolist() == [0]
    order, offsets = track_order(np.array([2], np.int32), np.array([0]), np.array([1]), tracks=4)
    assert (order.tolist(), offsets.tolist()) == ([0], [0, 0, 0, 1, 1])


@pytest.mark.parametrize("track", [-1, 2])
def test_track_out_of_range_is_refused(track: int) -> None:
    with pytest.raises(ValueError, match=f"row 1 is on track {track}, but there are 2 tracks"):
        track_order(np.array([0, track], np.int32), np.zeros(2, np.int64), np.ones(2, np.int64), tracks=2)


def test_row_that_is_not_selected_may_be_on_no_track() -> None:
    track, time = np.array([-1, 0], np.int32), np.zeros(2, np.int64)
    assert track_order(track, time, time, tracks=1, selected=track >= 0)[0].tolist() == [1]


def test_lengths_must_agree() -> None:
    three, two = np.zeros(3, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="expected 3 rows"):
        track_order(three.astype(np.int32), three, two, tracks=1)
    with pytest.raises(ValueError, match="expected 3 rows"):
        track_order(three.astype(np.int32), three, three, tracks=1, selected=two == 0)
