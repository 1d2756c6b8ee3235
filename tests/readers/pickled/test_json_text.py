"""JSON becomes opcodes of the same values, wherever the blocks are cut."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import BrokenTraceError
from kinetoscope.readers.pickled.json_text import JsonOpcodes

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.integers(-(10**9), 10**9).map(lambda digits: digits / 1000)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def loaded(text: bytes, size: int) -> Any:
    """What Python's own machine makes of the opcodes of a text that nobody else wrote."""
    pieces = [text[place : place + size] for place in range(0, len(text), size)]
    opcodes = JsonOpcodes("drawn", pieces, "a dump")
    written = b"".join(opcodes)
    if opcodes.damage is not None:
        raise opcodes.damage
    return pickle.loads(written)


@given(VALUES, st.booleans(), st.sampled_from([1, 7, 1 << 20]))
def test_opcodes_mean_what_the_text_means(value: Any, ascii_only: bool, size: int) -> None:
    text = json.dumps([value], ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert loaded(text, size) == json.loads(text)


def test_whole_numbers_may_be_written_as_real_ones() -> None:
    assert loaded(b"[1.7e15, 25e-1, 1700000000000001.0, -3.0]", 3) == [
        1_700_000_000_000_000,
        2.5,
        1_700_000_000_000_001,
        -3,
    ]


def test_integers_have_up_to_64_bits() -> None:
    integers = [(1 << 64) - 1, (1 << 64) - 6, 1 << 63, (1 << 63) - 1, -(1 << 63)]
    assert loaded(json.dumps(integers).encode(), 5) == integers
    with pytest.raises(BrokenTraceError):
        loaded(b"[18446744073709551616]", 1 << 20)


def test_long_lists_are_appended_in_batches() -> None:
    values = list(range(2500))
    text = json.dumps([values, []]).encode()
    opcodes = b"".join(JsonOpcodes("drawn", [text], "a dump"))
    assert pickle.loads(opcodes) == [values, []]
    assert opcodes.count(b"e(") >= 2


@pytest.mark.parametrize(
    "text",
    ["[1 2]", '{"a" 1}', "[1,,2]", "{1: 2}", "[}", "[01x]", "[-]", "[1.]", '["\\x"]', "nonsense", "[" * 65, "[1e400]"],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(BrokenTraceError, match="no JSON of a dump at byte"):
        loaded(text.encode() + b" ", 1 << 20)
