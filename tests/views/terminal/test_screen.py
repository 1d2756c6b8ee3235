"""A result on a terminal."""

from __future__ import annotations

import io
import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.charts import Lines
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.terminal.lines import with_colour, without_colour, write
from kinetoscope.views.terminal.screen import UNBOUNDED, lines, to_text
from kinetoscope.views.text import cells
from tests.views.results import BARS, kernels, steps

EVIL = "\x1b]0;owned\x07\x1b[31m[bold red]x[/] \u202etxt"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_question_table_foot_and_notes() -> None:
    result = kernels(
        ("gemm", "computation", 1200, 1_500_000_000, 0.75),
        ("ncclAllReduce", "communication", 3, 500_000_000, 0.25),
        notes=(Note("UNLINKED", "2 kernels have no launch."),),
    )
    assert to_text(result, width=80, title="Which kernels?") == (
        "Which kernels?\n"
        "\n"
        "rank  name           kind           calls  total  share\n"
        "                                               s      %\n"
        "───────────────────────────────────────────────────────\n"
        "   0  gemm           computation    1,200   1.50   75.0\n"
        "   0  ncclAllReduce  communication      3  0.500   25.0\n"
        "\n"
        "· 2 kernels have no launch.\n"
    )


def test_long_names_lose_their_middle_only_where_room_ends() -> None:
    name = "void at::native::" + "x" * 100 + "<float>(int)"
    result = kernels((name, "computation", 1, 1, 1.0))
    assert [line for line in to_text(result, width=UNBOUNDED).splitlines() if line.endswith(name)], "whole, and last"
    narrow = to_text(result, width=80)
    assert max(cells(line) for line in narrow.splitlines()) <= 80
    assert "at::native" not in narrow
    assert "  xxxx" in narrow
    assert "…" in narrow
    assert "xxx<float>  " in narrow


def test_columns_that_were_chosen_stay_however_narrow_it_is() -> None:
    table = kernels(*((f"name_{i}", None, i, i, 0.5) for i in range(3)))
    crowded = without_colour(lines(table, width=30))
    assert "no room for" in crowded
    assert "share" not in crowded.splitlines()[0]
    kept = without_colour(lines(table, width=30, all_columns=True))
    assert "no room" not in kept
    assert kept.splitlines()[0].split() == ["rank", "name", "kind", "calls", "total", "share"]


def test_columns_without_values_go_first_and_the_foot_names_them() -> None:
    result = kernels(("n" * 40, None, 1, 1, 1.0))
    text = to_text(result, width=60)
    assert "share" in text.splitlines()[0]
    assert text.splitlines()[-1] == "… no values in kind"


@given(st.integers(20, 200), st.text(max_size=80), st.booleans())
def test_a_table_never_leaves_its_width(width: int, name: str, chart: bool) -> None:
    result = kernels((name, name, 5, 10**12, 0.5), (name[::-1], "memory", None, 7, None), chart=BARS if chart else None)
    for line in to_text(result, width=width).splitlines():
        assert cells(line) <= width


def test_rows_are_limited_and_counted() -> None:
    result = kernels(*[(f"k{index}", "computation", 1, 1, 0.1) for index in range(35)])
    assert "… 5 more rows (--limit 0 shows all)" in to_text(result, width=80)
    assert "… 34 more rows" in to_text(result, width=80, limit=1)
    assert "more row" not in to_text(result, width=80, limit=0)
    assert to_text(kernels()) == "No rows.\n"


def test_missing_is_a_dash_and_identities_are_not_grouped() -> None:
    result = kernels(("a", None, None, None, None))
    row = to_text(result.__class__(result.frame.with_columns(rank=12345), result.schema), width=80).splitlines()[-1]
    assert row.split() == ["12345", "a", "–", "–", "–", "–"]


