"""The tokenizer against Python's own json, on documents of any form, cut anywhere, with tables that are too small."""

import itertools
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope.errors import InputError
from kinetoscope.model.trace.json_events import members
from kinetoscope.model.trace.shapes import NOT_AN_OBJECT, NUMBER_TEXT, OPEN, RAW
from kinetoscope.model.trace.trace import NO_TIME, Trace, stray
from kinetoscope.readers.json.columns import SIZES, Sizes
from kinetoscope.readers.json.window import TextWindow
from tests.readers import drawing
from tests.readers.texts import TINY, InBlocks, read_text

cuts = st.one_of(st.integers(1, 80), st.lists(st.integers(1, 40), min_size=1, max_size=12))


def _loads(text: str, **kwargs: Any) -> Any:
    return json.loads(text, strict=False, **kwargs)


def _pairs(trace: Trace, row: int) -> Any:
    """An event as `json.loads(object_pairs_hook=tuple)` gives it: repeated keys are all there."""
    whole: list[tuple[str, Any]] = []
    arguments: list[tuple[str, Any]] = []
    for level, key, kind, value in members(trace, row):
        if kind == OPEN:
            arguments = []
            value = arguments
        elif kind == RAW:
            value = _loads(trace.strings.raw(value).decode(), object_pairs_hook=list)
        elif isinstance(value, dict | list):  # a pid
            value = _loads(json.dumps(value), object_pairs_hook=list)
        elif kind == NUMBER_TEXT:
            value = trace.strings.number(value)
        if level == NOT_AN_OBJECT:
            return value
        (arguments if level else whole).append((key, value))
    return whole


@given(drawing.documents(), cuts, st.sampled_from([SIZES, TINY]))
def test_documents(text: str, cut: int | list[int], sizes: Sizes) -> None:
    trace = read_text(text, block=cut, sizes=sizes)
    expected = _loads(text)
    assert repr(list(trace.events())) == repr(expected.pop("traceEvents"))
    assert repr(dict(trace.metadata)) == repr(expected)
    assert not {symptom.code for symptom in trace.reading} & {"REPAIRED", "LOST", "ODD_COMMAS", "TRUNCATED", "TRAILING"}


@given(drawing.bare_lists(), cuts, st.sampled_from([SIZES, TINY]))
def test_bare_lists(text: str, cut: int | list[int], sizes: Sizes) -> None:
    assert repr(list(read_text(text, block=cut, sizes=sizes).events())) == repr(_loads(text))


@given(drawing.documents(), cuts)
def test_repeated_keys_and_their_order(text: str, cut: int | list[int]) -> None:
    trace = read_text(text, block=cut)
    document = _loads(text, object_pairs_hook=list)
    events = next(value for key, value in document if key == "traceEvents")
    plain = [(key, value) for key, value in document if key != "traceEvents"]
    assert repr([_tuples(_pairs(trace, row)) for row in range(len(trace))]) == repr([_tuples(e) for e in events])
    kept = [(key, _loads(value, object_pairs_hook=list)) for key, value in trace.members]
    assert repr(_tuples(kept)) == repr(_tuples(plain))
    assert [key for key, _ in document].index("traceEvents") == trace.members_before_events


def _tuples(value: Any) -> Any:
    """Nested lists of (key, value), in one form."""
    return [_tuples(part) for part in value] if isinstance(value, list | tuple) else value


def _changed(text: str, place: float, gone: int, instead: str) -> str:
    at = int(place * len(text))
    return text[:at] + instead + text[at + gone :]


