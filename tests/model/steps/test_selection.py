from __future__ import annotations

import pickle

import pytest

from kinetoscope import ALL, Selection


def test_all_selects_nothing_in_particular() -> None:
    assert Selection() == ALL
    assert all(getattr(ALL, name) is None for name in Selection.__slots__)


def test_it_is_a_fact_that_can_be_sent_and_asked_with() -> None:
    chosen = Selection(steps=(3, 4), annotation="forward")
    assert pickle.loads(pickle.dumps(chosen)) == chosen
    assert hash(chosen) == hash(Selection(steps=(3, 4), annotation="forward"))
    with pytest.raises(AttributeError):
        chosen.steps = None  # type: ignore[misc]
