"""How the work on one list of events is shared among tokenizers."""

import itertools

import pytest

from kinetoscope.readers.json.columns import Tokenizer
from kinetoscope.readers.json.events import ParsedEvents, read_elements
from kinetoscope.readers.json.window import TextWindow
from tests.readers.texts import InBlocks

EVENT = '{{"ph": "X", "name": "a", "args": {{"x": {}}}}}'


def _read(events: list[str], threads: int) -> ParsedEvents:
    text = ",\n".join(events) + "]"
    window = TextWindow(InBlocks(text.encode(), itertools.repeat(400)), max_event=1 << 20)
    elements = ParsedEvents([Tokenizer() for _ in range(threads)])
    read_elements(window, elements)
    assert not elements.cut
    assert elements.columns.rows == len(events)
    return elements


def test_pieces_go_to_the_tokenizers_in_turn() -> None:
    elements = _read([EVENT.format(k) for k in range(200)], 3)
    turns = [segment.tokenizer for segment in elements.columns.segments]
    assert turns[:7] == [0, 1, 2, 0, 1, 2, 0]


def test_pieces_go_on_behind_a_broken_event() -> None:
    events = [EVENT.format(k) for k in range(200)]
    events[3] = EVENT.format(3).replace('"a"', '"a "quoted" name"')
    elements = _read(events, 2)
    assert elements.repaired.total() == 1
    assert {segment.tokenizer for segment in elements.columns.segments if segment.row > 50} == {0, 1}


@pytest.mark.parametrize("every", [2, 9])
def test_pieces_are_given_up_where_they_fail_again_and_again(every: int) -> None:
    events = [EVENT.format('{"ph": 1}' if k % every == 0 else k) for k in range(300)]
    elements = _read(events, 2)
    assert not elements.repaired
    assert elements.lost == elements.rubbish == 0