@given(
    st.lists(drawing.events, min_size=1, max_size=6),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 2), st.text('\\"{}[],:1.-eN x', max_size=3)), min_size=1, max_size=3
    ),
    cuts,
)
@example(['{"\\u0061": [0, [], ""]}'], [(0.7, 0, "0")], 1)  # a number that begins with 0, inside a list
def test_what_is_no_json_is_never_taken_for_it(
    events: list[str], changes: list[tuple[float, int, str]], cut: int | list[int]
) -> None:
    """A changed text is either JSON still, and read as json reads it; or something is said about it."""
    inside = '{"ph": "X"}, ' + ", ".join(events)
    for place, gone, instead in changes:
        inside = _changed(inside, place, gone, instead)
    text = '{"traceEvents": [' + inside + "]}"
    try:
        expected = _loads(text)
    except ValueError:
        expected = None
    try:
        trace = read_text(text, block=cut)
    except InputError:
        assert expected is None
        return
    if expected is None:
        assert trace.reading
    elif len(expected) == 1:
        assert repr(list(trace.events())) == repr(expected["traceEvents"])
        assert not {symptom.code for symptom in trace.reading} & {
            "LOST",
            "RUBBISH",
            "ODD_COMMAS",
            "TRUNCATED",
            "TRAILING",
        }


@pytest.mark.slow
@given(st.lists(drawing.events, max_size=9), st.integers(1, 200), st.integers(2, 3), st.sampled_from([SIZES, TINY]))
def test_pieces_on_several_threads(events: list[str], block: int, threads: int, sizes: Sizes) -> None:
    text = (
        '{"traceEvents": [' + ", ".join(f'{{"ph": "X", "at": {k}}}, {event}' for k, event in enumerate(events)) + "]}"
    )
    alone, together = (read_text(text, block=block, threads=n, sizes=sizes) for n in (1, threads))
    assert repr(list(together.events())) == repr(list(alone.events())) == repr(_loads(text)["traceEvents"])
    assert together.reading == alone.reading
    for name in ("ph", "start", "end"):
        assert (getattr(together, name) == getattr(alone, name)).all()


@pytest.mark.parametrize("inside", ['"{\\"ph\\": 1}"', '{"ph": "X"}', '[{"ph": "X"}, {"ph": 1}]', '"{ \\"ph\\""'])
@pytest.mark.parametrize("block", [7, 40, 100, 333])
def test_places_that_look_like_the_start_of_an_event(inside: str, block: int) -> None:
    """They stand in arguments, where no piece may begin."""
    event = f'{{"ph": "X", "name": "a", "args": {{"x": {inside}, "y": 1}}}}'
    text = '{"traceEvents": [' + ",\n".join([event] * 40) + '], "after": {"ph": 1}}'
    trace = read_text(text, block=block, threads=2)
    assert list(trace.events()) == _loads(text)["traceEvents"]
    assert trace.metadata == {"after": {"ph": 1}}
    assert not trace.reading


@pytest.mark.parametrize("first", ["ph", "name", "cat", "ts"])
def test_pieces_begin_with_the_first_key_of_the_first_event(first: str) -> None:
    members = {first: "X", "ph": "X", "name": "a", "cat": "b", "ts": 1}
    text = json.dumps({"traceEvents": [members] * 50})
    window = TextWindow(InBlocks(text.encode(), itertools.repeat(300)), max_event=1 << 20)
    window.fill()
    window.position = text.index("[") + 1
    cut = list(window.pieces(window.mark()))
    assert len(cut) > 5
    assert all(text[place:].startswith('{"' + first) for _, _, place in cut[1:])


# --- times


