"""An event is put together again as it stood in the file; `tests/readers/test_tokenizer.py` does it for any event."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.trace.json_events import members, microseconds
from kinetoscope.model.trace.shapes import (
    FLOAT,
    IN_COLUMN,
    IN_TRACK,
    NUMBER_TEXT,
    OPEN,
    RAW,
    STRING,
    TIME_DECIMAL,
    TRUE,
)
from tests.readers.texts import read_text

TEXT = (
    '[{"args": {"b": 1.5, "a": [1, 2], "b": "two", "c": true}, "ph": "X", "name": "a\\u0062", "pid": 0, '
    '"ts": 10.250, "dur": 0.001, "id": 1e3}]'
)


def test_members_are_in_order_with_repeated_keys() -> None:
    trace = read_text(TEXT)
    found = list(members(trace, 0))
    assert [(level, key, kind) for level, key, kind, _ in found] == [
        (0, "args", OPEN),
        (1, "b", FLOAT),
        (1, "a", RAW),
        (1, "b", STRING),
        (1, "c", TRUE),
        (0, "ph", IN_COLUMN),
        (0, "name", IN_COLUMN),
        (0, "pid", IN_TRACK),
        (0, "ts", TIME_DECIMAL),
        (0, "dur", TIME_DECIMAL),
        (0, "id", NUMBER_TEXT),
    ]
    values = {(level, key): value for level, key, _, value in found}
    assert trace.strings.raw(values[1, "a"]) == b"[1, 2]"
    assert trace.strings.raw(values[0, "id"]) == b"1e3"
    assert (values[0, "name"], values[0, "ts"], values[0, "dur"]) == ("ab", 10.25, 0.001)


def test_an_event_is_what_json_would_give() -> None:
    event = read_text(TEXT).event(0)
    assert list(event) == ["args", "ph", "name", "pid", "ts", "dur", "id"]
    assert event["args"] == {"b": "two", "a": [1, 2], "c": True}
    assert repr(event["id"]) == "1000.0"


@given(st.integers(-(2**63), 2**63 - 1))
def test_microseconds(nanoseconds: int) -> None:
    assert Decimal(microseconds(nanoseconds)) * 1000 == nanoseconds


@pytest.mark.parametrize(
    ("nanoseconds", "text"), [(0, "0.000"), (-1, "-0.001"), (1234567, "1234.567"), (-1000, "-1.000")]
)
def test_spelling_of_microseconds(nanoseconds: int, text: str) -> None:
    assert microseconds(nanoseconds) == text
