"""What allocations are for, told by stacks, passes, lifetimes and sizes, against what the program knows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from kinetoscope import read
from kinetoscope.model.memory.categories import CATEGORIES, PARAMETER, STATE, UNKNOWN, WORKSPACE
from kinetoscope.model.snapshot.owners import EVIDENCE, owners
from kinetoscope.model.snapshot.replay import history, level
from kinetoscope.model.snapshot.sites import stack_sites
from kinetoscope.model.trace.trace import Trace
from tests.conftest import ROOT
from tests.snapshots.allocator import Block, OutOfMemory, Settings
from tests.snapshots.process import Process
from tests.snapshots.stacks import python
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write

MIB = 1 << 20
SMALL = Model(layers=3, width=256, batch=2, tokens=128, vocabulary=1000)


def opened(path: Path) -> Trace:
    job = read(path, jobs=1)
    return job.trace(job.ranks[0])


def taken_of(folder: Path, process: Process) -> Trace:
    return opened(write(folder / "taken.pickle", process.snapshot()))


def told(trace: Trace) -> dict[int, tuple[str, str]]:
    """Category and evidence of what is in use at the end, by address."""
    past, owned = history(trace, 0), owners(trace, 0)
    assert past is not None
    assert owned is not None
    alive = np.flatnonzero(past.active_after(len(past.events) - 1))
    return {
        int(past.address[row]): (
            CATEGORIES[owned.category[row]],
            EVIDENCE[owned.evidence[row]] if owned.evidence[row] >= 0 else "",
        )
        for row in alive.tolist()
    }


def truth(training: Training) -> dict[str, set[int]]:
    def addresses(blocks: list[Block]) -> set[int]:
        return {block.address for block in blocks}

    return {
        "parameter": addresses(list(training.parameters.values())),
        "gradient": addresses(list(training.gradients.values())),
        "optimizer state": addresses([block for blocks in training.states.values() for block in blocks]),
    }


def trained(folder: Path, stacks: str, context: str, *, late: bool, until: str = "after_step") -> Training:
    """A training of which the third step ends where the snapshot is taken."""
    process = Process(Settings(), stacks=stacks)
    training = Training(process, SMALL)
    if not late:
        process.record(context)
    training.build()
    training.run(1)
    if late:
        process.record(context)
    training.run(1)

    def take(step: int) -> None:
        if step == 2:
            write(folder / "taken.pickle", process.snapshot())
            raise StopIteration

    setattr(training, until, take)
    with pytest.raises(StopIteration):
        training.run(1)
    return training


@pytest.mark.parametrize("context", ["all", "alloc"])
@pytest.mark.parametrize("stacks", ["all", "python"])
def test_everything_is_what_the_program_took_it_for(tmp_path: Path, stacks: str, context: str) -> None:
    training = trained(tmp_path, stacks, context, late=False, until="after_forward")
    trace = opened(tmp_path / "taken.pickle")
    known = told(trace)
    for category, addresses in truth(training).items():
        assert {known[address][0] for address in addresses} <= {category}
    rest = Counter(
        category
        for address, (category, _) in known.items()
        if not any(address in each for each in truth(training).values())
    )
    assert set(rest) <= {"activation", "workspace", "temporary", "input", "unknown"}
    assert rest["activation"] > 10 * SMALL.layers


@pytest.mark.parametrize("stacks", ["all", "python"])
def test_what_was_there_before_is_told_by_the_sizes_of_gradients(tmp_path: Path, stacks: str) -> None:
    training = trained(tmp_path, stacks, "all", late=True)
    trace = opened(tmp_path / "taken.pickle")
    known, real = told(trace), truth(training)
    size = {block.address: block.requested for block in training.parameters.values()}
    size |= {block.address: block.requested for blocks in training.states.values() for block in blocks}
    for category in ("parameter", "optimizer state"):
        by_size = sum(size[address] for address, (each, _) in known.items() if each == category)
        counters = (
            4 * len(training.states) if category == "optimizer state" else 0
        )  # of 4 bytes: no gradient is so small
        assert by_size == sum(size[address] for address in real[category]) - counters
    assert {how for category, how in known.values() if category == "parameter"} == {"size"}


def test_a_category_of_the_stack_says_so(tmp_path: Path) -> None:
    process = Process(Settings())
    process.record()
    taken = {}
    adam = "torch/optim/adam.py"
    cases = {
        "input": [python("__next__", "torch/utils/data/dataloader.py", 700)],
        "KV cache": [python("_allocate_kv_cache_tensors", "vllm/v1/worker/gpu_model_runner.py", 5000)],
        "collective buffer": [python("all_gather_into_tensor", "torch/distributed/distributed_c10d.py", 3900)],
        "optimizer state": [python("step", adam, 220), python("_init_group", adam, 180)],
        "parameter": [python("from_pretrained", "site-packages/transformers/modeling_utils.py", 4000)],
        "unknown": [python("main", "train.py", 3)],
    }
    for category, frames in cases.items():
        with process.at(*frames):
            taken[category] = process.alloc("empty", MIB).address
    with process.capture((0, 1)):
        taken["graph pool"] = process.alloc("empty", MIB).address
    known = told(taken_of(tmp_path, process))
    assert {category: known[address][0] for category, address in taken.items()} == {each: each for each in taken}
    assert known[taken["graph pool"]][1] == "pool"
    assert known[taken["unknown"]][1] == ""


def test_what_a_step_leaves_when_memory_runs_out_is_told_by_earlier_steps(tmp_path: Path) -> None:
    process = Process(Settings(), total=400 * MIB, other=0, stacks="python")
    process.record()
    training = Training(process, SMALL)
    training.build()
    training.run(2)
    held = []

    def fill(step: int) -> None:
        while True:
            held.append(process.alloc("empty", 8 * MIB))

    training.after_forward = fill
    with pytest.raises(OutOfMemory):
        training.run(1)
    known = told(taken_of(tmp_path, process))
    blocks = {block.address for block in held}
    counts = Counter(category for address, (category, _) in known.items() if address not in blocks)
    assert counts["activation"] > 10 * SMALL.layers
    assert counts["unknown"] <= 3  # tokens, labels, loss
    assert {known[address][0] for address in blocks} == {"unknown"}


@pytest.mark.parametrize("torch", ["2.13.0", "2.15.0"])
def test_nearly_nothing_of_a_real_training_is_unknown(torch: str) -> None:
    """2.13 takes the workspaces of cuBLAS from the allocator, one for each thread; stacks of Python do not show it."""
    trace = opened(ROOT / f"tests/snapshots/real/training_{torch}.pickle.gz")
    past, owned = history(trace, 0), owners(trace, 0)
    assert past is not None
    assert owned is not None
    highest = int(level(trace, 0, "requested").argmax()) - 1
    alive = past.active_after(highest)
    size = np.bincount(owned.category[alive], past.requested[alive], len(CATEGORIES))
    assert size[UNKNOWN] < 0.001 * size.sum()
    assert size[WORKSPACE] == (2 << 25 if torch == "2.13.0" else 0)
    assert size[STATE] == pytest.approx(2 * size[PARAMETER], rel=1e-4)


def test_segments_without_a_history(tmp_path: Path) -> None:
    process = Process(Settings())
    process.alloc("empty", 33_554_432)
    assert {category for category, _ in told(taken_of(tmp_path, process)).values()} == {"unknown"}


def test_a_stack_leads_to_a_line_a_module_and_an_operator(tmp_path: Path) -> None:
    process = Process(Settings())
    process.record()
    with (
        process.at(python("main", "/home/me/start.py", 7)),
        process.module("/home/me/model.py", 88),
        process.module("torch/nn/modules/linear.py", 125),
    ):
        process.alloc("addmm", MIB)
    sites = stack_sites(taken_of(tmp_path, process))
    assert sites is not None
    stack = len(sites.snapshot.stacks) - 1
    assert sites.line(stack) == "model.py:88"
    assert sites.line_of(int(sites.module[stack])) == "model.py:88"
    assert sites.operator_of(int(sites.operator[stack])) == "aten::addmm"
    frames = [frame for frame in sites.folded(stack).split(";") if ".py(" in frame]
    assert "start.py(7): main" in frames
    assert frames[-1].startswith("torch/nn/modules/linear.py(125): ")
    assert sites.folded(-1) == ""


class Rewriting(Training):
    """An AdamW written by hand, which makes its state and its parameters anew in each step."""

    def _update(self) -> None:
        wrapper = python("wrapper", "torch/optim/optimizer.py", 533)
        with self.process.at(python("main", "train.py", 49), wrapper):
            for name, block in self.parameters.items():
                state = self.states.get(name, [])
                self.states[name] = []
                for place, line in enumerate((51, 56)):
                    with self.process.at(python("step", "optimizer.py", line)):
                        self.states[name].append(self._alloc("add", block.requested))
                        self._free(*state[place : place + 1])
                with self.process.at(python("step", "optimizer.py", 64)):
                    scaled = self._alloc("mul", block.requested)
                    self.parameters[name] = self._alloc("sub", block.requested)
                    self._free(block, scaled)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("context", ["all", "alloc"])
def test_parameters_that_the_optimizer_makes_anew(tmp_path: Path, *, late: bool, context: str) -> None:
    process = Process(Settings())
    training = Rewriting(process, SMALL, metadata=False, annotate=False)
    if late:
        training.build()
        training.run(2)
        process.record(context)
    else:
        process.record(context)
        training.build()
    training.run(3)
    trace = taken_of(tmp_path, process)
    found = told(trace)
    for category in ("parameter", "optimizer state"):
        wrong = {found[address] for address in truth(training)[category]} - {(category, each) for each in EVIDENCE}
        assert not wrong, category
    past, owned = history(trace, 0), owners(trace, 0)
    assert past is not None
    assert owned is not None
    size = sum(block.requested for block in training.parameters.values())
    if late:
        before = past.active_after(-1) & (owned.category == PARAMETER)
        assert 0.9 * size < int(past.requested[before].sum()) <= size
