"""JSON drawn as text, not as values: every spelling of a number, repeated keys, escapes, white space anywhere."""

import json
from typing import Final

from hypothesis import strategies as st

SPECIAL: Final = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")

_ws = st.sampled_from(["", "", "", " ", "\n", "\t", "\r\n", "  ", "\n    ", " " * 17])


def _spelled(text: str, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only or any("\ud800" <= c <= "\udfff" for c in text))


_characters = st.characters(codec=None, categories=None, max_codepoint=0x10FFFF)  # lone surrogates among them
_texts = st.one_of(
    st.sampled_from(
        ["", "a", "X", "aten::add", "stream 7", 'a "quote"', "C:\\x\\new", '{"ph": "X"}', "]}", "\u00e9\U0001f600"]
    ),
    st.text(_characters, max_size=12),
    st.text('ab\\"/{}[]:,u0041\n\t', max_size=30),
)
_escaped = st.sampled_from(
    ['"\\u0061"', '"a\\/b"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\u0022\\\\"', '"tab\there"', '"\x01"']
)
strings = st.one_of(st.builds(_spelled, _texts, st.booleans()), _escaped)

_sign = st.sampled_from(["", "", "", "-"])
_digits = st.one_of(
    st.integers(0, 10**6).map(str),
    st.integers(0, 10**30).map(str),
    st.sampled_from(["0", "9007199254740991", "9007199254740993", "9223372036854775807", "9223372036854775808"]),
    st.sampled_from(["4500000000000000", "4500000000000001", "18446744073709551616", "1704161511420306"]),
)
_decimals = st.one_of(
    st.just(""),
    st.integers(0, 999).map(lambda n: f".{n:03d}"),
    st.text("0123456789", min_size=1, max_size=24).map(".".__add__),
)
_exponent = st.one_of(
    st.just(""),
    st.just(""),
    st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 400)),
)
numbers = st.one_of(
    st.builds("{}{}{}{}".format, _sign, _digits, _decimals, _exponent),
    st.sampled_from(["0", "-0", "-0.0", "0.000", "NaN", "Infinity", "-Infinity", "1e400", "5e-324", "123456.789"]),
)
scalars = st.one_of(strings, numbers, st.sampled_from(["true", "false", "null"]))


def _joined(parts: list[str], between: str, brackets: str) -> str:
    return brackets[0] + between + f"{between},{between}".join(parts) + between + brackets[1]


def _member(key: str, value: str, space: str) -> str:
    return f"{key}{space}:{space}{value}"


def objects(values: st.SearchStrategy[str], keys: st.SearchStrategy[str] = strings) -> st.SearchStrategy[str]:
    """Objects of such values; keys may be repeated."""
    members = st.lists(st.builds(_member, keys, values, _ws), max_size=6)
    return st.builds(_joined, members, _ws, st.just("{}"))


def lists(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Lists of such values."""
    return st.builds(_joined, st.lists(values, max_size=6), _ws, st.just("[]"))


anything = st.recursive(scalars, lambda inner: lists(inner) | objects(inner), max_leaves=6)

_usual = st.sampled_from(
    [
        '"ph": "X"',
        '"ph":"M"',
        '"cat": "cpu_op"',
        '"name": "aten::add"',
        '"pid": 1',
        '"tid": "stream 7"',
        '"tid": 7',
        '"ts": 5.123',
        '"ts": 17',
    ]
)
_plain = st.recursive(scalars, lists, max_leaves=3)  # what may be a pid: objects come back without repeated keys there
_odd_ids = st.builds(_member, st.sampled_from(['"pid"', '"tid"']), _plain, _ws)
_odd_special = st.builds(
    _member, st.sampled_from([f'"{key}"' for key in SPECIAL if key not in ("pid", "tid")]), anything, _ws
)
_times = st.builds(_member, st.sampled_from(['"ts"', '"dur"']), numbers | numbers.map('"{}"'.format), _ws)
_args = objects(anything, st.one_of(st.sampled_from(['"External id"', '"ph"', '"args"', '"Input Dims"']), strings)).map(
    '"args": '.__add__
)
_extra = st.builds(_member, strings, anything, _ws)
_members = st.lists(st.one_of(_usual, _odd_special, _odd_ids, _times, _args, _extra), max_size=9)
events = st.builds(_joined, _members, _ws, st.just("{}"))

elements = st.lists(st.one_of(events, events, events, anything), max_size=6)
metadata = st.lists(
    st.builds(_member, strings.filter(lambda key: json.loads(key, strict=False) != "traceEvents"), anything, _ws),
    max_size=3,
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Whole documents, with metadata before and after the events."""
    space = draw(_ws)
    listed = _joined(draw(elements), space, "[]")
    members = [*draw(metadata), f'"traceEvents"{space}:{space}{listed}', *draw(metadata)]
    return space + _joined(members, draw(_ws), "{}") + space


@st.composite
def bare_lists(draw: st.DrawFn) -> str:
    """Documents in the list form."""
    return draw(_ws) + _joined(draw(elements), draw(_ws), "[]") + draw(_ws)
