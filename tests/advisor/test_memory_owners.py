"""The rules about what memory is for at the peak of a snapshot, each with a twin that has nothing to report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import memory_peak, read
from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.finding import Finding
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.sentences.memory import memory_questions, memory_sentences
from kinetoscope.views.numbers import shown
from tests.snapshots.allocator import Settings
from tests.snapshots.process import Process
from tests.snapshots.stacks import python
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write

MIB = 1 << 20
LAYERS = Model(layers=6, width=256, batch=8, tokens=128, vocabulary=100)
WIDE = Model(layers=1, width=1024, batch=1, tokens=16, vocabulary=100)
LOGITS = Model(layers=1, width=64, batch=4, tokens=128, vocabulary=20_000)


def findings(folder: Path, process: Process, code: str) -> list[Finding]:
    path = write(folder / "memory.pickle", process.snapshot())
    return [each for each in advise(read(path, jobs=1)).findings if each.code == code]


def trained(model: Model, stacks: str = "python", total: int = 16 << 30, **how: Any) -> Process:
    process = Process(Settings(), total=total, stacks=stacks)
    process.record()
    training = Training(process, model, **how)
    training.build()
    training.run(3)
    return process


def test_optimizer_state_of_four_times_the_parameters(tmp_path: Path) -> None:
    [finding] = findings(tmp_path, trained(WIDE), "MEMORY010")
    message = finding.message.replace("\xa0", " ")
    assert "4.0 times the parameters. In 8 bits it takes 25.6 MB." in message
    assert finding.severity == "note"


def test_an_optimizer_without_state(tmp_path: Path) -> None:
    assert findings(tmp_path, trained(WIDE, optimizer="SGD"), "MEMORY010") == []


def test_activations_of_layers(tmp_path: Path) -> None:
    [finding] = findings(tmp_path, trained(LAYERS), "MEMORY011")
    message = finding.message.replace("\xa0", " ")
    assert message.startswith("Activations of 6 layers alike (`model.py:61`) take")
    assert "Checkpointing frees about" in message


def test_one_size_of_what_layers_take(tmp_path: Path) -> None:
    [finding] = findings(tmp_path, trained(LAYERS), "MEMORY011")
    job = read(tmp_path / "memory.pickle", jobs=1)
    row = memory_peak(job, group_by="use").frame.row(by_predicate=pl.col("name") == "activation", named=True)
    held = shown(row["repeats"] * row["each"], "bytes")
    assert f"Activations of 6 layers alike (`{row['line']}`) take {held} of the" in finding.message
    sentences = " ".join(memory_sentences(job, ALL, job.ask(memory_questions(ALL))))
    assert f"(6 × {shown(row['each'], 'bytes')}, `{row['line']}`)" in sentences


def test_layers_that_are_checkpointed(tmp_path: Path) -> None:
    assert findings(tmp_path, trained(LAYERS, checkpoint=True), "MEMORY011") == []


@pytest.mark.parametrize("stacks", ["python", "all"])
def test_logits_that_make_the_peak(tmp_path: Path, stacks: str) -> None:
    [finding] = findings(tmp_path, trained(LOGITS, stacks), "MEMORY012")
    message = finding.message.replace("\xa0", " ")
    assert message.startswith("The logits and their loss (`train.py:22`) take")
    assert findings(tmp_path, trained(WIDE, stacks), "MEMORY012") == []


def test_temporaries_of_the_optimizer_that_make_the_peak(tmp_path: Path) -> None:
    process = Process(Settings(), stacks="python")
    process.record()
    with process.at(python("_apply", "torch/nn/modules/module.py", 942)):
        process.alloc("_to_copy", 100 * MIB)
    with process.at(
        python("wrapper", "torch/optim/optimizer.py", 533), python("_multi_tensor_adam", "torch/optim/adam.py", 700)
    ):
        process.free(*(process.alloc("_foreach_sqrt", 10 * MIB) for _ in range(5)))
    with process.at(python("main", "train.py", 3)):
        process.alloc("empty", MIB)
    [finding] = findings(tmp_path, process, "MEMORY012")
    assert "Temporaries of the optimizer make the peak of `cuda:0`." in finding.message
    assert "fused=True" in finding.change


def inferring(*, graphs: bool) -> Process:
    """Forward passes of four layers: with a graph, which the output holds until the next one takes its place."""
    process = Process(Settings(), stacks="all")
    kept: list[Any] = []
    process.alloc("empty", 10 * MIB)  # the parameters
    for step in range(4):
        if step == 1:
            process.record()  # the graph of the pass before is there
        with process.at(python("main", "infer.py", 7)):
            made, hidden = [], None
            for _ in range(4):
                with process.module("model.py", 61):
                    new = process.alloc("addmm", 20 * MIB)
                    if graphs:
                        made.append(new)
                    elif hidden is not None:
                        process.free(hidden)
                    hidden = new
            (process.drop if graphs else process.free)(*kept)
            kept = made if graphs else [hidden]
    return process


def test_a_forward_pass_whose_graph_nobody_runs(tmp_path: Path) -> None:
    found = findings(tmp_path, inferring(graphs=True), "MEMORY014")
    [message] = [each.message.replace("\xa0", " ") for each in found]
    assert "They take 168 MB of the 178 MB in use at the peak of `cuda:0` (94%)." in message
    assert message.endswith(
        "83.9 MB of it are the graph of the forward pass before, which its output keeps until `infer.py:7` drops it."
    )
    assert "torch.inference_mode()" in found[0].change
    assert findings(tmp_path, inferring(graphs=True), "MEMORY011") == []
    row = memory_peak(read(tmp_path / "memory.pickle", jobs=1), group_by="use").frame.filter(name="activation")
    assert row.get_column("size").to_list() == [160 * MIB]  # before the history, too


def test_a_forward_pass_without_a_graph(tmp_path: Path) -> None:
    assert findings(tmp_path, inferring(graphs=False), "MEMORY014") == []
    assert findings(tmp_path, trained(LAYERS, stacks="all"), "MEMORY014") == []
    assert findings(tmp_path, trained(LAYERS, stacks="all"), "MEMORY011") != []
