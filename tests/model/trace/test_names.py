from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from tests import drawn
from tests.readers.texts import read_text


def test_rows_of_the_kinds_whose_name_fits(tmp_path: Path) -> None:
    nameless = {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 0, "dur": 1}
    events = [drawn.op("aten::mm", 0, 1), drawn.op("aten::add", 0, 1), drawn.python("aten::mm", 0, 1), nameless]
    trace = drawn.job(tmp_path, *events).trace()
    assert rows_named(trace, lambda name: "mm" in name, EventKind.HOST_OP).tolist() == [True, False, False, False]
    assert rows_named(trace, lambda name: not name, EventKind.HOST_OP).tolist() == [False, False, False, True]
    both = rows_named(trace, lambda name: "mm" in name, EventKind.HOST_OP, EventKind.PYTHON)
    assert both.tolist() == [True, False, True, False]


def test_each_name_is_looked_at_once(tmp_path: Path) -> None:
    seen: list[str] = []

    def fits(name: str) -> bool:
        seen.append(name)
        return True

    trace = drawn.job(tmp_path, *(drawn.op("aten::mm", 0, 1) for _ in range(5))).trace()
    assert rows_named(trace, fits, EventKind.HOST_OP).all()
    assert seen == ["aten::mm"]


@given(
    texts=st.lists(st.text('abc\\"é', max_size=6), min_size=1), words=st.lists(st.text("abcé", min_size=1, max_size=3))
)
def test_no_string_that_holds_a_word_is_left_out(texts: list[str], words: list[str]) -> None:
    trace = read_text(json.dumps({"traceEvents": [{"ph": "X", "name": text} for text in texts]}))
    holding = trace.strings.holding(tuple(words))
    for code in trace.name.tolist():
        assert holding[code] or not any(word in trace.strings.text(code) for word in words)


def test_a_string_that_holds_no_word_is_left_out() -> None:
    trace = read_text('{"traceEvents": [{"ph": "X", "name": "aten::mm"}, {"ph": "X", "name": "ProfilerStep#1"}]}')
    holding = trace.strings.holding(("ProfilerStep#",))
    assert [bool(holding[code]) for code in trace.name.tolist()] == [False, True]
