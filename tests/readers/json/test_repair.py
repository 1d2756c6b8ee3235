"""What is not JSON in a trace comes back whole, and what is JSON comes back unchanged."""

import faulthandler
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope.readers.json.repair import (
    MAX_DEPTH,
    PHRASES,
    repair_event,
    repair_member,
)
from kinetoscope.readers.json.resync import end_of_events, next_event, next_member
from tests.catalog.samples import required

SHARED = Path(__file__).resolve().parents[4] / "shared" / "traces" / "broken"
BLOCK = 1 << 18


def _pairs(text: bytes) -> Any:
    """JSON with repeated keys and the spelling of numbers kept."""
    return json.loads(text, object_pairs_hook=tuple, parse_int=lambda t: ("int", t), parse_float=lambda t: ("float", t))


def _event(text: bytes) -> dict[str, Any]:
    repaired = repair_event(text)
    assert repaired is not None
    value: dict[str, Any] = json.loads(repaired.json)
    return value


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Ends the process, with a traceback, should anything be quadratic."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


# --- events


@pytest.mark.parametrize(
    ("broken", "expected", "kinds"),
    [
        # quotes
        ('{"name": "a "quoted" name",\n "pid": 1},\n', {"name": 'a "quoted" name', "pid": 1}, {"quotes"}),
        ('{"name": ""quoted"", "pid": 1}', {"name": '"quoted"', "pid": 1}, {"quotes"}),
        ('{"name": "nn.Module: Net"Q/_0", "pid": 1}', {"name": 'nn.Module: Net"Q/_0', "pid": 1}, {"quotes"}),
        ('{"name": "{"d": "cpu"}/w.py(0): <m>", "a": 1}', {"name": '{"d": "cpu"}/w.py(0): <m>', "a": 1}, {"quotes"}),
        ('{"name": "{"d": "x", "e": 2}", "a": 1}', {"name": '{"d": "x", "e": 2}', "a": 1}, {"quotes"}),
        ('{"name": "f(["x", "y"])", "a": 1}', {"name": 'f(["x", "y"])', "a": 1}, {"quotes"}),
        ('{"a": {"l": ["say "hi", you", "b"], "c": 1}}', {"a": {"l": ['say "hi", you', "b"], "c": 1}}, {"quotes"}),
        ('{"k"ey": "v", "a": 1}', {'k"ey': "v", "a": 1}, {"quotes"}),
        ('{"name": "a "q"", "args": {"b": "c"}},', {"name": 'a "q"', "args": {"b": "c"}}, {"quotes"}),
        # backslashes and control characters
        (r'{"name": "C:\x\new", "a": 1}', {"name": r"C:\x\new", "a": 1}, {"backslashes"}),
        (r'{"name": "C:\new\", "a": 1}', {"name": "C:\\new\\", "a": 1}, {"backslashes"}),
        (r'{"a": ["C:\b\", "C:\u00e9\U"]}', {"a": ["C:\\b\\", "C:é\\U"]}, {"backslashes"}),
        (r'{"a": "\u12", "b": "\n\\\/"}', {"a": r"\u12", "b": "\n\\/"}, {"backslashes"}),
        ('{"name": "a\nb\tc\x01", "a": 1}', {"name": "a\nb\tc\x01", "a": 1}, {"control"}),
        # bare words
        ('{"a": not json, "b": N/A}', {"a": "not json", "b": "N/A"}, {"words"}),
        ('{"grid": (1, 2, 3), "b": [x, 1]}', {"grid": "(1, 2, 3)", "b": ["x", 1]}, {"words"}),
        ('{"a": 0x7f, "b": 007, "c": 1.5.2, "d": +1}', {"a": "0x7f", "b": "007", "c": "1.5.2", "d": "+1"}, {"words"}),
        ('{"a": inf, "b": -inf, "c": INF}', {"a": float("inf"), "b": float("-inf"), "c": float("inf")}, {"numbers"}),
        # structure
        ('{"a": 1,, "b": 2 "c": "x" "d": 4,}', {"a": 1, "b": 2, "c": "x", "d": 4}, {"commas"}),
        ('{"a": {"b": [1, {"c": 2', {"a": {"b": [1, {}]}}, {"brackets", "cut"}),
        ('{"a": {"b": [1, {"c": 2 },\n', {"a": {"b": [1, {"c": 2}]}}, {"brackets"}),
        ('{"a": {"b": "x"\n', {"a": {"b": "x"}}, {"brackets"}),
        ('{"a": [1, 2, "b": 3}', {"a": [1, 2], "b": 3}, {"brackets"}),
        ('{"a": 1, "b": "unfinis', {"a": 1}, {"brackets", "cut"}),
        ('{"a": 1, "b": 12', {"a": 1}, {"brackets", "cut"}),
        ('{"a": 1, "unfini', {"a": 1}, {"brackets", "cut"}),
        ('{"a":, "b", "c": 1, "d":}', {"c": 1}, {"keys", "commas"}),
        ('"a": 1, "b": 2}', {"a": 1, "b": 2}, {"brackets"}),
        ('{"a": {"b": 1}}, "c": 5}', {"a": {"b": 1}, "c": 5}, {"rubbish"}),
        ('{"a": "b"}\nINFO: said "c"\n', {"a": "b"}, {"rubbish"}),
        ('{"a": 1, ]b[ "c": 2}', {"a": 1, "c": 2}, {"rubbish", "commas"}),
    ],
)
def test_a_broken_event_comes_back_whole(broken: str, expected: dict[str, Any], kinds: set[str]) -> None:
    repaired = repair_event(broken.encode())
    assert repaired is not None
    assert json.loads(repaired.json) == expected
    assert set(repaired.kinds) == kinds


