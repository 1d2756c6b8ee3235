"""The rules about autograd and about operators on the host: what they leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.advisor.rules.backward_twice import backward_twice
from kinetoscope.advisor.rules.computing_on_the_host import computing_on_the_host
from kinetoscope.advisor.rules.forward_twice import forward_twice
from kinetoscope.advisor.rules.graph_without_backward import graph_without_backward
from tests.advisor.test_host_rules import simulated
from tests.advisor.views import STEP, findings, rank_view, steps
from tests.drawn import Event, annotation, op
from tests.faults.cases.causes import noise, on_the_host
from tests.faults.cases.host import small, training
from tests.faults.healthy import transformer
from tests.faults.network import Network
from tests.faults.program import Program


def two_models(names: tuple[str, str], trained: int = 0) -> object:
    """A model that is trained, and one of the same sizes that is not."""

    def body(p: Program, n: int) -> None:
        net = Network(p)
        for place, name in enumerate(names):
            with p.python(f"nn.Module: {name}"):
                transformer(net if place == trained else Network(p, training=False), layers=4, length=512)
        net.backward()

    return body


def test_forward_pass_of_another_model_is_none_twice(tmp_path: Path) -> None:
    teacher = simulated(tmp_path, two_models(("Net_0", "Net_1")), stacks=True)  # type: ignore[arg-type]
    assert not list(forward_twice(teacher))
    again = simulated(tmp_path, two_models(("Net_0", "Net_0")), stacks=True)  # type: ignore[arg-type]
    (finding,) = forward_twice(again)
    assert finding.stake.low > 0
    before = simulated(tmp_path, two_models(("Net_0", "Net_0"), trained=1), stacks=True)  # type: ignore[arg-type]
    (finding,) = forward_twice(before)
    assert finding.stake.low == 0 < finding.stake.high
    assert "another batch" in finding.why
    unknown = simulated(tmp_path, two_models(("Net_0", "Net_1")))  # type: ignore[arg-type]
    (finding,) = forward_twice(unknown)
    assert finding.stake.low == 0 < finding.stake.high


def test_what_precedes_a_trained_operator_is_not_trained(tmp_path: Path) -> None:
    """Moves in an environment, without gradients, before each step: torch gives them the number of the next node."""
    events: list[Event] = []
    for n in range(4):
        for k in range(40):
            at = n * STEP + k * 10_000
            number = 9 * n + (k > 30)  # a node of the 31st operator is never run
            numbered: dict[str, Any] = {"Sequence number": number, "Fwd thread id": 0, "Input Dims": [[64]]}
            events.append(op("aten::value" if k == 30 else f"aten::move{k % 5}", at, 9_000, **numbered))
        for k in range(8):
            at = n * STEP + 500_000 + k * 10_000
            numbered = {"Sequence number": 9 * n + k + 1, "Input Dims": [[64, 64]]}
            events.append(op("aten::mm", at, 9_000, **{**numbered, "Fwd thread id": 0}))
            events.append(op("MmBackward0", at + 100_000, 9_000, **{**numbered, "Fwd thread id": 1}))
        events.append(annotation("Optimizer.step#SGD.step", n * STEP + 900_000, 9_000))
    assert not findings("HOST013", rank_view(tmp_path, *steps(4), *events))


@pytest.mark.parametrize("again", [True, False])
def test_activations_computed_again_on_a_host_are_a_guess(again: bool, tmp_path: Path) -> None:
    """Nothing tells how much memory it has."""
    events, args = [], dict[str, Any]()
    for n in range(4):
        at, args = n * STEP, {"Input Dims": [[64, 64]], "Fwd thread id": 0}
        events.append(op("aten::mm", at, 300_000, **args | {"Sequence number": 2 * n}))
        if again:
            events.append(op("aten::mm", at + 310_000, 300_000, **args | {"Sequence number": 2 * n + 1}))
        node: dict[str, Any] = {"Sequence number": 2 * n, "Fwd thread id": 1}
        events.append(
            op("autograd::engine::evaluate_function: CheckpointFunctionBackward", at + 305_000, 400_000, **node)
        )
        events.append(annotation("Optimizer.step#SGD.step", at + 900_000, 9_000))
    found = findings("MEMORY007", rank_view(tmp_path, *steps(4), *events))
    assert [(each.confidence, each.stake.low) for each in found] == [("low", 0)] * again
    assert all(each.stake.high == pytest.approx(1.05 * 300_000) for each in found)


def accumulating(p: Program, n: int) -> None:
    """Two batches of one size, each with its backward pass; a layer is computed again in it (checkpointing)."""
    for _ in range(2):
        net = Network(p)
        transformer(net, layers=4, length=512)
        with p.backward():
            with p.grad("CheckpointFunctionBackward"):
                transformer(Network(p, training=False), layers=4, length=512)
            for layer in reversed(net._tape):
                layer()


def test_accumulation_and_checkpointing_compute_nothing_twice(tmp_path: Path) -> None:
    rank = simulated(tmp_path, accumulating)
    assert not list(forward_twice(rank))
    assert not list(backward_twice(rank))
    assert not list(graph_without_backward(rank))


def penalty(p: Program, n: int, *, create_graph: bool) -> None:
    """The backward pass of a gradient penalty makes nodes of its own; then the loss's goes through both."""
    net = Network(p)
    for _ in range(12):
        net.linear(2048, 1024, 1024)
    tape, numbers = list(net._tape), list(p._tape)
    for turn in range(2):
        net._tape[:], p._tape[:] = tape, numbers
        with p.backward():
            for layer in reversed(net._tape):
                layer()
                if create_graph and turn == 0:
                    with p.op("autograd::engine::evaluate_function: MmBackward0"):
                        p.call("aten::mul", 3, grad="MulBackward0")


