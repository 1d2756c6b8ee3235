"""Broken files keep every event that can be kept, and say what was wrong; real ones first, then each kind of damage."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import BrokenTraceError, NotATraceError
from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.json.kineto import load
from tests.conftest import OURS
from tests.readers.texts import read_text

WEIRD = ['{"device": "cpu"}/weird.py(0): <module>', '{"device": "cpu"}/weird.py(1): f']

# file, events (as many as lines that open one; less the last where the file is cut), codes
SHARED = [
    ("meta_backslash.plain.py", 25, "REPAIRED_METADATA", {"k": "C:\\x\\new"}),
    ("meta_backslash.stack.py", 66, "REPAIRED_METADATA", {"k": "C:\\x\\new"}),
    ("meta_key_quote.plain.cpp", 27, "REPAIRED_METADATA", {'k"ey': "v"}),
    ("meta_key_quote.stack.cpp", 68, "REPAIRED_METADATA", {'k"ey': "v"}),
    ("meta_newline.plain.cpp", 27, "REPAIRED_METADATA", {"k": "ab\tc\x01"}),
    ("meta_newline.plain.py", 25, "REPAIRED_METADATA", {"k": "a\nb\tc\x01"}),
    ("meta_newline.stack.cpp", 68, "REPAIRED_METADATA", {"k": "ab\tc\x01"}),
    ("meta_newline.stack.py", 66, "REPAIRED_METADATA", {"k": "a\nb\tc\x01"}),
    ("meta_quote.plain.cpp", 27, "REPAIRED_METADATA", {"k": 'say /"hi/"'}),
    ("meta_quote.stack.cpp", 68, "REPAIRED_METADATA", {"k": 'say /"hi/"'}),
    ("metajson_escaped.plain.cpp", 27, "REPAIRED_METADATA", {"k": {"path": 'C://a /"q/" /n'}}),
    ("metajson_escaped.stack.cpp", 73, "REPAIRED_METADATA", {"k": {"path": 'C://a /"q/" /n'}}),
    ("metajson_invalid.plain.cpp", 27, "REPAIRED_METADATA", {"k": "not json"}),
    ("metajson_invalid.plain.py", 25, "REPAIRED_METADATA", {"k": "not json"}),
    ("metajson_invalid.stack.cpp", 67, "REPAIRED_METADATA", {"k": "not json"}),
    ("metajson_invalid.stack.py", 65, "REPAIRED_METADATA", {"k": "not json"}),
    ("name_quote.plain.cpp", 28, "REPAIRED", ['a "quoted" name']),
    ("name_quote.stack.cpp", 89, "REPAIRED", ['a "quoted" name']),
    ("weird_class_name.stack.cpp", 70, "REPAIRED", ['nn.Module: Net"Q/_0']),
    ("weird_code_filename.stack.cpp", 68, "REPAIRED", WEIRD),
    ("truncated", 352, "TRUNCATED", {"user_note": "plain text"}),
    ("truncated_gzip", 3015, "STREAM TRUNCATED", {"user_note": "plain text"}),
    ("truncated_inside", 3551, "TRUNCATED", {"user_note": "plain text"}),
]
OWN = [
    ("class_quote", 425, "REPAIRED", ['nn.Module: MLP "small"_0']),
    ("name_quote", 173, "REPAIRED", ['load "train" batch']),
    ("meta_newline", 177, "REPAIRED_METADATA", {"note": "first linesecond line\ttab\x01bell\x07"}),
]


def _codes(trace: Trace) -> str:
    return " ".join(symptom.code for symptom in trace.reading)


def _check(file: Path, events: int, codes: str, found: dict[str, Any] | list[str]) -> None:
    for threads in (1, 2):
        trace = load(Source(str(file), options=SourceOptions(threads=threads)))
        assert len(trace) == events
        assert _codes(trace) == codes
        assert all(isinstance(event, dict) and "ph" in event for event in trace.events())
        if isinstance(found, dict):
            assert dict(trace.metadata) | found == trace.metadata
        else:
            assert [name for name in trace.strings.labels(trace.name.tolist()) if '"' in name] == found


@pytest.mark.parametrize(("name", "events", "codes", "found"), SHARED, ids=[case[0] for case in SHARED])
def test_shared(shared_traces: Path, name: str, events: int, codes: str, found: dict[str, Any] | list[str]) -> None:
    file = next((shared_traces / "broken").glob(f"{name}.pt.trace.json*"))
    _check(file, events, codes, found)


@pytest.mark.parametrize(("name", "events", "codes", "found"), OWN, ids=[case[0] for case in OWN])
def test_own(name: str, events: int, codes: str, found: dict[str, Any] | list[str]) -> None:
    _check(OURS / f"{name}.pt.trace.json.gz", events, codes, found)


def test_all_are_listed(shared_traces: Path) -> None:
    there = {file.name.partition(".pt.trace")[0] for file in (shared_traces / "broken").iterdir()}
    assert there == {case[0] for case in SHARED}


# --- each kind of damage, in a text as torch writes it


def _event(k: int, name: str = "aten::add", args: str = '"Ev Idx": 0') -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1,\n'
        f'    "ts": {k}.125, "dur": 1.000,\n    "args": {{\n      "External id": {k}, {args}\n    }}\n  }}'
    )


def _document(*events: str, comma: str = ",\n") -> str:
    return (
        '{\n  "schemaVersion": 1,\n  "traceEvents": [\n' + comma.join(events) + '\n  ],\n  "traceName": "t.json"\n}\n'
    )


def _ids(trace: Trace) -> list[int]:
    return [int(number) for number in trace.integers("External id")]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (_event(5, name='a "quoted" name'), "REPAIRED"),
        (_event(5, name="two\nlines"), "REPAIRED"),
        (_event(5, args='"Input Dims": [[1, 2], [3], "x": 5'), "REPAIRED"),
        (_event(5, args='"Input Dims": [[[[[[[[1, 2'), "REPAIRED"),
        (_event(5, args='"Input Dims": [1, 2]]], "x": {"a": 1}}'), "REPAIRED"),
        (_event(5, args='"x": {"a": 1, "y": 2'), "REPAIRED"),
        (_event(5, args='"x": "never ends, "y": 1'), "REPAIRED"),
        (_event(5, args='"x": 1 "y": 2'), "REPAIRED"),
        (_event(5, args='"x": , "y": 2'), "REPAIRED"),
        (_event(5, args='"x": 1,, "y": 2'), "REPAIRED"),
        (_event(5) + "\nINFO:2026-11-21 12:00:00 something happened", "RUBBISH"),
        ("2026-11-21 12:00:00 something happened,\n" + _event(5), "RUBBISH"),
        (_event(5) + "," + "\0" * 5000, "RUBBISH"),
        (_event(5).replace('"ts": 5.125', '"ts": 5.125 "dur": 1'), "REPAIRED"),
    ],
)
def test_one_broken_event_costs_no_other(broken: str, code: str, threads: int) -> None:
    events = [_event(k) for k in range(12)]
    events[5] = broken
    text = _document(*events)
    for block in (50, 700, 1 << 22):
        trace = read_text(text, block=block, threads=threads)
        assert _ids(trace) == list(range(12))
        assert _codes(trace).split()[0] == code
        assert trace.metadata == {"schemaVersion": 1, "traceName": "t.json"}
        others = [event for k, event in enumerate(trace.events()) if k != 5]
        assert others == [json.loads(_event(k)) for k in range(12) if k != 5]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_every_event_is_broken(threads: int) -> None:
    """As where a job names each step in quotation marks; the cost of one must not depend on how much text waits."""
    count = 20_000
    trace = read_text(_document(*(_event(k, name='step "one"') for k in range(count))), threads=threads)
    assert _ids(trace) == list(range(count))
    assert [(symptom.code, symptom.number) for symptom in trace.reading] == [("REPAIRED", count)]


@pytest.mark.parametrize(
    ("comma", "odd"),
    [("\n", 3), (",,\n", 3), (" , , ,\n", 6), (",\n", 0), ("", 3)],
    ids=["none", "two", "three", "one", "glued"],
)
def test_commas_between_events(comma: str, odd: int) -> None:
    trace = read_text(_document(*(_event(k) for k in range(4)), comma=comma), block=90)
    assert _ids(trace) == [0, 1, 2, 3]
    assert sum(symptom.number for symptom in trace.reading if symptom.code == "ODD_COMMAS") == odd
    assert _codes(trace) in ("", "ODD_COMMAS")


def test_a_comma_before_the_first_and_after_the_last() -> None:
    trace = read_text('{"traceEvents": [, {"ph": "X"}, ]}')
    assert (len(trace), _codes(trace), trace.reading[0].number) == (1, "ODD_COMMAS", 2)


@pytest.mark.parametrize("threads", [1, 2])
def test_cut_at_every_byte(threads: int) -> None:
    text = _document(*(_event(k) for k in range(4)))
    begin = text.index("[") + 1
    ends = [found.end() for found in re.finditer(r"\n  }(?=[,\n])", text)]
    closing = text.index("\n  ]") + 4
    for cut in range(len(text) + 1):
        part = text[:cut]
        whole = sum(end <= cut for end in ends)
        if cut < begin:
            with pytest.raises(BrokenTraceError if cut else NotATraceError):
                read_text(part, threads=threads)
            continue
        if not whole:
            with pytest.raises(BrokenTraceError):
                read_text(part, threads=threads)
            continue
        trace = read_text(part, block=200, threads=threads)
        assert _ids(trace) == list(range(whole))
        assert ("TRUNCATED" in _codes(trace)) == (cut < len(text) - 1)
        severity = {symptom.code: symptom.severity for symptom in trace.reading}
        assert severity.get("TRUNCATED", "") == ("error" if cut < closing else "warning" if cut < len(text) - 1 else "")
        assert not severity.keys() - {"TRUNCATED", "REPAIRED_METADATA"}


def test_what_follows_the_end() -> None:
    text = _document(_event(0))
    for rest, codes in (("", ""), ("\n\n \n", ""), ("}", "TRAILING"), ("\0" * 10_000, "TRAILING"), (text, "TRAILING")):
        trace = read_text(text + rest, block=64)
        assert (_ids(trace), _codes(trace)) == ([0], codes)
    bare = '[{"ph": "X"}]'
    assert _codes(read_text(bare + "\n")) == ""
    assert _codes(read_text(bare + " x")) == "TRAILING"


def test_byte_order_mark() -> None:
    for block in (1, 2, 1000):
        trace = read_text(b"\xef\xbb\xbf" + _document(_event(0)).encode(), block=block)
        assert (_ids(trace), _codes(trace)) == ([0], "")


def test_trace_events_as_metadata() -> None:
    """`add_metadata("traceEvents", ...)` doubles the key; with text as its value it is no list of events."""
    text = _document(_event(0)).replace('  "traceEvents"', '  "traceEvents": "mine",\n  "traceEvents"', 1)
    trace = read_text(text, block=30)
    assert (_ids(trace), _codes(trace)) == ([0], "")
    assert trace.members[1] == ("traceEvents", '"mine"')
    assert trace.members_before_events == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_two_lists_of_events(threads: int) -> None:
    text = _document(_event(0), _event(1)).rstrip()[:-1] + ',"traceEvents": [' + _event(2) + '], "last": 1}'
    trace = read_text(text, block=100, threads=threads)
    assert (_ids(trace), _codes(trace)) == ([0, 1, 2], "SEVERAL_LISTS")
    assert list(trace.metadata) == ["schemaVersion", "traceName", "last"]
    assert trace.members_before_events == 1


def test_bad_text_inside_strings_is_kept_and_said() -> None:
    text = (
        _document(_event(0, name="caf\u00e9 \x07 bell"), _event(1, name="C:\\q\\new"))
        .encode()
        .replace(b"\xc3\xa9", b"\xe9")
    )
    trace = read_text(text, block=17)
    assert trace.strings.labels(trace.name.tolist()) == ["caf\ufffd \x07 bell", "C:\\q\\new"]
    assert _codes(trace) == "CONTROL_CHARACTERS BAD_UTF8 LONE_BACKSLASH"


def test_cut_inside_a_character() -> None:
    text = _document(_event(0, name="\u65e5\u672c")).encode()
    place = text.index(b"\xe6\x97\xa5")
    with pytest.raises(BrokenTraceError):
        read_text(text[: place + 1])
    trace = read_text(_document(_event(0)).encode()[:-20] + b',{"ph": "X", "name": "\xe6')
    assert _ids(trace) == [0]


def test_words_that_are_no_json() -> None:
    trace = read_text(_document(_event(0, args='"a": nan, "b": [-inf, N/A], "c": NaN, "d": 007, "e": 1e5')))
    assert _codes(trace) == "BARE_WORDS"
    assert trace.reading[0].startswith("5 words stand as values that JSON does not know (-inf, 007, N/A, NaN, nan)")
    args = trace.event(0)["args"]
    assert repr([args[key] for key in "abcde"]) == "[nan, [-inf, 'N/A'], nan, '007', 100000.0]"


@pytest.mark.parametrize("word", ["01", "1.2.3", "tru", "+1", "nan", "NaN", "-Infinity", "1.", "null0"])
def test_words_inside_lists_that_are_no_json(word: str) -> None:
    text = _document(_event(0, args=f'"a": [0, "nan", {{"\\"b": {word}}}], "c": "[01]", "d": [true, null, -1.5e+3]'))
    trace = read_text(text)
    assert [(symptom.code, symptom.number) for symptom in trace.reading] == [("BARE_WORDS", 1)]
    assert f"({word})" in trace.reading[0]


def test_elements_that_are_no_objects() -> None:
    trace = read_text('{"traceEvents": [1, {"ph": "X"}, "text", [2], null, NaN]}')
    assert repr(list(trace.events())) == "[1, {'ph': 'X'}, 'text', [2], None, nan]"
    assert [(symptom.code, symptom.number) for symptom in trace.reading] == [("BARE_WORDS", 1), ("NOT_EVENTS", 5)]


def test_a_word_as_the_number_of_a_process() -> None:
    trace = read_text('{"traceEvents": [{"ph": "X", "pid": 01, "tid": -07}, {"ph": "X", "pid": 1e2}]}')
    assert [(symptom.code, symptom.number) for symptom in trace.reading] == [("BARE_WORDS", 2)]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bracket_that_closes_the_list_too_early(threads: int) -> None:
    events = [_event(k) for k in range(8)]
    for between in ("],", "]", ",],"):
        text = _document(*events).replace("},\n" + events[4], "}" + between + "\n" + events[4])
        trace = read_text(text, block=300, threads=threads)
        assert _ids(trace) == list(range(8))
        assert "RUBBISH" in _codes(trace)
        assert trace.metadata == {"schemaVersion": 1, "traceName": "t.json"}


@pytest.mark.parametrize(
    ("part", "instead", "said"),
    [
        ('1,\n  "trace', '1},\n  "trace', "a closing brace before the events"),
        ('"traceEvents": [', '"traceEvents": \0\0[', "traceEvents: rubbish before the list"),
        ('"traceEvents": [', '"traceEvents" : =[', "traceEvents: rubbish before the list"),
        ('1,\n  "trace', '1\n  "trace', "schemaVersion: "),
        ('1,\n  "trace', '1,\n  "lost":]1,\n  "trace', "text that belongs to nothing dropped"),
    ],
)
def test_damage_just_before_the_events(part: str, instead: str, said: str) -> None:
    trace = read_text(_document(_event(0), _event(1)).replace(part, instead, 1))
    assert (_ids(trace), _codes(trace)) == ([0, 1], "REPAIRED_METADATA")
    assert said in trace.reading[0]
    assert trace.metadata == {"schemaVersion": 1, "traceName": "t.json"}


def test_nothing_can_be_kept() -> None:
    with pytest.raises(BrokenTraceError, match=r"^memory\.json: broken, and no event of it could be kept"):
        read_text('{"traceEvents": [ what, is, this')
