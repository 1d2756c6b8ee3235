"""What was promised is held against what came."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.finding import Finding, Severity, Stake
from kinetoscope.compare.delivery import RunFacts, delivered, delivery, delivery_of_advice
from kinetoscope.compare.diff.programs import Program
from kinetoscope.reading import read


def finding(code: str, low: float, high: float, key: str = "", severity: Severity = "warning") -> Finding:
    return Finding(
        code=code, severity=severity, message=f"{code} is wrong.", stake=Stake(low, high), step=1000.0, key=key
    )


def advice(step: float, *findings: Finding) -> Advice:
    return Advice(findings, step)


@pytest.mark.parametrize(("step", "outcome"), [(850, "as promised"), (950, "less"), (700, "more"), (1100, "less")])
def test_one_finding_is_held_against_the_step(step: float, outcome: str) -> None:
    found = delivered(
        advice(1000, finding("DATA001", 100, 200), finding("HOST001", 10, 20)), advice(step, finding("HOST001", 9, 19))
    )
    assert [each.code for each in found.gone] == ["DATA001"]
    assert (found.low, found.high, found.brought, found.outcome) == (100, 200, 1000 - step, outcome)


def test_several_at_once_share_what_came() -> None:
    before = advice(1000, finding("DATA001", 100, 200), finding("HOST001", 50, 80), finding("DEVICE001", 30, 40))
    frame = delivery_of_advice(["a", "b"], [before, advice(800, finding("DEVICE001", 30, 40))]).frame
    assert frame.select(
        "code", "promised_low", "together", "together_low", "together_high", "brought", "outcome"
    ).rows() == [
        ("DATA001", 100, 2, 150, 280, 200, "as promised"),
        ("HOST001", 50, 2, 150, 280, 200, "as promised"),
    ]


def test_no_more_than_the_step_is_promised() -> None:
    found = delivered(advice(1000, finding("A1", 400, 800), finding("A2", 300, 700)), advice(300))
    assert (found.low, found.high) == (700, 1000)


def test_a_finding_that_moved_to_another_line_is_not_gone() -> None:
    before = advice(
        1000, finding("HOST002", 100, 200, key="train.py:12"), finding("HOST002", 50, 60, key="train.py:40")
    )
    after = advice(900, finding("HOST002", 90, 190, key="train.py:14"))
    assert [each.key for each in delivered(before, after).gone] == ["train.py:12"]
    assert not delivered(before, advice(1000, *before.findings)).gone
    moved = advice(1000, finding("HOST002", 1, 2, key="x"), finding("HOST002", 1, 2, key="y"))
    assert not delivered(before, moved).gone


def test_what_promises_no_time_has_no_row() -> None:
    assert not delivered(advice(1000, finding("RECORDING001", 0, 0, severity="note")), advice(900)).gone


def test_each_run_is_held_against_the_next() -> None:
    frame = delivery_of_advice(
        ["a", "b", "c"], [advice(1000, finding("A1", 1, 2)), advice(900, finding("A2", 3, 4)), advice(800)]
    ).frame
    assert frame.select("run", "next", "code").rows() == [("a", "b", "A1"), ("b", "c", "A2")]


H100, MI300X = (Program("", frozenset(), frozenset(["mm"]), (name,), True) for name in ("H100", "MI300X"))
FAST, SLOW = (100.0, 101.0, 99.0, 100.0, 100.5, 99.5), (200.0, 201.0, 199.0, 200.0, 200.5, 199.5)
NOISY = (100.0, 300.0, 150.0, 250.0)


def facts(program: Program, steps: tuple[float, ...], kernel: float = 0.0, shown: str = "") -> RunFacts:
    return RunFacts(program, steps, {"fmha": kernel}, {("DEVICE001", ""): shown} if shown else {})


@pytest.mark.parametrize(
    ("before", "after", "status", "outcome"),
    [
        (facts(H100, SLOW), facts(H100, FAST), "gone", "as promised"),
        (facts(H100, SLOW), facts(MI300X, FAST), "gone", "void"),
        (facts(H100, SLOW), facts(Program("", frozenset(), frozenset(["mm"]), (), False), FAST), "gone", "void"),
        (facts(Program("a.py", frozenset(), frozenset()), SLOW), facts(Program("b.py", frozenset(), frozenset()), FAST),
         "gone", "void"),
        (facts(H100, NOISY), facts(H100, NOISY[::-1]), "gone", "noise"),
        (facts(H100, SLOW, 60, "fmha"), facts(H100, FAST, 58), "still runs", "void"),
        (facts(H100, SLOW, 60, "fmha"), facts(H100, FAST, 2), "gone", "as promised"),
    ],
)  # fmt: skip
def test_nothing_is_credited_that_no_change_of_the_program_brought(
    before: RunFacts, after: RunFacts, status: str, outcome: str
) -> None:
    said = [advice(200, finding("DEVICE001", 50, 150)), advice(100)]
    row = delivery_of_advice(["a", "b"], said, [before, after]).frame.row(0, named=True)
    assert (row["status"], row["outcome"]) == (status, outcome)


@pytest.mark.slow
def test_data_loading_delivers_what_was_promised(shared_traces: Path) -> None:
    runs = [read(str(shared_traces / "resnet50_v100" / f"num_workers_{n}")) for n in (0, 4)]
    rows = delivery(runs).frame.to_dicts()
    loading = next(row for row in rows if row["code"] == "DATA001")
    assert loading["promised_low"] > 0
    assert loading["outcome"] == "as promised"
    assert loading["brought"] == pytest.approx(31_169_850, abs=1)


def test_what_is_mostly_gone_counts_with_what_is_gone_of_it() -> None:
    before = advice(1000, finding("DATA001", 300, 400))
    found = delivery_of_advice(["a", "b"], [before, advice(690, finding("DATA001", 20, 30))]).frame
    assert found.select("status", "promised_low", "promised_high", "brought", "outcome").rows() == [
        ("mostly gone", 270, 380, 310, "as promised")
    ]
    assert not delivered(before, advice(900, finding("DATA001", 200, 300))).gone
