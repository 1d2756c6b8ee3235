"""The summary as it is drawn."""

from __future__ import annotations

import dataclasses
import re

import pytest

from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.pages.digest import Digest, Spread, SpreadColumn, TopRow
from kinetoscope.pages.sentences.steps import TimePart
from kinetoscope.screens.summary import MAX_COLUMNS, lines
from kinetoscope.views.sentences import EMPTY, Sentence
from kinetoscope.views.terminal.lines import with_colour, without_colour
from kinetoscope.views.text import cells

MS = 1_000_000
EVIL = "\x1b]0;owned\x07[bold]x[/bold]\u202e"

DIGEST = Digest(
    name="run.pt.trace.json",
    facts=("2 × NVIDIA H100", "3 steps"),
    headline=Sentence("A step takes 100 ms, and the device computes for 70% of it."),
    loss=Sentence("The largest loss is data loading, 20 ms (20%): the device waits for the next batch. " * 2),
    changes=(
        Finding(
            code="DATA001",
            severity="warning",
            message="The process makes each batch.",
            stake=Stake(14.0 * MS, 20.0 * MS),
            step=1e8,
        ),
        Finding(
            code="HOST002",
            severity="note",
            message="`aten::item` waits at `train.py:12`. It is short.",
            stake=Stake(0.5 * MS, 2.0 * MS),
            step=1e8,
        ),
    ),
    first=Sentence("Up to 20.0 ms of 100 ms (20%): the process makes each batch; 14.0 ms of it is sure."),
    parts=(
        TimePart("computation", "computation", 70 * MS),
        TimePart("memory", "exposed copies", 0),
        TimePart("data_loading", "data loading", 20 * MS),
        TimePart("idle", "nothing recorded", 10 * MS),
    ),
    spread=Spread(
        "Steps",
        "host",
        (SpreadColumn("5", 50), SpreadColumn("6", 100), SpreadColumn("7", 50)),
        Sentence("50 – 100 ns; step 6 is longest"),
    ),
    tops=(
        ("Operators", (TopRow("aten::mm", "host", 1200, 30 * MS, 0.3), TopRow("aten::add", "host", 5, 15 * MS, 0.15))),
        ("Kernels", (TopRow("void gemm<128, 128>(float*, float*, int)" * 4, "computation", 1, MS, 0.0001),)),
    ),
    health=tuple(
        (severity, Sentence(said))
        for severity, said in (
            ("warning", "Something is odd."),
            ("note", "Something else."),
            ("note", "a"),
            ("note", "b"),
        )
    ),
    commands=(("kinetoscope show operators run.pt.trace.json", "all operators"),),
)


def drawn(digest: Digest = DIGEST, width: int = 80) -> list[str]:
    return without_colour(lines(digest, width=width)).splitlines()


def test_the_bar_and_its_legend() -> None:
    text = drawn()
    bar = next(line for line in text if line.startswith("█"))
    assert bar == "█" * 56 + "▞" * 16 + "·" * 8
    after = text[text.index(bar) + 1 :]
    assert after[0].split("    ")[0].startswith("█ computation")
    assert "70.0%" in after[0]
    assert not any("exposed copies" in line for line in text), "what takes no time is left out"


def test_few_steps_have_their_numbers_below() -> None:
    text = drawn()
    place = next(index for index, line in enumerate(text) if line.startswith("Steps"))
    assert text[place] == "Steps   ▅▅▅ ███ ▅▅▅  50 – 100 ns; step 6 is longest"
    assert text[place + 1] == "         5   6   7"


def test_a_slow_step_among_many_is_not_lost() -> None:
    columns = tuple(SpreadColumn(str(step), 900 if step == 777 else 100) for step in range(1000))
    digest = dataclasses.replace(DIGEST, spread=Spread("Steps", "host", columns, Sentence("100 – 900 ns")))
    row = next(line for line in drawn(digest) if line.startswith("Steps"))
    assert row.count("█") == 1
    assert row.count("▂") > 40


def test_what_to_change_begins_with_the_headline_of_the_findings() -> None:
    text = drawn()
    assert "What to change: Up to 20.0 ms of 100 ms (20%): the process makes each batch;" in text
    second = next(line for line in drawn(width=100) if line.endswith("HOST002"))
    assert second.startswith("note, likely  0.500 – 2.00\u00a0ms   `aten::item` waits at `train.py:12`  ")


def test_short_tables_have_shares_and_bars() -> None:
    text = drawn()
    assert next(line for line in text if line.startswith("aten::mm")).endswith(
        "1,200  30.0\u00a0ms  30.0%  " + "━" * 13
    )
    assert next(line for line in text if line.startswith("aten::add")).endswith("15.0%  " + "━" * 6 + "╸")
    assert "<0.1%" in next(line for line in text if line.startswith("gemm<128"))


def test_three_remarks_and_where_the_others_are() -> None:
    text = drawn()
    assert "! Something is odd." in text
    assert "· Something else." in text
    assert "· 1 more: see kinetoscope doctor" in text


@pytest.mark.parametrize("width", [60, 80, 100, 200, 1 << 30])
def test_it_never_leaves_its_width(width: int) -> None:
    assert max(cells(line) for line in drawn(width=width)) <= min(width, MAX_COLUMNS)
    assert len(drawn(width=width)) <= 46


def test_a_trace_with_next_to_nothing_reads_well() -> None:
    bare = Digest(
        "a.json",
        (),
        Sentence("There is no time to account for."),
        EMPTY,
        EMPTY,
        (),
        (),
        None,
        (),
        (),
        (("kinetoscope doctor a.json", "why"),),
    )
    assert drawn(bare) == ["a.json", "", "There is no time to account for.", "", "kinetoscope doctor a.json   why"]


def test_nothing_of_a_trace_acts_on_the_terminal() -> None:
    evil = dataclasses.replace(
        DIGEST,
        changes=(Finding(code="DATA001", severity="note", message=EVIL, stake=Stake(1.0, 2.0), step=10.0),),
        name=EVIL,
        facts=(EVIL,),
        tops=((EVIL, (TopRow(EVIL, "host", 1, 1, 1.0),)),),
        health=(("note", Sentence(EVIL)),),
    )
    plain = without_colour(lines(evil, width=90))
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", plain)
    assert plain.count("\\x1b]0;owned\\x07[bold]x[/bold]\\u202e") >= 4
    assert "\x1b]" not in with_colour(lines(evil, width=90))