def test_not_a_number_is_kept_in_all_spellings() -> None:
    repaired = repair_event(b'{"a": nan, "b": -nan, "c": nan(ind), "d": -1.#IND, "e": NaN}')
    assert repaired is not None
    assert repaired.json == b'{"a":NaN,"b":NaN,"c":NaN,"d":NaN,"e":NaN}'
    assert repaired.kinds == ("numbers",)


def test_bad_utf8_is_replaced() -> None:
    assert _event(b'{"name": "a\xff\xc3", "b": 1}') == {"name": "a\ufffd\ufffd", "b": 1}


def test_numbers_keep_their_spelling_and_keys_their_order() -> None:
    text = b'{"ts":4390878193617.6210,"z":123456789012345678901234567890,"a":1E+5,"a":-0.0,"n":"x"y"}'
    repaired = repair_event(text)
    assert repaired is not None
    assert repaired.json == text.replace(b'x"y', b'x\\"y')


@pytest.mark.parametrize("text", [b"", b" ,\n", b"{}", b"{,}", b"rubbish", b"[1]", b"{{}}", b'{"a"}', b"\xff"])
def test_what_has_no_member_is_not_kept(text: bytes) -> None:
    assert repair_event(text) is None


def test_depth_is_bounded() -> None:
    def nested(depth: int) -> bytes:
        return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"

    assert repair_event(nested(MAX_DEPTH)) is not None
    assert repair_event(nested(MAX_DEPTH + 1)) is None
    assert repair_event(b'{"a":' * 100_000) is None


def test_integers_that_python_refuses_become_text() -> None:
    assert _event(b'{"a": ' + b"7" * 5000 + b"}") == {"a": "7" * 5000}


def test_what_says_each_fault_once_and_in_words() -> None:
    repaired = repair_event(b'{"a": "x"y", "b": "z"w",, "c": 1}')
    assert repaired is not None
    assert repaired.what == f"{PHRASES['quotes']}; {PHRASES['commas']}"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
EVENTS = st.dictionaries(st.text(), VALUES, min_size=1)


@given(EVENTS, st.booleans(), st.sampled_from([None, 0, 2]), st.sampled_from(["", ",\n  ", "\n", " , ,"]))
@example({'", "a": ': '\\", "b": ', "[": ['\\", "c', "}]"]}, True, None, ",")
def test_valid_events_come_back_the_same(
    event: dict[str, Any], ascii_only: bool, indent: int | None, tail: str
) -> None:
    text = json.dumps(event, ensure_ascii=ascii_only, indent=indent).encode(errors="replace")
    repaired = repair_event(text + tail.encode())
    assert repaired is not None
    assert _pairs(repaired.json) == _pairs(text)
    assert repaired.kinds == ()


@given(EVENTS, EVENTS)
def test_repeated_keys_are_kept(one: dict[str, Any], other: dict[str, Any]) -> None:
    text = (json.dumps(one)[:-1] + "," + json.dumps(one | other)[1:]).encode()
    repaired = repair_event(text)
    assert repaired is not None
    assert _pairs(repaired.json) == _pairs(text)


ALPHABET = '{}[]":,\\ \nau0-.ntrefls1é\x00'


