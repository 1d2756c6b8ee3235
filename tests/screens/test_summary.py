"""The summary as it is drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest

from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.analyses import named
from kinetoscope.notes import Note
from kinetoscope.pages.answers.summary import _blocks, _of_steps
from kinetoscope.pages.blocks import Bar, BarsBlock, Page
from kinetoscope.pages.digest import Digest
from kinetoscope.pages.sentences.steps import TimePart
from kinetoscope.schema import Result
from kinetoscope.screens.terminal import lines
from kinetoscope.views.sentences import EMPTY, Sentence
from kinetoscope.views.terminal.lines import with_colour, without_colour
from kinetoscope.views.text import cells

MS = 1_000_000
EVIL = "\x1b]0;owned\x07[bold]x[/bold]\u202e"
GEMM = "void gemm<128, 128>(float*, float*, int)" * 4

ADVICE = Advice(
    findings=(
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
            stake=Stake(0.5 * MS, 5.0 * MS),
            step=1e8,
        ),
    ),
    step=1e8,
)
DIGEST = Digest(
    name="run.pt.trace.json",
    facts=("2 × NVIDIA H100", "3 steps"),
    headline=Sentence("A step takes 100 ms, and the device computes for 70% of it."),
    limits=EMPTY,
    serving=EMPTY,
    ranks=EMPTY,
    loss=Sentence("The largest loss is data loading, 20 ms (20%): the device waits for the next batch. " * 2),
    parts=(
        TimePart("computation", "computation", 70 * MS),
        TimePart("memory", "exposed copies", 0),
        TimePart("data_loading", "data loading", 20 * MS),
        TimePart("idle", "nothing recorded", 10 * MS),
    ),
    tops=(
        BarsBlock(
            "Operators",
            [
                Bar("aten::mm", "host", 30 * MS, 0.3, name="aten::mm", calls=1200),
                Bar("aten::add", "host", 15 * MS, 0.15, name="aten::add", calls=5),
            ],
        ),
        BarsBlock("Kernels", [Bar(GEMM, "computation", MS, 0.0001, name=GEMM, calls=1)]),
    ),
    damage=(),
    health=(Note("ODD", "Something is odd.", "warning"), Note("ELSE", "Something else.")),
)


def steps(times: Sequence[int]) -> Result:
    frame = pl.DataFrame({"rank": [0] * len(times), "step": range(5, 5 + len(times)), "duration": times})
    schema = named("step_breakdown").schema.only(frame.columns)
    return Result(frame.cast(schema.types), schema, (), "step_breakdown", {})


def page(digest: Digest = DIGEST, advice: Advice = ADVICE) -> Page:
    blocks = tuple(_blocks(digest, {"step_breakdown": steps([50, 100, 50])}, advice, ()))
    commands = (("kinetoscope show operators run.pt.trace.json", "all operators"),)
    return Page("summary", digest.name, digest.headline, digest.facts, blocks, digest.health, commands=commands)


def drawn(of: Page, width: int = 80) -> list[str]:
    return without_colour(lines(of, width=width)).splitlines()


def test_the_bar_and_its_legend() -> None:
    text = drawn(page())
    bar = next(line for line in text if line.startswith("█"))
    assert bar == "█" * 56 + "▞" * 16 + "·" * 8
    after = text[text.index(bar) + 1 :]
    assert after[0].split("    ")[0].startswith("█ computation")
    assert "70.0%" in after[0]
    assert not any("exposed copies" in line for line in text), "what takes no time is left out"


def test_few_steps_have_their_numbers_below() -> None:
    text = drawn(page())
    place = next(index for index, line in enumerate(text) if line.startswith("Steps"))
    assert text[place] == "Steps  ▅▅▅ ███ ▅▅▅  50.0 – 100\u00a0ns; step 6 is the longest"
    assert text[place + 1].rstrip() == "        5   6   7"


def test_a_slow_step_among_many_is_not_lost() -> None:
    [row] = _of_steps(steps([900 if step == 777 else 100 for step in range(1000)]))
    text = without_colour(lines(Page("", "", "", (), [row]), width=80))
    assert text.count("█") == 1
    assert text.count("▂") > 20
    assert "step 782 is the longest" in text


def test_what_to_change_begins_with_the_headline_of_the_findings() -> None:
    text = " ".join(drawn(page()))
    assert "What to change: Up to 20.0\u00a0ms of 100\u00a0ms (20%): the process makes each batch;" in text
    second = next(line for line in drawn(page(), width=100) if line.endswith("HOST002"))
    assert second.startswith("note, likely  0.500 – 5.00\u00a0ms   `aten::item` waits at `train.py:12`  ")


def test_what_costs_no_time_has_no_line() -> None:
    text = drawn(page(advice=Advice((), 1e8)))
    assert "What to change: No rule finds anything that costs time." in text
    assert any(line.startswith("The largest loss is data loading") for line in text)


def test_short_tables_have_shares_and_bars() -> None:
    text = drawn(page())
    assert next(line for line in text if line.startswith("Operators")).split() == [
        "Operators",
        "calls",
        "time",
        "share",
    ]
    assert next(line for line in text if line.startswith("aten::mm")).endswith(
        "1,200  30.0\u00a0ms  30.0%  " + "━" * 40
    )
    assert "<0.1%" in next(line for line in text if line.startswith("gemm<128"))


def test_remarks_and_what_to_type_next() -> None:
    text = drawn(page())
    assert "! Something is odd." in text
    assert "· Something else." in text
    assert text[-1] == "kinetoscope show operators run.pt.trace.json   all operators"


@pytest.mark.parametrize("width", [60, 80, 100, 200, 1 << 30])
def test_it_never_leaves_its_width(width: int) -> None:
    assert max(cells(line) for line in drawn(page(), width=width)) <= min(width, 100)
    assert len(drawn(page(), width=width)) <= 46


def test_nothing_of_a_trace_acts_on_the_terminal() -> None:
    evil = replace(
        DIGEST,
        name=EVIL,
        facts=(EVIL,),
        tops=(BarsBlock(EVIL, [Bar(EVIL, "host", 1, 1.0, name=EVIL, calls=1)]),),
        health=(Note("ODD", EVIL),),
    )
    finding = Finding(code="DATA001", severity="note", message=EVIL, stake=Stake(1.0, 2.0), step=10.0)
    made = page(evil, Advice((finding,), 10.0))
    plain = without_colour(lines(made, width=90))
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", plain)
    assert plain.count("\\x1b]0;owned\\x07[bold]x[/bold]\\u202e") >= 4
    assert "\x1b]" not in with_colour(lines(made, width=90))
