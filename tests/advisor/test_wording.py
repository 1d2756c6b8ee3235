"""Advice is worded by what the program does, and does not ask for what is done already."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.wording import each_step, of_window
from kinetoscope.reading import read
from kinetoscope.views.sentences import Sentence, measured, say
from tests.advisor.views import STEP, findings, rank_view, steps
from tests.catalog.samples import SHARED, required
from tests.drawn import Event, annotation, kernel, launch, op, python

BACKWARD = op("autograd::engine::evaluate_function: MmBackward0", 100, 10)
ENGINE = annotation("step[DECODE bs=32]", 0, 2000)
OF_TRAINING = re.compile(r"\btrain|learning rate|backward|optimizer|epoch|batch in loader|grad", re.IGNORECASE)


def launching(count: int = 3, each: int = 30) -> list[Event]:
    """Steps in which the device waits for one launch after another."""
    events = steps(count)
    for n in range(count):
        for k in range(each):
            at = n * STEP + k * 30_000
            events += [op("aten::mm", at, 25_000), launch(at + 10_000, 5_000, n * each + k + 1)]
            events.append(kernel("gemm", at + 20_000, 2_000, n * each + k + 1))
    return events


def test_compiling_is_not_advised_where_code_is_compiled(tmp_path: Path) -> None:
    (plain,) = findings("HOST001", rank_view(tmp_path, *launching()))
    assert "- model = Model()" in plain.change
    (compiled,) = findings(
        "HOST001", rank_view(tmp_path, *launching(), op("Torch-Compiled Region: 0/0", 0, 20_000, tid=3))
    )
    assert "- torch.compile(model)" in compiled.change
    replay = [launch(5, 3, 901, name="cudaGraphLaunch", tid=3), kernel("gemm", 10, 5, 901, stream=9)]
    (graphs,) = findings("HOST001", rank_view(tmp_path, *launching(), *replay))
    assert "torch.compile" not in graphs.change


def test_how_steps_are_recorded_depends_on_the_program(tmp_path: Path) -> None:
    work = [op("aten::mm", 0, 50), launch(5, 5, 1), kernel("gemm", 20, 50, 1)]
    (inference,) = findings("RECORDING001", rank_view(tmp_path, *work))
    assert "model(batch)" in inference.change
    (training,) = findings("RECORDING001", rank_view(tmp_path, *work, BACKWARD))
    assert "train(batch)" in training.change
    (serving,) = findings("RECORDING001", rank_view(tmp_path, *work, ENGINE))
    assert "--steps-by" in serving.change
    (few,) = findings("RECORDING001", rank_view(tmp_path, *steps(2), *work, BACKWARD))
    assert "prof.step()" not in few.change, "steps are marked already"


def test_stacks_are_asked_for_only_where_there_are_none(tmp_path: Path) -> None:
    events = [*steps(4, 10_000_000), *(op("aten::mm", n * 10_000_000, 6_000_000) for n in range(4))]
    (bare,) = findings("HOST008", rank_view(tmp_path, *events))
    assert "with_stack=True" in bare.why
    (stacked,) = findings("HOST008", rank_view(tmp_path, *events, python("train.py(3): step", 0, 50)))
    assert "with_stack" not in stacked.why


@pytest.mark.parametrize(
    "name",
    ["traces/owlv2_h100", "traces/mtia", "samples/serving/sglang_prefilldecode", "samples/serving/vllm_decode_full"],
)
def test_what_does_not_train_is_not_told_how_to(name: str, shared_traces: Path) -> None:
    path = shared_traces.parent / name
    required(path)
    for finding in advise(read(str(path))).findings:
        assert not OF_TRAINING.search(f"{finding.message} {finding.why} {finding.change}"), finding


def test_where_no_steps_are_marked_a_sentence_speaks_of_the_window() -> None:
    copies = each_step(67, "copy", "copies")
    whole = say(
        "It waits {took} of each step, in {copies}; a step gains less.", took=measured(5.0, "ns"), copies=copies
    )
    said = of_window(whole)
    assert said == "It waits 5.00\u00a0ns of the window, in 67 copies in the window; the window gains less."
    assert isinstance(said, Sentence)
    assert [each.text for each in said.quantities] == ["5.00\u00a0ns", "67 copies in the window"]
    assert of_window("Code is loaded in the recorded steps, once.") == "Code is loaded in the window, once."
    assert of_window("`my::the step` takes 3 ms of the step.") == "`my::the step` takes 3 ms of the window."
    assert of_window("In 3 of 12 steps, a step before that.") == "In 3 of 12 steps, a step before that."


def test_of_a_recording_without_steps_no_finding_speaks_of_one() -> None:
    advice = advise(read(required(SHARED.parent / "samples" / "nsight" / "h100_2gpu_1s.sqlite")))
    assert advice.whole
    assert advice.findings
    assert not [each.message for each in advice if re.search(r"(each|a|an average) step\b", each.message)]