@given(st.binary() | st.text(ALPHABET).map(str.encode) | st.text(ALPHABET).map(lambda t: ('{"' + t).encode()))
def test_arbitrary_bytes_never_raise_and_give_valid_json(text: bytes) -> None:
    repaired = repair_event(text)
    assert repaired is None or json.loads(repaired.json)
    member = repair_member(text)
    if member is not None:
        json.loads(member.json)
    for find in (next_event, end_of_events, next_member):
        assert -1 <= find(text, 0) < max(len(text), 1)
        assert find(text, len(text)) == -1


@pytest.mark.slow
@given(EVENTS, st.data())
def test_damaged_events_give_valid_json(event: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(event).encode()
    at = data.draw(st.integers(1, len(text)))
    gone = data.draw(st.integers(0, 5))
    repaired = repair_event(text[:at] + data.draw(st.text(ALPHABET, max_size=3)).encode() + text[at + gone :])
    assert repaired is None or json.loads(repaired.json)


KEYS = st.sampled_from(["ph", "cat", "ts", "pid", "Ev Idx", "External id", "Input Dims", "mine"])
FIELDS = st.dictionaries(KEYS, SCALARS.filter(lambda v: v == v) | st.lists(st.text() | st.integers()), max_size=4)


@given(st.text(), FIELDS, FIELDS, st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]), st.data())
@example('a, "ts": 1', {}, {"pid": 1}, True, (", ", ": "), None)
def test_a_quote_inside_a_name_leaves_all_else_intact(
    name: str, before: dict[str, Any], after: dict[str, Any], nested: bool, separators: tuple[str, str], data: Any
) -> None:
    event: dict[str, Any] = {**before, "name": name, **after}
    if nested:
        event = {"tid": 1, "args": event, "dur": 2.5}
    mark = "NAME"
    spelled = json.dumps(name)[1:-1]
    at = data.draw(st.integers(0, len(spelled))) if data else 3
    if nested:
        text = json.dumps({**event, "args": {**event["args"], "name": mark}}, separators=separators)
    else:
        text = json.dumps({**event, "name": mark}, separators=separators)
    quoted = spelled[:at] + '"' + spelled[at:]
    head, tail = re.split(rf'(?<="name":)\s*"{mark}"', text)
    found = _event((head + '"' + quoted + '"' + tail + ",\n").encode())
    if nested:
        found["args"].pop("name"), event["args"].pop("name")
    else:
        found.pop("name"), event.pop("name")
    assert found == event


# --- seams


def test_the_next_event_is_found_by_any_key_that_begins_one() -> None:
    text = b'[{"ph": "X", "name": "a"b"},\n {"name": "c", "ph": "X"}, {\n"ph" : "i"}]'
    second, third = text.index(b'{"name": "c"'), text.index(b'{\n"ph"')
    assert [next_event(text, at) for at in (-1, 0, 1, second, third)] == [1, 1, second, third, -1]


@pytest.mark.parametrize(
    "inside",
    [
        b'{"ph": "X", "args": {"name": "python"}}',
        b'{"ph": "X", "args": {"l": [{"name": "a"}, {"id": 1}]}}',
        b'{"ph": "X", "args": {"ph": "Y"}}',
        b'{"ph": "X", "args": [{"other": 1}]}',
    ],
)
def test_objects_inside_an_event_are_no_seams(inside: bytes) -> None:
    assert next_event(inside, 0) == -1
    assert next_event(inside + b',\n{"ph": "X"}', 0) == len(inside) + 2


def test_a_missing_comma_does_not_hide_an_event() -> None:
    assert next_event(b'{"ph": "X", "args": {}\n{"ph": "X"}', 0) == 23


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: Any) -> None:
    text = kind(b'{"ph": "a"b"}, {"ph": "X"}],\n"traceName": "x"}')
    assert (next_event(text, 0), end_of_events(text, 15), next_member(text, 26)) == (15, 26, 29)
    assert repair_event(text) is not None
    assert repair_member(kind(b'"k": bad,')) == ("k", b'"bad"', PHRASES["words"])


@pytest.mark.parametrize(
    ("tail", "sure"),
    [
        (b'],\n"traceName": "x" }', True),
        (b'\n  ],\n"INFO": ["a"], "traceName": "x" }', True),
        (b'],"mine": [1], "traceName": "x" }', False),
        (b"]}\n", False),
        (b"]", False),
    ],
)
def test_the_end_of_the_events_is_found(tail: bytes, sure: bool) -> None:
    event = b'{"ph": "X", "name": "a"b", "args": {"Input Dims": [[1, 2], []], "l": [{"a": 1}], "z": [3]}}'
    if b"mine" not in tail:
        assert end_of_events(event + tail, 0) == (len(event) + tail.index(b"]") if sure else -1)
    event = event[: event.index(b', "l"')] + b"}}"
    assert end_of_events(event + tail, 0, final=True) == len(event) + tail.index(b"]")


