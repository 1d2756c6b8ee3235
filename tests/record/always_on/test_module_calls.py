"""Programs in which no optimizer steps, recorded without a line of code."""

from __future__ import annotations

import copy
import io
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from kinetoscope.record.always_on.module_calls import MAX_OBSERVED, ModuleCalls, optimizer_was_made  # noqa: E402
from tests.record.processes import run  # noqa: E402
from tests.record.programs import kinetoscope, names, python, sidecars, steps, traces  # noqa: E402

pytestmark = pytest.mark.torch

HEAD = """
import sys, threading, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
batch = torch.ones(4, 8)
"""


class Seen:
    """The calls that were steps."""

    def __init__(self, named: str = "") -> None:
        self.began: list[Any] = []
        self.ended = 0
        self.calls = ModuleCalls(named, begins=self.began.append, ends=self._end)
        self.calls.observe()

    def _end(self, _: Any) -> None:
        self.ended += 1


@pytest.fixture
def seen() -> Iterator[Seen]:
    compile_ = torch.nn.Module.compile
    made = Seen()
    yield made
    made.calls.forget()
    torch.nn.Module.compile = compile_


def module(size: int) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(size, size))


def call(net: Any, times: int = 1) -> None:
    for _ in range(times):
        net(torch.ones(1, next(net.parameters()).shape[1]))


def hooks() -> int:
    from torch.nn.modules import module

    return len(module._global_forward_hooks) + len(module._global_forward_pre_hooks)


def test_the_largest_module_is_it_and_others_pay_no_more(seen: Seen) -> None:
    small, large = module(2), module(8)
    for _ in range(3):
        assert not seen.began
        call(large)
        call(small, 4)
    assert (seen.began, seen.calls.calls_before) == ([large], 2)
    call(large, 2)
    assert (seen.began, seen.ended) == ([large] * 3, 3)
    assert hooks() == 0
    assert not small._forward_pre_hooks
    assert not large[0]._forward_pre_hooks
    seen.calls.forget()
    assert not large._forward_pre_hooks


def test_a_larger_one_that_is_called_once_is_not_waited_for_long(seen: Seen) -> None:
    encoder, decoder = module(8), module(2)
    call(encoder)
    call(decoder, MAX_OBSERVED + 2)
    assert set(seen.began) == {decoder}


def test_what_holds_no_numbers_is_no_model(seen: Seen) -> None:
    loss = torch.nn.MSELoss()
    for _ in range(50):
        loss(torch.ones(1), torch.zeros(1))
    assert not seen.began


def test_an_exception_ends_the_call(seen: Seen) -> None:
    net = module(4)
    for _ in range(4):
        with pytest.raises(RuntimeError):
            net(torch.ones(1, 5))
    assert (len(seen.began), seen.ended) == (2, 2)


def test_a_named_class_is_it_from_its_first_call() -> None:
    made = Seen("Linear")
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    call(net, 2)
    assert made.began == [net[0]] * 2
    made.calls.forget()


@pytest.mark.parametrize("how", ["around", "in place"])
def test_compiled_models_are_seen_and_not_compiled_again(seen: Seen, how: str) -> None:
    compiled = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(2, 2)

        def forward(self, batch: Any) -> Any:
            return self.inner(batch) + 1

    net = Net()
    if how == "in place":
        net.compile(backend=backend)
    else:
        net = torch.compile(net, backend=backend)
    call(net, 5)
    assert len(seen.began) == 3
    seen.calls.forget()
    call(net, 2)
    assert len(compiled) == 1


def test_copies_and_files_of_the_model_are_without_us(seen: Seen) -> None:
    net = module(4)
    call(net, 3)
    other = copy.deepcopy(net)
    file = io.BytesIO()
    torch.save(net, file)
    assert b"kinetoscope" not in file.getvalue()
    file.seek(0)
    read = torch.load(file, weights_only=False)
    call(other, 3)
    call(read, 3)
    assert torch.equal(read(torch.ones(1, 4)), net(torch.ones(1, 4)))
    assert set(seen.began) == {net}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_modules_are_counted_too(seen: Seen) -> None:
    net = torch.jit.script(module(4))
    for _ in range(5):
        net(torch.ones(1, 4))
    assert len(seen.began) == seen.ended == 3


def test_calls_on_other_threads_count(seen: Seen) -> None:
    net = module(4)
    for _ in itertools.repeat(None, 5):
        thread = threading.Thread(target=call, args=(net,))
        thread.start()
        thread.join()
    assert len(seen.began) == seen.ended == 3


def test_an_optimizer_is_known_once_it_was_made() -> None:
    class Mine(torch.optim.SGD):  # type: ignore[misc, name-defined]
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    program = (
        "import torch\nfrom kinetoscope.record.always_on.module_calls import optimizer_was_made\n{}\n"
        "print(optimizer_was_made())"
    )
    make = "torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))])"
    assert run(python(program.format("pass"))).stdout == "False\n"
    assert run(python(program.format(make))).stdout == "True\n"
    Mine([torch.nn.Parameter(torch.ones(1))], 0.1)
    assert optimizer_was_made()


# --- whole programs -----------------------------------------------------------------------------------------------


def record(folder: Path, program: str, *options: str) -> Any:
    done = run(kinetoscope("record", "-o", folder, *options, "--", *python(HEAD + program)))
    assert done.returncode == 0, done.stderr
    return done


