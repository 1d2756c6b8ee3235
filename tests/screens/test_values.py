"""What a job, a summary, advice, a difference and a gate show in a cell."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.commands import call_of
from kinetoscope.advisor.finding import Evidence, Finding, Stake
from kinetoscope.notes import Note
from kinetoscope.screens.html import prose
from kinetoscope.screens.values import MAX_FINDINGS, advice_html
from tests import drawn
from tests.cli.run import MLP, RANKS

EVIL = '"><script>alert(1)</script><img src=x onerror=y>`<b>`&\x1b[31m\u202e'


def texts(html: str) -> str:
    """The text that a reader sees, and that no tag runs or loads anything."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert tag not in ("script", "img", "link", "iframe", "style"), tag
            assert not [name for name, _ in attrs if name.startswith("on") or name in ("href", "src")]

        def handle_data(self, data: str) -> None:
            found.append(data)

    Reader().feed(html)
    return " ".join(found)


def test_a_job_says_what_was_recorded_and_what_to_call_next() -> None:
    said = texts(kinetoscope.read(RANKS)._repr_html_())
    assert "2 ranks" in said
    assert "A step takes" in said
    assert "kinetoscope.summary(job)" in said
    assert "kinetoscope.rank_balance(job)" in said


def test_a_remark_is_made_once(tmp_path: Path) -> None:
    for rank in (0, 2):
        drawn.written(tmp_path / f"rank{rank}.json", drawn.op("aten::mm", 0, 10))
    assert texts(kinetoscope.read(tmp_path)._repr_html_()).count("Ranks missing in between: 1.") == 1


def test_a_large_job_is_shown_by_its_first_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinetoscope.screens.values.READ_FOR_A_CELL", (1, 1 << 40))
    assert "2 traces in all; this is about rank 0 alone." in texts(kinetoscope.read(RANKS)._repr_html_())


def test_a_job_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    job = kinetoscope.read(drawn.written(tmp_path / "trace.json", drawn.op("aten::mm", 0, 10)))
    (tmp_path / "trace.json").unlink()
    assert "trace.json" in texts(job._repr_html_())


def test_a_summary_has_the_sentences_of_the_command_line() -> None:
    summary = kinetoscope.summary(MLP)
    said = texts(summary._repr_html_())
    for sentence in (summary.sentence, "Operators by host time", *summary.facts):
        assert sentence in said


def finding(message: str, **facts: object) -> Finding:
    place = Evidence("seen here", "idle_breakdown", {"by": "stream", "min_gap": "1us"}, 1000, 2000)
    made = Finding(message, Stake(1e6, 3e6), "- a\n+ b", "A reason.", evidence=(place,), code="HOST001")
    return made.with_stake(made.stake, 1e7, "critical")


def test_advice_is_numbered_and_gives_reason_change_and_call() -> None:
    html = advice_html(Advice((finding("`aten::to` waits. It does."),), 1e7))
    said = texts(html)
    assert html.count("<ol>") == 1
    assert "<b><code>aten::to</code> waits.</b> It does." in html
    assert "1.00 – 3.00" in said
    assert "A reason." in said
    assert "- a" in said
    assert "select=kinetoscope.Selection(time=(1000, 2000))" in said


def test_the_call_of_an_evidence_works() -> None:
    job = kinetoscope.read(MLP)
    place = Evidence("", "operators", {"group_by": "shapes"}, 0, 10**12)
    answer = eval(call_of(place), {"kinetoscope": kinetoscope, "job": job})  # noqa: S307 - it is what a reader types
    assert answer.analysis == "operators"


def test_more_findings_are_counted() -> None:
    many = Advice((finding("Slow."),) * (MAX_FINDINGS + 3), 1e7)
    assert f"… 3 more of {MAX_FINDINGS + 3} findings" in texts(advice_html(many))


def test_what_a_trace_says_is_only_ever_text() -> None:
    assert "<code>&lt;b&gt;</code>" in prose(EVIL)
    texts(advice_html(Advice((finding(EVIL),), 1e7, (Note("EVIL", EVIL),))))


def test_a_comparison_has_its_sentence_and_the_fall(tmp_path: Path) -> None:
    runs = []
    for n in (1, 2):
        (tmp_path / str(n)).mkdir()
        step = drawn.annotation("ProfilerStep#1", 0, 50 * n)
        runs.append(drawn.job(tmp_path / str(n), step, drawn.op("aten::mm", 5, 20 * n)))
    difference = kinetoscope.diff(runs[0], runs[1])
    said = texts(difference._repr_html_())
    assert difference.sentence in said
    for label in ("step before", "Host operators", "step now", "aten::mm"):
        assert label in said
    assert repr(difference).count("\n") == 0
    assert str(difference).startswith(difference.sentence[:40])
    gate = kinetoscope.gate(runs[0], runs[1])
    assert "step_time" in texts(gate._repr_html_())
    assert repr(gate).startswith("<Gate of 1 metric: The gate ")