def test_without_a_sure_end_a_list_inside_the_event_may_not_be_taken_for_it() -> None:
    text = b'{"ph": "X", "args": {"l": [{"a": 1}], "z": [3]'
    assert end_of_events(text, 0) == -1
    assert end_of_events(text + b"]", 0) == -1


def test_an_event_that_was_never_closed_does_not_hide_the_end() -> None:
    assert end_of_events(b'{"ph": "X", "name": "a\n], "traceName": "x"}', 0, final=True) == 23


# --- members


@pytest.mark.parametrize(
    ("broken", "key", "value"),
    [
        ('"k": "say /"hi/"",\n  ', "k", 'say /"hi/"'),
        ('"k": {"path": "C://a /"q/" /n"},\n', "k", {"path": 'C://a /"q/" /n'}),
        ('"k": not json,\n', "k", "not json"),
        ('"k": {not json, "x"},\n', "k", '{not json, "x"}'),
        ('"k": {not json} }\n', "k", "{not json}"),
        ('"k"ey": "v",\n', 'k"ey', "v"),
        ('"k": "a\nb\tc\x01",\n', "k", "a\nb\tc\x01"),
        (r'"k": "C:\x\new",', "k", r"C:\x\new"),
        ('"INFO": ["INFO:2024 said "x"", "two\nlines"],\n', "INFO", ['INFO:2024 said "x"', "two\nlines"]),
        ('"k": 1\nINFO:2024-01-01 10:00:00 something\n', "k", 1),
        (', , "k": 1,', "k", 1),
        ('"traceName": "runs/"a".json" }', "traceName", 'runs/"a".json'),
        ('"distributedInfo": {"rank": 3, "backend": "ncc', "distributedInfo", {"rank": 3}),
        ('"k": ' + "[" * 300 + "]" * 300 + ",", "k", "[" * 300 + "]" * 300),
        ('"a": bad "b": worse ", "c": 1', "a", 'bad "b": worse ", "c": 1'),
    ],
)
def test_a_broken_member_keeps_key_and_value(broken: str, key: str, value: object) -> None:
    member = repair_member(broken.encode())
    assert member is not None
    assert (member.key, json.loads(member.json)) == (key, value)
    assert member.what


@pytest.mark.parametrize("text", [b"", b" , \n", b"}", b"INFO:2024 something\n", b"\xff", b'"k"', b'"k": '])
def test_without_key_and_value_there_is_no_member(text: bytes) -> None:
    assert repair_member(text) is None


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (b'"k": "say /"hi/"",\n "host_name": "vm"', b'"host_name"'),
        (b'"k"ey": "v", "host_name": "vm"', b'"host_name"'),
        (b'"k": "a\nb",\n"mine": 1', b'"mine"'),
        (b'"k": {\n "a": "x "q" y",\n "b": 2\n},\n "mine": 1', b'"mine"'),
        (b'"k": {\n "a": { "x ",\n "b": 2\n},\n "traceEvents": [', b'"traceEvents"'),
        (b'"k": 1\nINFO: said "x": y\n"mine": 1', b'"mine"'),
        (b',\n , "traceEvents": [', b'"traceEvents"'),
    ],
)
def test_the_next_member_is_found(broken: bytes, expected: bytes) -> None:
    assert next_member(broken, 0) == broken.index(expected)


@pytest.mark.parametrize("text", [b'"traceName": "runs/"a".json" }', b'"k": {\n "a": { "x ",\n "b": 2\n'])
def test_the_last_member_has_none_after_it(text: bytes) -> None:
    assert next_member(text, 0) == -1


# --- linear time


UNITS = [
    *('"', '\\"', "\\", ' "', '"a"', '"a":', '"a":"', '"a":x,y ', 'x"y', ', "', '", "', "a,", "}", "]", "[{", "1 "),
    *("\n", ",", " ", '"a":[', '"a":"{"b"c"d', '{"ph"', '{"name":', ",{", '],"a"', "}]", "}\n", '"a" "b', '\\",'),
]


