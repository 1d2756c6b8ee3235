"""What a person is shown of an untrusted text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import nearest
from kinetoscope.views.text import brief, cells, middle, padded, printable, wrapped

ANYTHING = st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("aten::mm", "aten::mm"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\r\x00\x07\x7f", "a\\nb\\r\\x00\\x07\\x7f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("half \ud800", "half \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("[bold]markup[/bold] <b>", "[bold]markup[/bold] <b>"),
        ("カーネル émoji 🙂", "カーネル émoji 🙂"),
    ],
)
def test_what_acts_on_a_terminal_is_spelled_out(text: str, seen: str) -> None:
    assert printable(text) == seen


@given(ANYTHING)
def test_nothing_that_acts_is_left(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert not {unicodedata.bidirectional(character) for character in shown} & {"LRO", "RLO", "LRE", "RLE", "PDF"}
    shown.encode()


@given(ANYTHING.map(printable), st.integers(0, 30))
def test_middle_fits_and_keeps_both_ends(text: str, width: int) -> None:
    short = middle(text, width)
    assert cells(short) <= width
    assert short == text or cells(text) > width
    if short != text and "…" not in text and width:
        left, right = short.split("…")
        assert text.startswith(left)
        assert text.endswith(right)


@pytest.mark.parametrize(
    ("name", "width", "short"),
    [
        ("void f<int>(int, float (*)(int))", 40, "void f<int>(int, float (*)(int))"),
        ("void f<int>(int, float (*)(int))", 20, "f<int>"),
        ("void f<int>(int, float (*)(int))", 4, "f<…>"),
        ("ncclDevKernel_AllReduce(ncclArgs<4096ul>)", 30, "ncclDevKernel_AllReduce"),
        ("Cijk_Ailk(int) [clone .kd]", 10, "Cijk_Ailk"),
        ("Memcpy HtoD (Pinned -> Device)", 30, "Memcpy HtoD (Pinned -> Device)"),
        ("a)b)c)d)e)f)", 5, "a)…f)"),
        ("((((((((((", 5, "((…(("),
        ("(lambda)(int, int)", 10, "(lamb…int)"),
    ],
)
def test_a_long_name_loses_its_arguments_first(name: str, width: int, short: str) -> None:
    assert brief(name, width) == short


def test_wide_characters_count_twice_and_combining_ones_not() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1
    assert middle("日本語日本語", 5) == "日…語"
    assert padded("日", 4) == "日  "
    assert padded("7", 3, right=True) == "  7"


@given(st.text(st.sampled_from("ab ")), st.integers(1, 20))
def test_wrapping_loses_no_word(text: str, width: int) -> None:
    lines = wrapped(text, width, indent=" ")
    assert " ".join(lines).split() == text.split()
    assert all(cells(line) <= width or " " not in line.strip() for line in lines)


def test_nearest_suggests_what_was_meant_or_nothing() -> None:
    assert nearest("operator", ["operators", "kernels"]) == " (did you mean 'operators'?)"
    assert nearest("xyz", ["operators", "kernels"]) == ""