def test_gradient_penalty_needs_both_backward_passes(tmp_path: Path) -> None:
    def body(create_graph: bool) -> object:
        return lambda p, n: penalty(p, n, create_graph=create_graph)

    assert list(backward_twice(simulated(tmp_path, body(False))))  # type: ignore[arg-type]
    assert not list(backward_twice(simulated(tmp_path, body(True))))  # type: ignore[arg-type]


def test_a_healthy_training_builds_no_graph_in_vain(tmp_path: Path) -> None:
    assert not list(graph_without_backward(simulated(tmp_path, training(small))))


def loading(p: Program, n: int) -> None:
    """Batches are made in the process: what its operators compute on the host belongs there."""
    with p.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        p.call("aten::stack", 900)
    p.to_device(1e6, pinned=True, blocking=False)
    net = Network(p)
    small(net)
    net.backward()


def test_operators_of_a_loader_may_compute_on_the_host(tmp_path: Path) -> None:
    assert not list(computing_on_the_host(simulated(tmp_path, loading)))


def test_the_line_that_computes_on_the_host_is_named(tmp_path: Path) -> None:
    def body(p: Program, n: int) -> None:
        net = Network(p)
        small(net)
        on_the_host(900, 1e5)(p)
        small(net)
        net.backward()

    (finding,) = computing_on_the_host(simulated(tmp_path, body, stacks=True))
    assert "x.cpu()" in finding.change
    assert finding.title == "`torchvision::nms` in `model.py:40` computes on the host while the device waits"
    assert (finding.evidence[0].file, finding.evidence[0].line) == ("model.py", 40)
    assert finding.stake.high > finding.stake.low > 0.5 * 900_000


def test_what_needs_no_tensor_is_made_on_the_device(tmp_path: Path) -> None:
    def body(p: Program, n: int) -> None:
        net = Network(p)
        noise(1800, 2e6)(p)
        small(net)
        net.backward()
        p.item()

    (finding,) = computing_on_the_host(simulated(tmp_path, body))
    assert finding.change.splitlines()[1] == "+ x = torch.randn(size, device=device)"
