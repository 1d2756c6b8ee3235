"""Tracks keep pid and tid as they stand in the file, and give the number in them where there is one."""

from typing import Any

import pytest

from tests.readers.texts import read_text


@pytest.mark.parametrize(
    ("tid", "value", "number"),
    [
        ("7", 7, 7),
        ("-1", -1, -1),
        ('"stream 7"', "stream 7", 7),
        ('"thread 12 (python)"', "thread 12 (python)", -1),
        ('"123"', "123", 123),
        ('"Spans"', "Spans", -1),
        ('""', "", -1),
        ("7.0", 7.0, 7),
        ("1e300", 1e300, -1),
        ("NaN", float("nan"), -1),
        ("true", True, -1),
        ("null", None, -1),
        ("[1, 2]", [1, 2], -1),
        ("12345678901234567890123", 12345678901234567890123, -1),
        ('"9999999999999999999999"', "9999999999999999999999", -1),
    ],
)
def test_identities(tid: str, value: Any, number: int) -> None:
    tracks = read_text(f'[{{"ph": "X", "pid": {tid}, "tid": {tid}}}]').tracks
    assert repr(tracks.tids) == repr(tracks.pids) == repr([value])
    assert tracks.integer_tids().tolist() == tracks.integer_pids().tolist() == [number]


def test_one_track_for_each_pair_in_order_of_appearance() -> None:
    pairs = [("1", "2"), ("1", '"2"'), ("1", "2"), ('"1"', "2"), ("1.0", "2"), ("2", "1")]
    events = ", ".join(f'{{"ph": "X", "pid": {pid}, "tid": {tid}}}' for pid, tid in pairs)
    trace = read_text(f'[{events}, {{"ph": "X"}}, {{"ph": "X", "tid": 2}}]')
    assert trace.track.tolist() == [0, 1, 0, 2, 3, 4, 5, 6]
    assert trace.tracks.pids == [1, 1, "1", 1.0, 2, None, None]
    assert trace.tracks.tids == [2, "2", 2, 2, 1, None, 2]
    assert len(trace.tracks) == 7
