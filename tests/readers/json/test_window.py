"""The window moves over a text without losing a byte, whatever the size of blocks, and however it is used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import LimitError
from kinetoscope.readers.json.tokenizer import PADDING
from kinetoscope.readers.json.window import TextWindow
from tests.readers.texts import InBlocks

TEXT = b'"metadata": 1, ' + b", ".join(b'{ "ph": "X", "at": %d}' % k for k in range(60))


def _padded(window: TextWindow) -> bool:
    return bytes(window.data[window.limit : window.limit + PADDING]) == b'"' * PADDING


@given(st.lists(st.integers(1, 300), min_size=1, max_size=20), st.data())
def test_every_byte_once(sizes: list[int], data: st.DataObject) -> None:
    window = TextWindow(InBlocks(TEXT, sizes), max_event=1 << 20)
    seen = b""
    while window.fill():
        assert window.rest() == TEXT[window.place : window.offset + window.limit]
        assert window.array[: window.limit].tobytes() == bytes(window.data[: window.limit])
        assert _padded(window)
        step = data.draw(st.integers(0, window.limit - window.position))
        assert window.rest(step) == window.rest()[:step]
        seen += window.rest(step)
        window.position += step
    assert seen + window.rest() == TEXT
    assert window.ended


@given(st.lists(st.integers(20, 300), min_size=1, max_size=20), st.integers(0, 6))
def test_pieces_cover_the_text_and_can_be_given_back(sizes: list[int], taken: int) -> None:
    window = TextWindow(InBlocks(TEXT, sizes), max_event=1 << 20)
    window.fill()
    window.position = min(15, window.limit)
    begin = window.place
    pieces = []
    for text, limit, place in window.pieces(b'"ph"'):
        assert bytes(text[:limit]) == TEXT[place : place + limit]
        assert bytes(text[limit : limit + PADDING]) == b'"' * PADDING
        pieces.append((text, limit, place))
        if len(pieces) == taken:
            break
    covered = b"".join(bytes(text[:limit]) for text, limit, _ in pieces)
    assert covered + window.rest() == TEXT[begin : window.offset + window.limit]
    if pieces:
        window.unread([memoryview(text)[:limit] for text, limit, _ in pieces], pieces[0][2])
        assert window.place == begin
    while window.fill():
        assert _padded(window)
    assert window.rest() == TEXT[begin:]


def test_filling_again_and_again_doubles_what_is_there() -> None:
    """So that looking at all of it each time is linear in the end."""
    window = TextWindow(InBlocks(b"x" * 100_000, iter(lambda: 100, 0)), max_event=1 << 20)
    fills = 0
    while window.fill():
        fills += 1
    assert fills < 15
    assert window.limit == 100_000


def test_limit() -> None:
    window = TextWindow(InBlocks(b"x" * 10_000, iter(lambda: 100, 0)), max_event=1000)
    while window.limit <= 1000:
        window.fill()
    assert window.limit < 1200
    with pytest.raises(LimitError, match=r"^memory\.json: the event or value at byte 0 is longer than 1,000 bytes"):
        window.fill()
