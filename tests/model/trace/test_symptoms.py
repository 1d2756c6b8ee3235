from __future__ import annotations

import polars as pl
import pytest

from kinetoscope.errors import InputError
from kinetoscope.model.trace.symptoms import Health
from kinetoscope.notes import Note
from kinetoscope.schema import Result, Schema

NOTE, WARNING, ERROR = Note("A", "a"), Note("B", "b", "warning"), Note("C", "c", "error")


def test_the_worst_comes_first_and_otherwise_the_order_given_stays() -> None:
    health = Health.of([NOTE, WARNING], [ERROR, Note("D", "d", "warning")])
    assert [symptom.code for symptom in health] == ["C", "B", "D", "A"]
    assert (health.worst, len(health)) == ("error", 4)


def test_symptoms_are_found_by_their_code() -> None:
    health = Health.of([NOTE])
    assert "A" in health
    assert "B" not in health
    assert health["A"] is NOTE
    with pytest.raises(KeyError):
        health["B"]


def test_a_message_is_one_line_whatever_a_name_holds() -> None:
    name = "a\r\nb\u2028c\x85"
    spelled = "a\\r\\nb\\u2028c\\x85"
    assert str(Note("A", name)) == spelled
    assert str(InputError(name)) == spelled
    assert Result(pl.DataFrame(), Schema(), (Note("A", name),)).notes == (spelled,)


def test_nothing_wrong_is_nothing() -> None:
    assert (Health().worst, len(Health()), list(Health.of([], []))) == (None, 0, [])
