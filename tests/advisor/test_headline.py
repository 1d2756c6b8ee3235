"""The first finding in a sentence, how severe and how sure findings are, and their order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.advisor.finding import Confidence, Finding, Stake, first_sentence
from kinetoscope.cli import main
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.findings import page
from kinetoscope.reading import read
from tests.catalog.samples import required

MS = 1e6


def finding(low: float, high: float, message: str = "It is slow. By much.", confidence: Confidence = "high") -> Finding:
    stake = Stake(low * MS, high * MS)
    return Finding(message, stake, code="X001", confidence=confidence).with_stake(stake, 100 * MS, "critical")


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (finding(9.3, 49, "All ranks wait for rank 0, which copies longer. They wait 30 ms."),
         "Up to 49.0 ms of 100 ms (49%): all ranks wait for rank 0, which copies longer; 9.30 ms of it is sure."),
        (finding(0, 14), "Up to 14.0 ms of 100 ms (14%): it is slow; none of it is sure."),
        (finding(5, 5), "5.00 ms of 100 ms (5%): it is slow."),
        (finding(5, 5, "SGD is slow."), "5.00 ms of 100 ms (5%): SGD is slow."),
        (finding(5, 5, "Python goes on."), "5.00 ms of 100 ms (5%): Python goes on."),
        (finding(0.5, 2), "No finding costs more than 3% of a step."),
        (finding(0, 0), "No rule finds anything that costs time."),
        (replace(finding(0, 0), severity="critical"), "It is slow."),
    ],
)  # fmt: skip
def test_the_headline_is_the_first_finding(found: Finding, sentence: str) -> None:
    assert Advice((found,), 100 * MS).headline.replace("\u00a0", " ") == sentence


def test_without_steps_the_first_finding_leads_whatever_it_costs() -> None:
    found = finding(0, 0, "Memory grows on `cuda:0`. It does.")
    assert Advice((found,), 0.0).headline == "Memory grows on `cuda:0`."
    assert Advice((), 0.0).headline == "No rule could be asked: there is no time of a program to examine."


def test_a_name_may_hold_full_stops() -> None:
    assert first_sentence("`a. b` in `train.py:3` waits, 1.5 times. Then more.") == (
        "`a. b` in `train.py:3` waits, 1.5 times"
    )


@pytest.mark.parametrize(
    ("low", "high", "confidence", "words"),
    [
        (20, 30, "high", ("critical", "sure")),
        (3, 30, "medium", ("warning", "likely")),
        (1.5, 47, "high", ("warning", "likely")),
        (0, 47, "high", ("note", "likely")),
        (1.5, 19, "high", ("note", "likely")),
        (30, 40, "low", ("note", "guess")),
    ],
)
def test_severity_and_certainty(low: float, high: float, confidence: Confidence, words: tuple[str, str]) -> None:
    found = finding(low, high, confidence=confidence)
    assert (found.severity, found.certainty) == words


def test_findings_come_in_the_order_of_what_is_shown() -> None:
    every = [finding(0, 90), finding(4, 30), finding(22, 25), finding(5, 6), finding(0, 0)]
    shown = [(each.severity, each.stake.high / MS) for each in sorted(every, key=lambda each: each.order)]
    assert shown == [("critical", 25), ("warning", 30), ("warning", 6), ("note", 90), ("note", 0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["traces/owlv2_h100", "traces/mtia", "traces/dlrm_ddp_v100_8rank", "samples/serving/sglang_prefilldecode"]
)
def test_all_faces_say_the_same_first(
    name: str, shared_traces: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shared_traces.parent / name
    required(path)
    monkeypatch.setenv("COLUMNS", "240")
    job = read(str(path))
    advice = advise(job)
    assert page(job, ALL, {}).sentence == advice.headline
    assert " ".join(str(advice).split()).startswith(" ".join(advice.headline.split()))
    for verb in ("advise", "summary"):
        assert main([verb, str(path)]) == 0
        assert " ".join(advice.headline.split()) in " ".join(capsys.readouterr().out.split())
