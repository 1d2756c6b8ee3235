"""Who of several ranks decides what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.record.always_on.idle import RankProcess
from kinetoscope.record.always_on.wanted_windows import WantedWindows, chosen
from kinetoscope.record.history.wishes import WindowWish, wish_of
from tests.history.drawn import Noise, Planted, Run, draw
from tests.record.history.test_online_changes import packed

LATE = WindowWish("change data longer", "steps take 40% longer", part="data", size=4e7)
WAITING = WindowWish("change backward longer", "steps take 40% longer", part="backward", size=4e7)
SPIKE = WindowWish("spike data", "slow step", size=9e9)


def test_the_rank_that_nobody_waits_for_in_it_is_named() -> None:
    assert chosen([(0, WAITING), (1, WAITING), (2, LATE), (3, SPIKE)], 4).reason == "rank 2: steps take 40% longer"
    assert chosen([(rank, WAITING) for rank in range(4)], 4) == WAITING
    some = chosen([(rank, LATE) for rank in range(6)], 8)
    assert some.reason == "ranks 0, 1, 2, 3 and 2 more: steps take 40% longer"


def test_a_note_of_something_else_is_no_wish() -> None:
    assert wish_of(LATE.note()) == LATE
    assert wish_of({**LATE.note(), "first": "x"}) is None
    assert wish_of({}) is None


def test_the_first_rank_asks_once_for_what_all_have_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinetoscope.record.always_on.wanted_windows._SETTLING_S", 0.0)
    planted = (Planted("shift", 1000, (2,), "data", 0.4),)
    drawn = draw(Run("rank", 1100, 3, noise=Noise(0.02, 0.5, outliers=0), planted=planted), 1)
    asked: list[WindowWish] = []
    for rank in (1, 2, 0):
        wanted = WantedWindows(RankProcess(rank, 3, 10 + rank, "h"), tmp_path, asked.append)
        wanted.seen(packed(drawn.frames[rank]), [])
        assert bool(asked) == (rank == 0)
    (wish,) = asked
    assert wish.reason.startswith("rank 2: steps take ")
    assert ": data 5" in wish.reason
    assert not list((tmp_path / "wishes").iterdir())
