"""Rules about element loops, embeddings, padding and copies: what they leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.advisor.rules.anomaly_detection import anomaly_detection
from kinetoscope.advisor.rules.dense_embedding_gradient import dense_embedding_gradient
from kinetoscope.advisor.rules.needless_copies import needless_copies
from kinetoscope.advisor.rules.padded_sequences import padded_sequences
from kinetoscope.advisor.rules.values_one_by_one import values_one_by_one
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing
from tests.advisor.test_host_rules import simulated
from tests.advisor.views import STEP, rank_view, steps
from tests.drawn import op
from tests.faults.cases.autograd import anomaly
from tests.faults.cases.causes import alike, counted, embedded, padding
from tests.faults.cases.host import large, on_host, training
from tests.faults.network import Network
from tests.faults.program import Program

CPU: dict[str, Any] = {"device": None}


@pytest.mark.parametrize(("elements", "found"), [(64, True), (12, False)])
def test_a_few_values_are_no_loop(elements: int, found: bool, tmp_path: Path) -> None:
    rank = simulated(tmp_path, training(on_host, after=counted(elements), precision="fp32"), **CPU)
    assert bool(list(values_one_by_one(rank))) is found


def test_loops_of_a_loader_are_the_loaders(tmp_path: Path) -> None:
    def body(p: Program, n: int) -> None:
        with p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            counted(64)(p, n)
        training(on_host, precision="fp32")(p, n)

    assert not list(values_one_by_one(simulated(tmp_path, body, **CPU)))


@pytest.mark.parametrize(("rows", "found"), [(40_000, True), (4_000, False)])
def test_a_table_that_a_batch_covers_needs_a_dense_gradient(rows: int, found: bool, tmp_path: Path) -> None:
    rank = simulated(tmp_path, embedded(rows, 2_000, 64, sparse=False), **CPU)
    assert bool(list(dense_embedding_gradient(rank))) is found


@pytest.mark.parametrize(("rows", "mode", "found"), [(40_000, 0, True), (4_000, 0, False), (40_000, 2, False)])
def test_a_bag_has_a_dense_gradient_too_unless_it_takes_the_greatest(
    rows: int, mode: int, found: bool, tmp_path: Path
) -> None:
    """Four bags of a recommender; `mode="max"` has no sparse gradient."""
    name = "aten::_embedding_bag_dense_backward"
    concrete = ["", "", "", "", "", str(rows), "False", str(mode), "", "-1"]
    args: dict[str, Any] = {
        "Input Dims": [[128, 32], [2_000], [2_000], [128], [128], *[[]] * 5],
        "Concrete Inputs": concrete,
    }
    events = [op(name, n * STEP + 1_000, STEP // 2, **args) for n in range(5)]
    findings = list(dense_embedding_gradient(rank_view(tmp_path, *steps(5), *events)))
    assert bool(findings) is found
    assert not found or "nn.EmbeddingBag(rows, width, sparse=True)" in findings[0].change


def test_a_dense_gradient_is_shown_where_it_is_computed(tmp_path: Path) -> None:
    """Operators of the optimizer on the whole table may take longer; where they are called from is no embedding."""
    rank = simulated(tmp_path, embedded(40_000, 2_000, 64, sparse=False), **CPU)
    [finding] = dense_embedding_gradient(rank)
    [shown] = finding.evidence
    assert shown.row is not None
    assert rank.trace.strings.label(int(rank.trace.name[shown.row])) == "aten::embedding_dense_backward"


def test_sequences_of_one_length_are_hardly_padded(tmp_path: Path) -> None:
    assert not list(padded_sequences(simulated(tmp_path, padding(lambda n: alike(20)), **CPU)))


@pytest.mark.parametrize(("following", "found"), [("aten::view", False), ("aten::transpose", True)])
def test_a_view_needs_the_copy(following: str, found: bool, tmp_path: Path) -> None:
    def body(p: Program, n: int) -> None:
        for _ in range(8):
            p.call("aten::transpose", 3, shapes=[[8, 64, 64], [], []])
            with p.op("aten::contiguous", 2, shapes=[[8, 64, 64], []]):
                p.call("aten::clone", 200, shapes=[[8, 64, 64], []])
            p.call(following, 3, shapes=[[8, 64, 64], []])
            p.call("aten::bmm", 300, shapes=[[8, 64, 64], [8, 64, 64]])

    assert bool(list(needless_copies(simulated(tmp_path, body, **CPU)))) is found


def test_stacks_of_anomaly_detection_are_told_from_computation(tmp_path: Path) -> None:
    """Half of the 90 µs in which each node of the forward pass writes its stack is likely to go, if they were seen."""
    body = anomaly(training(on_host, precision="fp32"))
    stakes = []
    for stacks in (False, True):
        rank = simulated(tmp_path, body, stacks=stacks, **CPU)
        [finding] = anomaly_detection(rank)
        stakes.append(finding.stake.low)
    written = rows_containing(rank.trace, ("): format_stack",), EventKind.PYTHON).sum() / rank.step_count
    assert stakes[1] - stakes[0] == pytest.approx(0.5 * 90_000 * written, rel=0.05)


def test_a_program_that_looks_for_nan_itself_has_no_anomaly_detection(tmp_path: Path) -> None:
    def body(p: Program, n: int) -> None:
        net = Network(p)
        large(net)
        net.backward()
        for _ in range(20):
            with p.op("aten::isnan", 3):
                p.call("aten::ne", 10)
            p.item()

    assert not list(anomaly_detection(simulated(tmp_path, body)))
