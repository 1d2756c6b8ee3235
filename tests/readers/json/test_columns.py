"""Tables grow, find again what they hold, and can take over one another's content."""

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.trace.shapes import FLOAT, INT, NUMBER_TEXT, RAW, SPECIAL_KEYS, STRING
from kinetoscope.model.trace.strings import Strings
from kinetoscope.readers.json import tokenizer as tk
from kinetoscope.readers.json.columns import EventColumns, Tables, padded, slots_of
from tests.readers.texts import TINY, read_text

contents = st.lists(st.binary(max_size=40).filter(lambda text: b'"' not in text), max_size=60)


def _strings(tables: Tables) -> list[bytes]:
    strings = Strings(tables.arena, tables.string_offsets[: tables.at[tk.STRINGS]])
    return [strings.raw(code) for code in range(len(strings))]


@given(contents)
def test_interning(texts: list[bytes]) -> None:
    tables = Tables(TINY)
    codes = [tables.intern(text) for text in texts]
    assert codes == [tables.intern(text) for text in texts]
    held = _strings(tables)
    assert held[:8] == [key.encode() for key in SPECIAL_KEYS]
    assert [held[code] for code in codes] == texts
    assert len(held) == len(set(held))


def test_nobody_can_make_strings_that_collide_whatever_the_key() -> None:
    """Pairs of words whose differences cancel in any product, where the key is only added or XORed."""
    pairs = [(0, 0), (1 << 63, 1 << 63 | 1 << 34)]
    texts = [b"".join(struct.pack("<QQ", *pairs[number >> at & 1]) for at in range(10)) for number in range(1 << 10)]
    for _ in range(3):
        key = np.uint64(np.int64(tk.new_key()))
        assert len({int(tk._hash(padded(text), 0, len(text), key)) for text in texts}) == len(texts)


@given(contents, contents)
def test_adopting(ours: list[bytes], theirs: list[bytes]) -> None:
    first, second = Tables(TINY), Tables(TINY)
    for text in ours:
        first.intern(text)
    for text in theirs:
        second.intern(text)
    before = _strings(first)
    codes, _, _ = first.adopt(second)
    held = _strings(first)
    assert held[: len(before)] == before
    assert [held[code] for code in codes] == _strings(second)


def test_adopting_shapes_and_tracks() -> None:
    """Keys and text ids have other codes in other tables; numbers stay."""
    events = [
        f'{{"ph": "X", "k{k % 7}": {k}, "pid": "p{k % 3}", "tid": {k % 5}, "args": {{"a{k % 4}": "v{k}"}}}}'
        for k in range(200)
    ]
    text = '{"traceEvents": [' + ",".join(events) + "]}"
    alone, together = read_text(text), read_text(text, block=700, threads=3, sizes=TINY)
    assert list(alone.events()) == list(together.events())
    assert len(alone.shapes) == len(together.shapes) == 28
    assert len(alone.tracks) == len(together.tracks) == 15


def test_slots_of() -> None:
    shapes = [
        np.array([(9 << 8) | (kind << 2) | 1 for kind in kinds], np.int64)
        for kinds in ([INT, STRING, FLOAT, RAW], [], [NUMBER_TEXT, 12, STRING, 5])
    ]
    found = slots_of(shapes, (STRING, RAW))
    assert [(found[2 * k], found[found[2 * k + 1] :][: found[found[2 * k + 1]] + 1].tolist()) for k in range(3)] == [
        (4, [2, 1, 3]),
        (0, [0]),
        (2, [1, 1]),
    ]


def test_no_rows() -> None:
    columns = EventColumns()
    assert columns.rows == 0
    assert list(columns.made_by(1)) == []
    assert len(columns.whole().values) == 0
