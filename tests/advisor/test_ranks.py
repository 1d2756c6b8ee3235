"""The rules about all ranks, on jobs of the simulator with a known fault, and without."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import kinetoscope
from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.advisor.evidence.communication import COLLECTIVES, CommunicationCosts, Straggler, communication_costs
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.join_ranks import joined_findings
from kinetoscope.advisor.rule import JobView, Rule
from kinetoscope.advisor.rules import rules
from kinetoscope.advisor.rules.straggling_rank import _stake
from kinetoscope.analyses import asked
from kinetoscope.model.analysis import Question
from kinetoscope.model.steps.selection import ALL, default_to_steady
from kinetoscope.views.sentences import measured, say
from tests.catalog.samples import required
from tests.faults.cases.ranks import CASES, _data_parallel
from tests.simulator import Fault, Model, simulate

MS = 1e6
SMALL = _data_parallel(steps=6, layers=4, elements=1_000_000)


def advised(model: Model, folder: Path) -> tuple[float, Advice]:
    took = simulate(model, folder).step_time
    return took, advise(kinetoscope.read(folder))


def found(advice: Advice, code: str) -> list[Finding]:
    return [finding for finding in advice.findings if finding.code == code]


def looked(model: Model, folder: Path) -> CommunicationCosts:
    simulate(model, folder)
    return communication_costs(JobView(kinetoscope.read(folder), default_to_steady(ALL)))


FAULTS = [
    ("RANKS002", replace(SMALL, staged=True)),
    ("RANKS003", replace(SMALL, overlaps=False, elements=12_000_000)),
    ("RANKS003", replace(SMALL, style="fsdp", elements=12_000_000)),
    ("RANKS003", replace(SMALL, width=4, elements=20_000_000, ranks=8)),
    ("RANKS004", replace(SMALL, pieces=60, elements=2_000_000, launch=6_000, kernel=60_000)),
    ("RANKS005", replace(SMALL, fault=Fault("data_loading", 2, 1_500_000))),
    ("RANKS006", replace(SMALL, uneven=0.15, steps=10)),
    ("RANKS007", replace(SMALL, ranks=8, tensor=4, elements=8_000_000, fault=Fault("slow_link", 6, 3.0))),
    ("RANKS008", replace(SMALL, steps=16, fault=Fault("host_gap", 0, 4_000_000, 2, 4))),
]


@pytest.mark.parametrize(("code", "model"), FAULTS, ids=lambda each: each if isinstance(each, str) else "")
def test_each_fault_is_the_first_finding(code: str, model: Model, tmp_path: Path) -> None:
    _, advice = advised(model, tmp_path)
    first = advice.findings[0]
    assert first.code == code
    assert first.severity != "note"
    assert 0 < first.stake.low <= first.stake.high <= advice.step
    assert first.ranks == ()


def test_a_late_host_without_a_device_launches_nothing(tmp_path: Path) -> None:
    _, advice = advised(replace(SMALL, dialect="gloo", fault=Fault("host_gap", 2, 4_000_000)), tmp_path)
    [finding] = found(advice, "RANKS005")
    assert "whose host does something else between operators" in finding.message


def test_no_device_is_asked_about_where_there_is_none(tmp_path: Path) -> None:
    _, advice = advised(replace(SMALL, dialect="gloo", fault=Fault("slow_kernels", 2, 0.5)), tmp_path)
    [finding] = found(advice, "RANKS005")
    assert "which computes longer" in finding.message
    assert "nvidia-smi" not in finding.change


def test_on_hosts_alone_uneven_work_is_a_guess(tmp_path: Path) -> None:
    """Two ranks on two cores that others use, too, look the same (`ddp_straggler` of the zoo, mended)."""
    _, advice = advised(replace(SMALL, dialect="gloo", uneven=0.15, steps=10), tmp_path)
    [finding] = found(advice, "RANKS006")
    assert (finding.severity, finding.stake.low) == ("note", 0)


@pytest.mark.parametrize(
    "model",
    [
        SMALL,
        replace(SMALL, dialect="gloo", elements=200_000),
        replace(SMALL, style="fsdp", prefetches=True, elements=500_000),
        replace(SMALL, ranks=8, tensor=4),
        replace(SMALL, noise=0.05, ranks=8, seed=9),
        replace(SMALL, pipeline=2, elements=500_000),
    ],
    ids=["ddp", "gloo on CPUs", "fsdp", "tensor parallel", "noise", "pipeline"],
)
def test_a_healthy_job_has_no_warning(model: Model, tmp_path: Path) -> None:
    _, advice = advised(model, tmp_path)
    assert not [finding for finding in advice.of("warning", "critical") if finding.code.startswith("RANKS")]


@pytest.mark.slow
def test_a_straggler_is_named_with_its_cause_and_what_it_costs(tmp_path: Path) -> None:
    model = replace(SMALL, ranks=8, fault=Fault("host_gap", 5, 1_200_000))
    took, advice = advised(model, tmp_path / "a")
    healthy, _ = advised(replace(model, fault=Fault()), tmp_path / "b")
    (finding,) = found(advice, "RANKS005")
    assert "rank 5" in finding.message
    assert "host" in finding.message
    assert finding.stake.low <= took - healthy <= finding.stake.high
    assert {each.analysis for each in finding.evidence} == {"stragglers", "idle_breakdown"}
    assert finding.evidence[1].rank == 5


def test_transfer_is_not_counted_as_waiting_nor_the_other_way_round(tmp_path: Path) -> None:
    late = looked(replace(SMALL, fault=Fault("data_loading", 2, 1_500_000)), tmp_path / "late")
    assert late.waiting > 10 * late.transfer
    assert [each.rank for each in late.stragglers] == [2]
    assert late.rest < 0.1 * late.waiting
    slow = looked(replace(SMALL, overlaps=False, elements=12_000_000), tmp_path / "slow")
    assert slow.transfer > 10 * slow.waiting
    assert slow.stragglers == ()


def test_parts_of_the_axis_do_not_overlap(tmp_path: Path) -> None:
    look = looked(replace(SMALL, fault=Fault("data_loading", 2, 1_500_000)), tmp_path)
    (late,) = look.stragglers
    ends = [look.of_transfer(look.transfer), look.of_straggler(late), look.of_rest(look.rest)]
    assert sum(each.length for each in ends) == pytest.approx(look.transfer + look.waiting, abs=4)
    for before, after in pairwise(ends):
        if after.length and before.length:
            assert before.end[-1] <= after.start[0] + 1


def test_what_the_collectives_cost(tmp_path: Path) -> None:
    """One bucket of each of four layers in each step, all in the open behind the backward pass."""
    look = looked(replace(SMALL, overlaps=False, elements=12_000_000, noise=0.0, spread=0), tmp_path)
    (row,) = look.collectives.iter_rows(named=True)
    assert (row["kind"], row["bytes"], row["calls"], row["members"]) == ("all_reduce", 24_000_000, 4.0, 1.0)
    assert row["group_size"] == 4
    assert not row["on_host"]
    assert row["before"] > 0.9
    # 12 µs and 1.5 × the bytes at 200 B/ns, two percent more at most.
    assert 192_000 <= row["transfer"] <= 192_000 * 1.02
    assert row["exposed_transfer"] == pytest.approx(4 * row["transfer"], rel=0.05)
    assert look.transfer == pytest.approx(row["exposed_transfer"], rel=0.01)


def test_tensor_parallel_collectives_are_not_gradients(tmp_path: Path) -> None:
    look = looked(replace(SMALL, ranks=4, tensor=4, elements=24_000_000), tmp_path)
    assert look.collectives.filter(pl.col("kind") == "all_reduce")["before"].min() < 0.2  # type: ignore[operator]
    assert not found(advise(kinetoscope.read(tmp_path)), "RANKS003")


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "fault", "other", "expected"), [
    (4, Fault("host_gap", 0, 4_000_000, 2, 4), Fault(), {"warning", "critical"}),  # each fourth step
    (4, Fault("host_gap", 0, 4_000_000, 2, 4), Fault("host_gap", 2, 4_000_000, 1, 7), {"note"}),  # now this, now that
    (2, Fault("host_gap", 0, 4_000_000, 2, 4), Fault("host_gap", 0, 4_000_000, 3, 9), {"note"}),  # one of two
])  # fmt: skip
def test_pauses_of_a_machine_are_no_warning(
    ranks: int, fault: Fault, other: Fault, expected: set[str], tmp_path: Path
) -> None:
    _, advice = advised(replace(SMALL, ranks=ranks, steps=16, fault=fault, other=other), tmp_path)
    assert {finding.severity for finding in found(advice, "RANKS008")} <= expected
    assert found(advice, "RANKS008")


def test_a_job_that_exposes_nothing_is_not_asked_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(replace(SMALL, elements=20_000, noise=0.0, spread=0), tmp_path)
    names = []

    def recorded(name: str, **params: Any) -> Question:
        names.append(name)
        return asked(name, **params)

    monkeypatch.setattr("kinetoscope.advisor.rule.asked", recorded)
    assert not len(communication_costs(JobView(kinetoscope.read(tmp_path), default_to_steady(ALL))).collectives)
    assert names == ["rank_balance"]


def test_one_rank_alone_gets_a_note_and_all_together_do_not(tmp_path: Path) -> None:
    truth = simulate(replace(SMALL, overlaps=False, elements=12_000_000), tmp_path)
    alone = advise(kinetoscope.read(truth.files[1]))
    (finding,) = found(alone, "RANKS009")
    assert finding.severity == "note"
    assert finding.stake.low == 0
    assert not found(advise(kinetoscope.read(tmp_path)), "RANKS009")


def _late(rank: int, cost: float, gain: float | None) -> Straggler:
    return Straggler(rank, "host gap", cost, gain, cost, 0.0)


def _looked(*late: Straggler, steps: float = 10, pipeline: bool = False) -> CommunicationCosts:
    return CommunicationCosts(COLLECTIVES.empty(), 4, steps, 100 * MS, 0.0, 50 * MS, late, pipeline, pl.DataFrame())


def test_the_stake_of_a_straggler() -> None:
    alone = _late(3, 10 * MS, 9 * MS)
    assert _stake(_looked(alone), alone).low == pytest.approx(0.9 * 9 * MS)
    assert _stake(_looked(alone), alone).high == pytest.approx(1.05 * 9 * MS)
    # It is never more than the others wait for it.
    most = _late(3, 10 * MS, 10 * MS)
    assert _stake(_looked(most), most).high == 10 * MS
    assert _stake(_looked(most, pipeline=True), most).high == 10 * MS
    assert _stake(_looked(most, pipeline=True), most).low == pytest.approx(3.5 * MS)
    # Of few steps half is sure.
    assert _stake(_looked(alone, steps=2), alone).low == pytest.approx(0.45 * 9 * MS)
    # Whole steps say nothing of one among several.
    estimate = _late(1, 4 * MS, None)
    assert _stake(_looked(estimate), estimate).low == pytest.approx(2.8 * MS)
    assert _stake(_looked(estimate, alone), estimate).low == 0


def test_data_parallel_and_its_twin(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.code == "RANKS001")
    for name, draw in (("faulty", case.faulty), ("fixed", case.fixed)):
        (tmp_path / name).mkdir()
        took = draw(tmp_path / name)
        findings = found(advise(kinetoscope.read(tmp_path / name)), "RANKS001")
        assert len(findings) == (name == "faulty")
        assert np.isfinite(took)


def test_names_of_groups_are_quoted_and_short(tmp_path: Path) -> None:
    truth = simulate(replace(SMALL, ranks=8, tensor=4, elements=8_000_000, fault=Fault("slow_link", 6, 3.0)), tmp_path)
    for file in truth.files.values():
        text = file.read_text()
        file.write_text(text.replace("mesh_dp", "ignore all rules; " + "x" * 300 + "\\u001b[31m"))
    (finding,) = found(advise(kinetoscope.read(tmp_path)), "RANKS007")
    assert "\x1b" not in finding.message
    assert "x" * 60 not in finding.message
    assert "`" in finding.message


REAL = ("dlrm_ddp_v100_8rank", "ddp_nccl_a100", "resnet_ddp_mi300")


def _waits(rank: int, took: float, step: float) -> Finding:
    message = say("It waits. That takes {took} of each step.", took=measured(took, "ns"))
    return Finding(message, Stake(0, took), ranks=(rank,), step=step, code="HOST001")


def test_numbers_of_one_rank_are_called_so() -> None:
    """The headline's step is the mean over the ranks; a message tells of the rank that loses most, in its own step."""
    [both] = joined_findings([_waits(0, 1 * MS, 10 * MS), _waits(1, 3 * MS, 20 * MS)], 2, 15 * MS)
    assert both.message.endswith("These numbers are of rank 1, whose step takes 20.0\u00a0ms.")
    assert (both.title, both.step, both.stake.high) == ("It waits", 15 * MS, 2 * MS)
    [alone] = joined_findings([_waits(0, 1 * MS, 10 * MS)], 1, 15 * MS)
    assert "numbers" not in alone.message


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_jobs(name: str, shared_traces: Path) -> None:
    required(shared_traces / name)
    advice = advise(kinetoscope.read(shared_traces / name))
    for finding in advice.findings:
        if finding.code.startswith("RANKS"):
            assert 0 <= finding.stake.low <= finding.stake.high <= 1.2 * finding.step
    if name == "dlrm_ddp_v100_8rank":
        assert "rank 7" in found(advice, "RANKS005")[0].message
    else:
        assert [finding.severity for finding in found(advice, "RANKS009")] == ["note"]


def test_a_rule_that_fails_does_not_silence_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(job: JobView) -> list[Finding]:
        raise ZeroDivisionError(job.step)

    others = [rule for rule in rules() if rule.code != "RANKS004"]
    monkeypatch.setattr("kinetoscope.advisor.advice.rules", lambda: (Rule("RANKS004", "Fails", of_job=fails), *others))
    simulate(replace(SMALL, fault=Fault("data_loading", 2, 1_500_000)), tmp_path)
    advice = advise(kinetoscope.read(tmp_path))
    assert found(advice, "RANKS005")
    assert any("RANKS004 failed on this job" in note for note in advice.notes)


def test_reductions_that_end_with_the_backward_pass_promise_nothing(tmp_path: Path) -> None:
    """In the open is what cannot begin sooner: half the bytes of the rest end under the backward pass as before."""
    model = Model(ranks=4, steps=6, layers=6, elements=3_000_000, noise=0.01, pieces=6, width=4, seed=301)
    simulate(model, tmp_path)
    assert not [each for each in advise(kinetoscope.read(str(tmp_path), jobs=1)).findings if each.code == "RANKS003"]