def test_a_name_can_neither_act_on_the_terminal_nor_be_markup() -> None:
    result = kernels((EVIL, EVIL, 1, 1, 1.0), notes=(Note("EVIL", EVIL),))
    seen = "\\x1b]0;owned\\x07\\x1b[31m[bold red]x[/] \\u202etxt"
    for text in (
        to_text(result, width=200, title=EVIL),
        ANSI.sub("", to_text(result, width=200, title=EVIL, colour=True)),
    ):
        assert text.count(seen) == 4
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def test_colour_changes_nothing_but_colour() -> None:
    result = kernels(("a", "computation", 1, 10, 1.0), notes=(Note("A", "note"),), chart=BARS)
    assert ANSI.sub("", to_text(result, width=100, colour=True)) == to_text(result, width=100)
    assert "\x1b[38;2;61;155;214m" in to_text(result, width=100, colour=True), "computation in its blue"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "codes"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, {"1", "2", "38;2;61;155;214", "38;2;240;180;41"}),
        ({"TERM": "xterm-256color"}, {"1", "2", "38;5;68", "38;5;214"}),
        ({"TERM": "xterm"}, {"1", "2", "94", "33"}),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, {"1", "2"}),
        ({"TERM": "dumb"}, set()),
    ],
)
def test_a_terminal_gets_the_colours_that_it_shows(
    environ: dict[str, str], codes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    stream = Terminal()
    write(lines(steps((30, 10, 0)), width=120), stream)
    written = set(re.findall("\x1b\\[([0-9;]+)m", stream.getvalue())) - {"0"}
    without = len(codes) < 3
    assert written == codes if without else written > codes
    assert ("█" * 30 + "▓" * 10 in ANSI.sub("", stream.getvalue())) == without, "glyphs tell parts apart"


def test_spaces_at_the_end_of_a_line_go() -> None:
    assert with_colour([(("a ", "bold"), ("  ", ""), (" ", "dim")), ()]) == "\x1b[1ma\x1b[0m\n\n"


def test_bars_are_drawn_where_there_is_room() -> None:
    result = kernels(("a", "computation", 1, 10, 1.0), ("b", "memory", 1, 5, 0.5), chart=BARS)
    assert [line.count("━") for line in to_text(result, width=100).splitlines()[-2:]] == [40, 20]
    assert "━" not in to_text(result, width=56)
    assert "━" not in to_text(result, width=UNBOUNDED)


def test_stacks_show_the_parts_of_each_row_to_one_scale() -> None:
    lines = to_text(steps((30, 10, 0), (10, 5, 5)), width=120).splitlines()[-2:]
    assert lines[0].endswith("█" * 30 + "▓" * 10)
    assert lines[1].endswith("█" * 10 + "▓" * 5 + "·" * 5)


def test_an_empty_stack_is_nothing() -> None:
    assert "█" not in to_text(steps((0, 0, 0)), width=120)


def test_print_shows_the_table() -> None:
    result: Result = kernels(("a", "computation", 1, 10, 1.0))
    assert str(result) == to_text(result)


# --- lines

CURVES = Schema(
    Column("rank", pl.Int64, "Rank."),
    Column("direction", pl.String, "Direction."),
    Column("time", pl.Int64, "When.", "ns"),
    Column("level", pl.Int64, "How much."),
)


def curves(*rows: tuple[int, str, int, int | None]) -> Result:
    frame = pl.DataFrame(rows, schema=CURVES.names, orient="row")
    return Result(frame, CURVES, chart_facts=Lines("time", "level", by=("rank", "direction")))


def test_each_line_is_a_row_of_blocks_over_a_shortened_table() -> None:
    up = [(0, "HtoD", 1_000_000 * time, time) for time in range(8)]
    text = to_text(curves(*up, (0, "DtoH", 0, 1000), (0, "DtoH", 7_000_000, 0)), width=44)
    assert text.splitlines()[:5] == [
        "HtoD  ▁▁▁▁▂▂▂▂▂▃▃▃▃▄▄▄▄▄▅▅▅▅▆▆▆▆▆▇▇▇▇█ 7",
        "DtoH  " + "█" * 32 + " 1,000",
        "      0\u00a0ns" + " " * 21 + "7.00\u00a0ms time",
        "",
        "rank  direction  time  level",
    ]
    assert "… 2 more rows (--limit 0 shows all)" in text
    assert "more row" not in to_text(curves(*up, (0, "DtoH", 0, 1000)), width=44, limit=30)


def test_lines_are_not_drawn_where_there_is_no_room_or_no_terminal() -> None:
    result = curves(*((0, "HtoD", time, time) for time in range(40)))
    for width in (30, UNBOUNDED):
        text = to_text(result, width=width)
        assert "▁" not in text
        assert "… 10 more rows" in text
    assert "▁" not in to_text(curves((0, "HtoD", 0, None)), width=100)


def test_the_lines_that_are_not_drawn_are_counted() -> None:
    text = to_text(curves(*((0, f"k{line}", time, 1) for line in range(20) for time in (0, 1))), width=80)
    assert "\n… 4 more lines\n" in text


@given(st.integers(20, 200), st.text(max_size=80), st.lists(st.integers(-5, 10**12), max_size=5))
def test_lines_never_leave_the_width(width: int, name: str, levels: list[int]) -> None:
    rows = [(0, which, 10 * time, level) for which in (name, "other") for time, level in enumerate(levels)]
    for line in to_text(curves(*rows), width=width).splitlines():
        assert cells(line) <= width