@given(st.decimals(-(10**12), 10**12, allow_nan=False, allow_infinity=False), st.booleans(), st.sampled_from("fEg"))
@example(Decimal("1704161511420306.491"), True, "f")
@example(Decimal("0.0005"), False, "f")
@example(Decimal("0.0015"), False, "f")
@example(Decimal("-0.0025000000000000000000000000001"), False, "f")
@example(Decimal("4500000000000000"), False, "f")
@example(Decimal("1e-30"), False, "E")
@example(Decimal("5e-4"), False, "E")
@example(Decimal("12.5000"), False, "f")
@example(Decimal("12.3456"), False, "f")
@example(Decimal("-12.0005"), False, "f")
@example(Decimal("-0.0001"), False, "f")
@example(Decimal("123456789.123456"), False, "f")
@example(Decimal("1234567890.123456"), False, "f")
def test_times_are_exact(time: Decimal, quoted: bool, form: str) -> None:
    spelled = format(time, form)
    value = f'"{spelled}"' if quoted else spelled.replace("E+", "E")
    trace = read_text(f'[{{"ph": "X", "ts": {value}, "dur": 1.5}}, {{"ph": "X", "ts": 2, "dur": {value}}}]')
    exact = Fraction(spelled) * 1000
    expected = round(exact)  # half to even, and no float comes in between
    assert trace.start.tolist() == [expected, 2000]
    assert trace.end.tolist() == [expected + 1500, 2000 + expected]
    assert ("ROUNDED_TIMES" in {symptom.code for symptom in trace.reading}) == (expected != exact)
    assert trace.event(1)["dur"] == (spelled if quoted else json.loads(value))


@pytest.mark.parametrize(
    ("spelled", "nanoseconds"),
    [
        ("1704161511420306.491", 1704161511420306491),
        ("4500000000000000", 4_500_000_000_000_000_000),
        ("-4500000000000000.0", -4_500_000_000_000_000_000),
        ("0.001", 1),
        ("-0", 0),
        ("-0.0", 0),
        ("1e3", 1_000_000),
        ("1.5E-3", 2),  # 1.5 ns, rounded to even
        ("2.5E-3", 2),
        ("0.00049999999999999999999999", 0),
        ('"  12.5 "', 12_500),
        ('"+3"', 3000),
    ],
)
def test_spellings_of_times(spelled: str, nanoseconds: int) -> None:
    trace = read_text(f'[{{"ph": "X", "ts": {spelled}}}]')
    assert trace.start.tolist() == [nanoseconds]
    assert repr(trace.event(0)["ts"]) == repr(json.loads(spelled))


@pytest.mark.parametrize(
    "value",
    ["null", "true", "[1]", '"soon"', '""', "NaN", "-Infinity", "1e999999999", "4500000000000000.001", "9" * 5000],
)
def test_an_event_with_an_impossible_time_has_none(value: str) -> None:
    trace = read_text(f'[{{"ph": "X", "ts": {value}, "dur": 2}}, {{"ph": "X", "ts": 1, "dur": {value}}}]')
    assert trace.start.tolist() == [NO_TIME, 1000]
    assert trace.end.tolist() == [NO_TIME + 2000, 1000]
    assert stray(trace).tolist() == [0]
    assert [(symptom.code, symptom.number) for symptom in trace.reading if symptom.severity == "warning"] == [
        ("IMPOSSIBLE_TIMES", 2)
    ]


# --- the columns


def test_columns() -> None:
    trace = read_text(
        """[{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10.5, "dur": 2,
             "args": {"stream": 7}},
            {"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": 12, "bp": "e"},
            {"ph": "M", "name": "gemm", "pid": "Spans", "tid": 1.5}, {}, {"ph": "XX", "name": null}]"""
    )
    assert bytes(trace.ph) == b"XfM\0\0"
    assert trace.strings.labels(trace.category.tolist()) == ["kernel", "", "", "", ""]
    assert trace.strings.labels(trace.name.tolist()) == ["gemm", "", "gemm", "", ""]
    assert trace.name[0] == trace.name[2] == trace.strings.code("gemm")
    assert trace.start.tolist() == [10_500, 12_000, 0, 0, 0]
    assert trace.end.tolist() == [12_500, 12_000, 0, 0, 0]
    assert [trace.tracks.pids[k] for k in trace.track] == [0, 0, "Spans", None, None]
    assert [trace.tracks.tids[k] for k in trace.track] == [7, 7, 1.5, None, None]
    assert trace.integers("stream").tolist() == [7, -1, -1, -1, -1]