@pytest.mark.slow
@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("unit", UNITS)
def test_hostile_input_is_repaired_in_linear_time(unit: str) -> None:
    for start in ("", '{"a": "', '{"a": ['):
        text = (start + unit * (BLOCK // len(unit))).encode()
        repair_event(text)
        repair_member(text)


@pytest.mark.slow
@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("unit", UNITS)
def test_hostile_input_is_searched_in_linear_time(unit: str) -> None:
    text = (unit * (4 * BLOCK // len(unit))).encode()
    assert next_event(text, 0) == -1
    assert end_of_events(text, len(text) // 2) == -1
    next_member(text, 0)
    end_of_events(text, 0, final=True)


# --- what PyTorch really writes


def _recovered(text: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A slow reader: members and events one by one, each strictly if possible and else through `repair`."""
    decoder, at, members = json.JSONDecoder(), text.index(b"{") + 1, {}
    events: list[dict[str, Any]] = []
    while (found := re.compile(rb'[\s,]*("[^"\n]*")\s*:\s*').match(text, at)) or text[at:].strip(b" \r\n,}"):
        try:
            if found and found[1] == b'"traceEvents"':
                events, at = _recovered_events(text, text.index(b"[", at) + 1)
                continue
            if not found:
                raise ValueError("no key")
            value, end = decoder.raw_decode(text[found.end() :].decode("latin-1"))
            if not re.compile(rb'\s*(?:,\s*"|\})').match(text, found.end() + end):
                raise ValueError("no comma")
            members[found[1][1:-1].decode()], at = value, found.end() + end
        except ValueError:
            end = next_member(text, at + len(text[at:]) - len(text[at:].lstrip(b" \r\n,")))
            member = repair_member(text[at : end if end >= 0 else len(text)])
            assert member is not None
            members[member.key], at = json.loads(member.json), end if end >= 0 else len(text)
    return members, events


def _recovered_events(text: bytes, at: int) -> tuple[list[dict[str, Any]], int]:
    events = []
    at -= 1
    while (begin := next_event(text, at)) >= 0:
        follows = next_event(text, begin)
        end = follows if follows >= 0 else end_of_events(text, begin, final=True)
        repaired = repair_event(text[begin : end if end >= 0 else len(text)])
        assert repaired is not None
        events.append(json.loads(repaired.json))
        at = begin
    return events, (end + 1 if end >= 0 else len(text))


def _shared(pattern: str) -> list[Path]:
    return sorted(SHARED.glob(pattern)) or [SHARED / pattern]


@pytest.mark.parametrize("path", _shared("*.json"), ids=lambda path: path.name.removesuffix(".pt.trace.json"))
def test_everything_in_a_broken_file_is_recovered(path: Path) -> None:
    required(path)
    text = path.read_bytes()
    members, events = _recovered(text)
    complete = not path.name.startswith("truncated")
    assert len(events) == len(re.findall(rb'\{\s*"ph"', text))
    assert all({"ph", "name", "ts", "pid", "tid"} <= event.keys() for event in events[:-1] + events[-1:] * complete)
    assert members["schemaVersion"] == 1
    assert ("traceName" in members) == complete
    kind = path.name.split(".")[0]
    if kind.startswith("meta"):
        key = 'k"ey' if kind == "meta_key_quote" else "k"
        newline = "a\nb\tc\x01" if ".py." in path.name else "ab\tc\x01"
        assert members[key] == {
            "meta_backslash": "C:\\x\\new",
            "meta_key_quote": "v",
            "meta_newline": newline,
            "meta_quote": 'say /"hi/"',
            "metajson_escaped": {"path": 'C://a /"q/" /n'},
            "metajson_invalid": "not json",
        }.get(kind)
    names = [event["name"] for event in events]
    expected = {
        "name_quote": 'a "quoted" name',
        "weird_class_name": 'nn.Module: Net"Q/_0',
        "weird_code_filename": '{"device": "cpu"}/weird.py(0): <module>',
    }.get(kind, names[0])
    assert expected in names


@pytest.mark.slow
@pytest.mark.parametrize("path", _shared("*.gz"), ids=lambda path: path.name)
def test_the_part_of_a_truncated_gzip_that_inflates_is_recovered(path: Path) -> None:
    required(path)
    text = zlib.decompressobj(wbits=31).decompress(path.read_bytes())
    events, end = _recovered_events(text, text.index(b"[", text.index(b'"traceEvents"')) + 1)
    assert len(events) == len(re.findall(rb'\{\s*"ph"', text)) > 1000
    assert end == len(text)


def test_a_valid_file_comes_back_the_same() -> None:
    path = SHARED.parent / "torch_2_13_cpu" / "mlp_default.pt.trace.json.gz"
    required(path)
    text = gzip.decompress(path.read_bytes())
    whole = json.loads(text)
    members, events = _recovered(text)
    assert events == whole.pop("traceEvents")
    assert members == whole
