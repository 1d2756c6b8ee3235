"""Every page on every face: its blocks on a terminal, as Markdown and in a notebook."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.cli import main
from kinetoscope.outputs.page import composed_views, page
from kinetoscope.pages import blocks
from kinetoscope.pages.blocks import (
    Bar,
    BarsBlock,
    Block,
    Cell,
    ChartBlock,
    ColumnsBlock,
    Control,
    ControlsBlock,
    Fact,
    FactsBlock,
    Head,
    IcicleBlock,
    NoteBlock,
    Page,
    Part,
    PartsBlock,
    RowsBlock,
    Sketch,
    SourceBlock,
    Stack,
    TimelinesBlock,
)
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.screens import html, markdown, terminal
from kinetoscope.screens.grid import grid, note_of
from kinetoscope.screens.html import html as html_of
from kinetoscope.screens.terminal import lines
from kinetoscope.views.terminal.lines import with_colour, without_colour
from kinetoscope.views.text import cells

TRACES = Path(__file__).parents[1] / "traces"
RUN = TRACES / "conv.pt.trace.json.gz"
SNAPSHOT = Path(__file__).parents[1] / "snapshots" / "real" / "training_2.13.0.pickle.gz"

EVIL = "\x1b]0;owned\x07<script>alert(1)</script>`|*[x](http://x)@you\u202e"

HOSTILE: tuple[Block, ...] = (
    NoteBlock(EVIL, EVIL, note=EVIL),
    PartsBlock(EVIL, [Part("host", EVIL, 1.0)]),
    ColumnsBlock(EVIL, [Part("host", EVIL, 0.0)], [Stack(EVIL, [1.0], apart=EVIL, mark=EVIL)]),
    BarsBlock(EVIL, [Bar(EVIL, "host", 1.0, 1.0, EVIL, name=EVIL)], note=EVIL),
    FactsBlock(EVIL, [Fact(EVIL, [Cell(text=EVIL)])], [EVIL]),
    RowsBlock(EVIL, [Head("name", "String")], [(EVIL,)]),
    IcicleBlock(EVIL, [EVIL, EVIL], [-1, 0], [2.0, 1.0], ["host", "host"]),
    ChartBlock(EVIL, {}, sketch=[Sketch(EVIL, EVIL, "host", [0, 1], [1, 2]), Sketch("", EVIL, "")]),
    SourceBlock(EVIL, EVIL, [blocks.LineTime(1, 1.0, 1.0, EVIL)]),
    GridBlock(EVIL, (EVIL, EVIL), [GridRow((EVIL, EVIL), "host", about=(EVIL,))], named=True, rest=EVIL),
    GridBlock(EVIL, ("", ""), [GridRow((EVIL, EVIL), "host", 1.0, 2.0, strong=True)], start=0.5),
    ControlsBlock([Control(EVIL, EVIL, EVIL, [(EVIL, EVIL), ("other", EVIL)])], EVIL),
)


def test_what_a_trace_says_is_text_on_every_face() -> None:
    for block in HOSTILE:
        made = Page("x", EVIL, EVIL, [EVIL], [block], [EVIL])
        on_terminal = with_colour(lines(made, width=80))
        assert not re.search("\x1b(?!\\[)|\x07|\u202e", on_terminal), block
        assert "<script" not in html_of(made), block
        assert "\x1b" not in html_of(made), block
        text = markdown.text(made)
        assert "<script" not in re.sub("`[^`]*`", "", text.replace("\\`", "")), block
        assert "\x1b" not in text, block
        assert "\u202e" not in text, block


def test_each_kind_of_block_has_a_form_in_text() -> None:
    kinds = {each for _, each in inspect.getmembers(blocks, inspect.isclass) if issubclass(each, Block)} - {Block}
    asked = {blocks.TableBlock, blocks.ElsewhereBlock}  # `answered` puts others in their place
    for face in (terminal, html, markdown):
        drawn = set(face._DRAW)
        left = {kind for kind in kinds - asked - drawn if kind not in grid.__globals__["_MAKERS"]}
        assert left - {blocks.FindingsBlock} <= {TimelinesBlock, ControlsBlock}, face


@pytest.mark.parametrize("name", [*composed_views()])
@pytest.mark.parametrize("path", [RUN, SNAPSHOT], ids=["trace", "snapshot"])
@pytest.mark.slow
def test_every_page_fits_and_reads_everywhere(path: Path, name: str) -> None:
    other = {"base": str(path)} if name == "compare" else {}
    made = page(str(path), name, **other)  # type: ignore[arg-type]
    for width in (80, 100, 140):
        text = without_colour(lines(made, width=width))
        wide = [line for line in text.splitlines() if cells(line) > width]
        assert not [line for line in wide if " " in line.strip() and "kinetoscope " not in line]
        assert not re.search(r"\b([Cc]lick|[Dd]rag|slider)\b", text)
    written = made.to_markdown()
    assert written.startswith("# ")
    assert written.count("\n## ") >= sum(1 for each in made.blocks if isinstance(each, PartsBlock))
    assert "<script" not in made._repr_html_()
    json.dumps(blocks.to_plain(made), allow_nan=False)


def test_a_table_says_how_many_rows_it_has_and_takes_all() -> None:
    few, every = (page(str(RUN), "operators", limit=limit) for limit in (2, 0))
    rows = [[len(each.rows) for each in made.blocks if isinstance(each, RowsBlock)] for made in (few, every)]
    assert max(rows[0]) == 2
    assert max(rows[1]) > 2
    notes = [each.note for each in few.blocks if isinstance(each, RowsBlock)]
    assert any(note.startswith(f"The first 2 of {max(rows[1])} rows.") for note in notes)


def test_words_on_gestures_are_for_a_browser() -> None:
    block = NoteBlock("", note="By words. A click shows one below; drag to zoom. All of it.")
    assert note_of(block) == "By words. All of it."


def test_a_grid_is_drawn_with_a_bar_on_one_scale() -> None:
    bars = [Bar("a", "host", 4e6, 0.8, calls=1), Bar("b", "host", 1e6, 0.2, calls=12)]
    made = Page("x", "", "Said.", blocks=[BarsBlock("Calls", bars)])
    assert without_colour(lines(made, width=60)).replace("\xa0", " ").splitlines() == [
        "Said.",
        "",
        "Calls  calls     time  share",
        "a          1  4.00 ms  80.0%  " + "━" * 30,
        "b         12  1.00 ms  20.0%  " + "━" * 7 + "╸",
    ]
    assert markdown.text(made).replace("\xa0", " ").splitlines()[2:] == [
        "## Calls",
        "",
        "| | calls | time | share |",
        "| --- | ---: | ---: | ---: |",
        "| `a` | 1 | 4.00 ms | 80.0% |",
        "| `b` | 12 | 1.00 ms | 20.0% |",
    ]


def test_a_title_that_is_longer_than_names_stands_above_the_heads() -> None:
    stacks = [Stack(str(step), [1e6, 2e6]) for step in range(2)]
    made = Page("x", "", "", blocks=[ColumnsBlock("A title of more than 24 cells", [*map(part, "ab")], stacks)])
    assert without_colour(lines(made, width=60)).splitlines()[:2] == [
        "A title of more than 24 cells",
        "       all        b        a",
    ], "and what takes most is first"


def part(label: str) -> Part:
    return Part("host", label, 0.0)


def test_numbers_of_one_column_stand_below_each_other() -> None:
    rows = [GridRow(("a", "+1.50 s")), GridRow(("b", "+<0.001 s"))]
    made = Page("x", "", "", blocks=[GridBlock("", ("", "change"), rows)])
    assert without_colour(lines(made, width=60)).splitlines()[1:] == ["a    +1.50 s", "b  +<0.001 s"]


def test_rows_of_several_cycles_say_of_which(tmp_path: Path) -> None:
    for number in (1, 2):
        shutil.copy(RUN, tmp_path / f"host_7.{number}000000000000.pt.trace.json.gz")
    tables = [block for block in page(tmp_path, "memory").blocks if isinstance(block, RowsBlock) and block.rows]
    assert tables
    assert all("cycle" in [head.name for head in table.columns] for table in tables)


def test_a_page_shows_itself() -> None:
    made = kinetoscope.page(str(RUN), "critical-path")
    assert str(made).startswith("Critical path\n")
    assert repr(made).startswith("<Page critical_path: ")
    assert "<svg" in made._repr_html_()
    assert replace(made, title="").to_markdown().startswith(f"# {made.sentence[:10]}")


def test_the_command_lists_draws_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*arguments: str) -> str:
        main(["page", *arguments])
        said = capsys.readouterr()
        return said.out or said.err

    assert "critical-path" in answer()
    assert answer("idle", str(RUN), "--format", "markdown").startswith("# Idle")
    assert json.loads(answer("operators", str(RUN), "--format", "json", "--set", "time=host_self"))["name"]
    assert "there is no page 'kernel' (did you mean 'kernels'?)" in answer("kernel", str(RUN))
    assert "takes a PATH" in answer("kernels")
    assert "--base PATH" in answer("compare", str(RUN))
    assert "NAME=VALUE" in answer("kernels", str(RUN), "--set", "by")
