"""Strings come back as Python's json would decode them; one text has one code; what is odd about them is said."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope.model.trace.strings import (
    BAD_UTF8,
    CONTROL,
    LONE_BACKSLASH,
    NESTED,
    RESPELLED,
    Strings,
    decode,
    number,
)
from kinetoscope.readers.json import tokenizer as tk
from kinetoscope.readers.json.columns import Tables

characters = st.characters(codec="utf-8")
texts = st.one_of(st.text(characters, max_size=12), st.text('ab\\"/\u00e9\n\t', max_size=8))


def _oddities(*contents: bytes) -> tuple[Strings, list[int]]:
    tables = Tables()
    codes = [tables.intern(content) for content in contents]
    offsets = tables.string_offsets[: tables.at[tk.STRINGS]]
    found = np.empty(len(offsets), np.uint8)
    tk.examine(offsets, tables.arena, found)
    return Strings(tables.arena, offsets, found), [int(found[code]) for code in codes]


def _strings(*contents: bytes) -> tuple[Strings, list[int]]:
    tables = Tables()
    codes = [tables.intern(content) for content in contents]
    return _oddities(*contents)[0], codes


def _spell(text: str, how: int) -> bytes:
    """One of the ways in which JSON can write a text."""
    if how == 2:
        return "".join(f"\\u{ord(c):04x}" if ord(c) < 65536 else json.dumps(c)[1:-1] for c in text).encode()
    spelled = json.dumps(text, ensure_ascii=how == 1)[1:-1]
    return spelled.replace("/", "\\/").encode() if how == 3 else spelled.encode()


@given(st.lists(st.tuples(texts, st.integers(0, 3)), max_size=20))
def test_one_text_one_code(spelled: list[tuple[str, int]]) -> None:
    strings, codes = _strings(*(_spell(text, how) for text, how in spelled))
    first: dict[str, int] = {}
    for (text, _), code in zip(spelled, codes, strict=True):
        assert strings.text(code) == text
        first[text] = min(first.get(text, code), code)
    canonical = strings.canonical
    for (text, _), code in zip(spelled, codes, strict=True):
        assert canonical[code] == first[text]
        assert strings.text(strings.code(text)) == text
    assert strings.has_synonyms == any(canonical[code] != code for code in codes)
    assert strings.code("not there at all") == -1


def test_nested_json_is_no_synonym() -> None:
    strings, (nested, text) = _strings(b'["\\u0061"]', b'[\\"\\\\u0061\\"]')
    assert strings.text(text) == '["\\u0061"]'
    assert strings.nested(nested) == ["a"]
    assert not strings.has_synonyms


@given(st.one_of(st.binary(max_size=12), st.text(characters, max_size=6).map(str.encode)))
@example(b"\xed\xa0\x80")
@example(b"\xf4\x90\x80\x80")
@example(b"\xe0\x9f\xbf")
@example(b"\xf0\x8f\xbf\xbf")
@example(b"\xc1\xbf")
@example(b"\xe2\x82")
def test_bad_utf8_is_what_python_says_it_is(content: bytes) -> None:
    (flags,) = _oddities(content.replace(b"\\", b"/"))[1]
    try:
        content.decode()
    except UnicodeDecodeError:
        assert flags & BAD_UTF8
    else:
        assert not flags & BAD_UTF8


@given(st.text('\\"/bfnrtu0aFx\x01\t ', max_size=8))
@example("\\u00e")
@example("\\uD83d")
def test_other_oddities(text: str) -> None:
    (flags,) = _oddities(text.encode())[1]
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        assert flags & (LONE_BACKSLASH | NESTED)
    else:
        assert not flags & (LONE_BACKSLASH | NESTED)
        assert bool(flags & RESPELLED) == (json.dumps(value, ensure_ascii=False) != f'"{text}"')
    assert bool(flags & CONTROL) == ("\x01" in text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain", "plain"),
        (b"caf\xc3\xa9", "café"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\\u00e9\\ud83d\\ude00", "é😀"),
        (b"\\ud83d", "\ud83d"),
        (b"C:\\\\x\\\\new", "C:\\x\\new"),
        (b"C:\\x\\new", "C:\\x\\new"),
        (b"a \\q \\\\ \\u0041", "a \\q \\ A"),
        (b"\\", "\\"),
        (b"tab\there", "tab\there"),
        (b'no "content\\', 'no "content\\'),
    ],
)
def test_decode(content: bytes, text: str) -> None:
    assert decode(content) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-0", 0),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("1e400", math.inf),
        ("-Infinity", -math.inf),
        ("-inf", -math.inf),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("007", "007"),
        ("N/A", "N/A"),
        ("1.", "1."),
        ("+1", "+1"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_number(text: str, value: object) -> None:
    assert repr(number(text)) == repr(value)
    assert all(isinstance(found := number(text), float) and math.isnan(found) for text in ("nan", "NaN", "-nan"))


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"[1, 2.5, true, null]", [1, 2.5, True, None]),
        (b"[nan, -inf, N/A, 007, 1]", [math.nan, -math.inf, "N/A", "007", 1]),
        (b'{"a": nan, "b": "nan"}', {"a": math.nan, "b": "nan"}),
        (b'["C:\\x\\new", inf]', ["C:\\x\\new", math.inf]),
        (b'["tab\there", "\xff"]', ["tab\there", "\ufffd"]),
        (b"[" * 5000, "[" * 5000),
        (b"[}", "[}"),
    ],
)
def test_nested(content: bytes, value: object) -> None:
    strings, (code,) = _strings(content)
    assert repr(strings.nested(code)) == repr(value)


def test_labels_have_no_lone_surrogates() -> None:
    strings, codes = _strings(b"\\ud83d x", "é".encode())
    assert strings.labels(codes) == ["? x", "é"]
    assert strings.label(-1) == ""


def test_symptoms() -> None:
    strings, _ = _strings(b"fine", b"a\x07", b"\xff", b"\\q", b"\\q\x07", b"C:\\\\Users")
    assert [(symptom.code, symptom.number) for symptom in strings.symptoms] == [
        ("CONTROL_CHARACTERS", 2),
        ("BAD_UTF8", 1),
        ("LONE_BACKSLASH", 2),
    ]