def test_each_call_of_the_model_is_a_step(tmp_path: Path) -> None:
    loop = "with torch.no_grad():\n  for _ in range(9): value = net(batch)\nprint(value.sum().item().hex())"
    done = record(tmp_path, loop)
    assert done.stdout == run(python(HEAD + loop)).stdout
    (trace,) = traces(tmp_path)
    assert steps(trace) == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    assert names(trace).count("forward") == 3
    (about,) = sidecars(tmp_path)
    assert (about["first_step"], about["last_step"], about["truncated"]) == (3, 5, "")


def test_steps_hold_the_whole_call_and_what_comes_after(tmp_path: Path) -> None:
    loop = "for _ in range(9):\n  net(batch)\n  with torch.profiler.record_function('after'): pass"
    record(tmp_path, loop, "--warmup=0")
    (trace,) = traces(tmp_path)
    spans = {
        name: [event for event in trace["traceEvents"] if event.get("name", "").startswith(name)]
        for name in ("ProfilerStep", "forward", "after")
    }
    assert len(spans["forward"]) == len(spans["after"]) == 3
    for step, forward, after in zip(*(sorted(spans[name], key=lambda e: e["ts"]) for name in spans), strict=True):
        assert step["ts"] <= forward["ts"] < after["ts"] < step["ts"] + step["dur"]


def test_a_program_that_trains_later_is_recorded_by_its_optimizer(tmp_path: Path) -> None:
    """It evaluates first, before it makes its optimizer."""
    done = record(
        tmp_path,
        """
with torch.no_grad():
    for _ in range(20): net(batch)
time.sleep(1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(8):
    net(batch).sum().backward(); optimizer.step(); optimizer.zero_grad()
""",
    )
    assert "the program trains after all" in done.stderr
    (trace,) = traces(tmp_path)
    assert names(trace).count("backward") == names(trace).count("Optimizer.step#SGD.step") == 3
    assert steps(trace) == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]


def test_calls_before_the_first_step_of_an_optimizer_are_no_steps(tmp_path: Path) -> None:
    """Gradients accumulate over forty calls."""
    done = record(
        tmp_path,
        """
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for index in range(7 * 40):
    net(batch).sum().backward()
    if index % 40 == 39: optimizer.step(); optimizer.zero_grad()
""",
    )
    assert "after all" not in done.stderr
    (trace,) = traces(tmp_path)
    assert names(trace).count("forward") == 3 * 40


def test_an_optimizer_that_never_steps_is_said_and_overruled(tmp_path: Path) -> None:
    program = "optimizer = torch.optim.SGD(net.parameters(), 0.1)\nfor _ in range(9): net(batch)"
    assert "made an optimizer of torch" in record(tmp_path / "a", program).stderr
    assert not traces(tmp_path / "a")
    record(tmp_path / "b", program, "--steps-by", "Sequential")
    assert len(steps(traces(tmp_path / "b")[0])) == 3


def test_steps_may_begin_within_a_call_that_is_marked(tmp_path: Path) -> None:
    """The mark of the call around the first step was made before the profiler began."""
    done = record(tmp_path, "for _ in range(6): net(batch)\nprint('end')", "--steps-by", "Linear")
    assert done.stdout == "end\n"
    assert len(steps(traces(tmp_path)[0])) == 3


@pytest.mark.parametrize("mark", ["torch.profiler.record_function", "kinetoscope.record.ranges.range"])
def test_ranges_of_a_name_are_steps(tmp_path: Path, mark: str) -> None:
    program = f"import kinetoscope.record.ranges\nfor _ in range(9):\n  with {mark}('turn'): net(batch); net(batch)"
    record(tmp_path, program, "--steps-by", "turn")
    (trace,) = traces(tmp_path)
    assert len(steps(trace)) == names(trace).count("turn") == 3
    assert names(trace).count("forward") == 6


def test_windows_of_other_threads_are_one_call_each(tmp_path: Path) -> None:
    """Each call is on a thread of its own, four at a time."""
    record(
        tmp_path,
        """
for _ in range(8):
    threads = [threading.Thread(target=net, args=(batch,)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
""",
    )
    found = traces(tmp_path)
    assert len(found) == 3
    assert all(len(steps(trace)) == names(trace).count("forward") == 1 for trace in found)


def test_windows_of_a_thread_that_serves_are_whole(tmp_path: Path) -> None:
    """Its second window is not ended by what waits for the thread's end."""
    done = record(
        tmp_path,
        """
def serve():
    for _ in range(8): net(batch)
thread = threading.Thread(target=serve)
thread.start()
thread.join()
""",
    )
    assert "ended early" not in done.stderr
    found = traces(tmp_path)
    assert len(found) == 3
    assert all(len(steps(trace)) == names(trace).count("forward") == 1 for trace in found)


def test_a_fixed_time_is_recorded(tmp_path: Path) -> None:
    done = record(tmp_path, "for _ in range(40):\n  net(batch); time.sleep(0.05)", "--for", "0.5s")
    assert "ended early" not in done.stderr
    (trace,) = traces(tmp_path)
    assert 5 <= names(trace).count("forward") <= 12
    (about,) = sidecars(tmp_path)
    assert about["truncated"] == ""


def test_a_model_that_the_program_drops_is_gone(tmp_path: Path) -> None:
    program = "import gc, weakref\nfor _ in range(9): net(batch)\nnet = weakref.ref(net); gc.collect(); print(net())"
    assert record(tmp_path / "a", program, "--idle").stdout == "None\n"
    assert record(tmp_path / "b", program, "--active", "1").stdout == "None\n"
