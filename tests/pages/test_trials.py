"""The page of what came of trying: what it says in each state, and that nothing in it is markup or too wide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kinetoscope.notes import Note
from kinetoscope.pages.answers.trial_words import duration, percent, sentence
from kinetoscope.pages.answers.trials import of_tried
from kinetoscope.pages.blocks import CodeBlock, NoteBlock
from kinetoscope.schema import Result
from kinetoscope.screens.terminal import lines
from kinetoscope.views.terminal.lines import width_of, without_colour
from tests.sentences import agrees, same
from tests.tried import FAILED, KEPT, NONE_KEPT, PATCH, STATES

SENTENCES = {
    "empty": "Nothing was tried: no change that is known here applies to the program.",
    "kept": "A step takes 28.9 ms instead of 84.5 ms, 66% less (95%: 64 to 68%), with `workers`, `threads` and"
    " `fused`.",
    "none kept": "Nothing that was tried makes the steps shorter. A step takes 84.5 ms.",
    "loss differs": "Nothing that was tried makes the steps shorter and keeps the loss: with `channels_last` it is"
    " another one. A step takes 84.5 ms.",
    "all failed": "Nothing could be measured: 1 trial that was run failed. A step takes 84.5 ms.",
    "none applies": "Nothing was tried: no change that is known here applies to the program. A step takes 84.5 ms.",
    "not measured": "Nothing could be measured: two runs of the program as it is differ by 31 %, so no gain could"
    " be seen.",
    "stopped": "`workers`, `threads` and `fused` made the steps shorter; together they were not measured.",
    "one kept": "A call of the model takes 31.2 ms instead of 84.5 ms, 63% less (95%: 60 to 66%), with `workers`.",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_first_sentence_says_what_came_of_it(name: str) -> None:
    assert sentence(STATES[name]).replace("\u00a0", " ") == SENTENCES[name]


def test_without_a_gain_in_the_end_none_is_claimed() -> None:
    said = sentence(replace(KEPT, step_after=KEPT.step, change=0.001, change_low=-0.01, change_high=0.02))
    assert "less" not in said.replace("no less", "")


@pytest.mark.parametrize("name", STATES)
def test_each_number_of_the_sentence_is_a_cell(name: str) -> None:
    tried = STATES[name]

    def ask(analysis: str, _: Mapping[str, Any]) -> Result:
        return {"try": tried.result}[analysis]

    said = sentence(tried)
    numbers = [each for each in said.quantities if isinstance(each.value, int | float)]
    assert all(agrees(each) and each.source is not None for each in numbers)
    assert all(same(each.source.look_up(ask), each.value) for each in numbers if each.source is not None)
    if re.search(r"\d", re.sub("`[^`]*`", "", said)):
        assert said.quantities


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", STATES)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    drawn = list(lines(of_tried(replace(STATES[name], patch="", edits=())), width=width))
    assert max(map(width_of, drawn)) <= width


def test_a_narrow_terminal_keeps_step_change_and_outcome() -> None:
    drawn = without_colour(lines(of_tried(KEPT), width=60)).replace("\u00a0", " ")
    assert re.search(r"✓ workers\+threads +31\.2 ± 2\.5 ms +−63% +kept\n", drawn)
    assert re.search(r"✗ compile +failed\n", drawn)
    assert "memory" not in drawn.splitlines()[7]


def test_what_was_not_run_is_grouped_by_reason() -> None:
    block = next(each for each in of_tried(KEPT).blocks if isinstance(each, NoteBlock) and each.title == "Not run")
    assert block.text.splitlines()[1:] == [
        "it changes the training; --allow batch-size tries it: batch-size",
        "nothing to change: set_to_none, anomaly, inference",
        "no device: tf32, cudnn_benchmark",
    ]


def test_the_patch_is_code_on_each_face() -> None:
    page = of_tried(KEPT)
    assert CodeBlock("To keep it", PATCH) in page.blocks
    assert f"## To keep it\n\n```diff\n{PATCH}```" in page.to_markdown()
    assert "<pre" in page._repr_html_()
    assert "@@ -12,3 +12,3 @@" in str(page)


def test_without_a_patch_the_edits_are_said_in_words() -> None:
    assert (
        CodeBlock("To keep it", "workers+threads: give the loader workers\nfused: fused=True")
        in of_tried(replace(KEPT, patch="")).blocks
    )


def test_what_a_program_says_is_no_markup() -> None:
    page = of_tried(STATES["hostile"])
    assert "\x1b" not in str(page)
    assert "\u202e" not in str(page)
    markdown = page.to_markdown()
    for line in re.sub(r"(?ms)^(`{3,})diff$.*?^\1$", "", markdown).splitlines():
        outside = re.sub(r"(?<!\\)`[^`]*`", "", line)
        assert "<script" not in outside
        assert "@all" not in outside
    assert "\n# heading" in markdown.partition("````diff")[2].partition("````\n")[0]
    assert "<script" not in page._repr_html_()


def test_a_result_shows_itself_as_its_page() -> None:
    assert str(KEPT) == str(of_tried(KEPT))
    assert KEPT._repr_html_() == of_tried(KEPT)._repr_html_()
    assert "no working C++ compiler" in KEPT._repr_html_()


def test_what_stopped_it_is_a_warning_where_the_sentence_does_not_say_it() -> None:
    assert next(Note.of(note).code for note in of_tried(STATES["stopped"]).cannot) == "STOPPED"
    assert of_tried(STATES["not measured"]).cannot == ()


def test_a_table_without_a_promise_has_no_column_of_it() -> None:
    assert "promised" not in str(NONE_KEPT)
    assert "promised" in str(replace(NONE_KEPT, trials=(FAILED,)))


@pytest.mark.parametrize(("share", "text"), [(0.631, "63%"), (0.0995, "10%"), (0.042, "4.2%"), (-0.074, "−7.4%")])
def test_shares_have_as_many_digits_as_a_measurement(share: float, text: str) -> None:
    assert percent(share) == text


@pytest.mark.parametrize(("seconds", "text"), [(48.2, "48 s"), (171, "3 min"), (7500, "2 h 5 min")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
