"""Where steps end, and what is marked in them."""

from __future__ import annotations

import gc
import itertools
import json
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from kinetoscope.record.always_on.hooks import OptimizerRounds, PassSpans  # noqa: E402


def rounds(order: str) -> str:
    """The optimizers of `order`, those in capitals that end a step."""
    told, objects = OptimizerRounds(), {name: object() for name in order}
    return "".join(name.upper() if told.ended_by(objects[name]) else name for name in order)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("aaaa", "AAAA"),
        ("abababab", "AbaBaBaB"),  # a GAN: the first round shows that b is the last
        ("abcabcabc", "AbcabCabC"),
        ("aaabaaabaaab", "AAAbaAAbAAAb"),
        ("aaabbb", "AAAbBB"),  # one model after the other
    ],
)
def test_a_step_is_a_round_of_all_optimizers(order: str, said: str) -> None:
    assert rounds(order) == said


def test_each_round_ends_once_however_many_optimizers_take_turns() -> None:
    for count in range(1, 8):
        names = "abcdefgh"[:count]
        said = rounds(names * 6)
        assert all(sum(map(str.isupper, said[at : at + count])) == 1 for at in range(2 * count, 6 * count, count))


@pytest.fixture
def spans() -> Iterator[PassSpans]:
    spans = PassSpans()
    yield spans
    spans.detach()


class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x))


def recorded(spans: PassSpans, path: Path, work: Any, *, shapes: bool = True) -> list[dict[str, Any]]:
    with torch.profiler.profile(record_shapes=shapes) as prof:
        spans.attach(record_shapes=shapes)
        work()
        spans.detach()
    prof.export_chrome_trace(str(path))
    return [event for event in json.loads(path.read_text())["traceEvents"] if event.get("cat") == "user_annotation"]


def within(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    return bool(outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"])


@pytest.mark.parametrize("shapes", [True, False])
def test_passes_and_modules_are_marked(spans: PassSpans, tmp_path: Path, shapes: bool) -> None:
    net = Net()
    found = recorded(spans, tmp_path / "a.json", lambda: net(torch.ones(2, 4)).sum().backward(), shapes=shapes)
    by_name = {event["name"]: event for event in found}
    path = f"[pl][module]{Net.__module__}.Net: Net"
    linear = "[pl][module]torch.nn.modules.linear.Linear: Net."
    assert {"forward", "backward", path, linear + "body.0", linear + "head"} <= by_name.keys()
    assert within(by_name[linear + "body.0"], by_name[path])
    assert within(by_name[path], by_name["forward"])
    assert by_name["forward"]["ts"] + by_name["forward"]["dur"] <= by_name["backward"]["ts"]


def test_recomputing_in_the_backward_pass_is_no_forward_pass(spans: PassSpans, tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    net = Net()

    def work() -> None:
        checkpoint(net, torch.ones(2, 4, requires_grad=True), use_reentrant=False).sum().backward()

    names = [event["name"] for event in recorded(spans, tmp_path / "a.json", work)]
    assert names.count("forward") == 1
    assert sum(name.endswith(": Net.head") for name in names) == 2


def test_an_exception_in_a_module_leaves_nothing_open(spans: PassSpans, tmp_path: Path) -> None:
    net = Net()

    def work() -> None:
        with pytest.raises(RuntimeError):
            net(torch.ones(2, 5))
        net(torch.ones(2, 4))

    found = recorded(spans, tmp_path / "a.json", work)
    first, second = sorted((event for event in found if event["name"] == "forward"), key=lambda event: event["ts"])
    assert first["ts"] + first["dur"] <= second["ts"]


def test_names_that_break_a_trace_are_put_right(spans: PassSpans, tmp_path: Path) -> None:
    name = 'say "hi"\\'
    net = torch.nn.ModuleDict({name: torch.nn.Linear(4, 1)})
    net.forward = net[name].__call__
    found = recorded(spans, tmp_path / "a.json", lambda: net(torch.ones(2, 4)))
    assert any(event["name"].endswith(": ModuleDict.say _hi__") for event in found)


def test_nothing_stays_behind(spans: PassSpans) -> None:
    from torch.nn.modules import module

    backward = torch.autograd.backward
    before = [len(module._global_forward_hooks), len(module._global_forward_pre_hooks)]
    for _ in itertools.repeat(None, 3):
        spans.attach(record_shapes=True)
        assert torch.autograd.backward is not backward
        spans.detach()
    assert torch.autograd.backward is backward
    assert before == [len(module._global_forward_hooks), len(module._global_forward_pre_hooks)]


def test_a_model_that_the_program_deletes_is_gone(spans: PassSpans) -> None:
    spans.attach(record_shapes=True)
    net = Net()
    net(torch.ones(2, 4)).sum().backward()
    alive = weakref.ref(net)
    del net
    gc.collect()
    assert alive() is None
    spans.detach()


def test_a_compiled_model_is_not_compiled_again(spans: PassSpans) -> None:
    compiled = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    outer = torch.nn.Sequential(torch.compile(Net(), backend=backend))

    def step() -> None:
        outer(torch.ones(2, 4)).sum().backward()

    step()
    spans.attach(record_shapes=True)
    step()
    spans.detach()
    step()
    assert len(compiled) == 1


def test_a_wrapper_of_our_backward_that_someone_else_put_there_stays(spans: PassSpans) -> None:
    original = torch.autograd.backward
    spans.attach(record_shapes=True)
    ours = torch.autograd.backward

    def theirs(*args: Any, **kwargs: Any) -> Any:
        return ours(*args, **kwargs)

    torch.autograd.backward = theirs
    try:
        spans.detach()
        assert torch.autograd.backward is theirs
        Net()(torch.ones(2, 4)).sum().backward()
    finally:
        torch.autograd.backward = original
