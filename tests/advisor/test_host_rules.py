"""The rules about the host, on programs that are simulated and on traces drawn event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.laws import lawful
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules.compiling_in_the_loop import compiling_in_the_loop
from kinetoscope.advisor.rules.garbage_collection import garbage_collection
from kinetoscope.advisor.rules.gradients_set_to_zero import gradients_set_to_zero
from kinetoscope.advisor.rules.launch_bound_steps import launch_bound_steps
from kinetoscope.advisor.rules.optimizer_by_parameter import optimizer_by_parameter
from kinetoscope.advisor.rules.small_elementwise_operators import small_elementwise_operators
from kinetoscope.advisor.rules.unexplained_host_time import unexplained_host_time
from kinetoscope.advisor.rules.waiting_for_the_device import waiting_for_the_device
from kinetoscope.model.operators.categories import is_elementwise
from kinetoscope.model.steps.selection import ALL
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.reading import read
from tests.drawn import Event, annotation, job, kernel, launch, op, python
from tests.faults.cases.host import on_host, training, zeros
from tests.faults.host import Body
from tests.faults.network import Network
from tests.faults.operators import Operators
from tests.faults.program import Program
from tests.model.compile.drawn_log import PRINT, artifact, graph_break, metrics, written_log

Find = Callable[[RankView], Iterator[Finding]]
US = 1000


def view(folder: Path, *events: Event) -> RankView:
    """One rank, drawn."""
    return RankView(job(folder, *events).trace(), ALL)


def simulated(folder: Path, body: Body, *, steps: int = 6, **program: object) -> RankView:
    """One rank of a simulated program."""
    file = folder / "simulated.pt.trace.json"
    Program(seed=1, **program).run(body, file, steps=steps)  # type: ignore[arg-type]
    return RankView(read(file, jobs=1).trace(), ALL)


def steps(count: int, length: int) -> list[Event]:
    """Marks of so many steps on end."""
    return [annotation(f"ProfilerStep#{k}", k * length, length) for k in range(count)]


# --- HOST001


def tokens(us: float, between: float = 0.0) -> Body:
    """Kernels of `us`, each launched by an operator of some 10 µs."""

    def body(p: Program, n: int) -> None:
        for _ in range(80):
            with p.op("aten::mm", 5):
                p.kernel("gemm", us)
            p.host(between)

    return body


def test_short_kernels_are_launch_bound(tmp_path: Path) -> None:
    look = simulated(tmp_path, tokens(2))
    [finding] = launch_bound_steps(look)
    assert 0.3 * look.step < finding.stake.low < finding.stake.high < look.step
    assert finding.overlap_priority
    assert finding.time is not None
    assert finding.time.length <= look.idle.length
    assert "80 launches a step" in finding.message


def test_what_launches_take_is_held_against_what_the_device_works_for_them(tmp_path: Path) -> None:
    """Of forty launches of 10 µs in a row one in ten has a kernel of 40 µs, the others 2: 5.8 µs on average."""
    events = []
    for k in range(120):
        begin = (k // 40) * 1_000_000 + (k % 40) * 20_000
        events += [launch(begin, 10_000, k + 1), kernel("k", begin + 10_000, 40_000 if k % 10 == 0 else 2_000, k + 1)]
    [finding] = launch_bound_steps(view(tmp_path, *steps(3, 1_000_000), *events))
    assert "the device works 5.80\N{NO-BREAK SPACE}µs for each" in finding.message
    assert finding.takes is not None
    assert lawful(finding, view(tmp_path, *steps(3, 1_000_000), *events).step_time).high <= finding.takes


@pytest.mark.parametrize("body", [tokens(40), tokens(2, between=400)], ids=["long kernels", "long pauses"])
def test_long_kernels_and_long_pauses_are_not_launch_bound(body: Body, tmp_path: Path) -> None:
    claims = list(launch_bound_steps(simulated(tmp_path, body)))
    assert all(finding.stake.low < 0.03 * 80 * 412 * US for finding in claims)


@pytest.mark.parametrize("captured", [True, False])
def test_the_capture_of_a_graph_is_no_launching(tmp_path: Path, captured: bool) -> None:
    ops = [op("aten::mm", 20 * US * k, 18 * US) for k in range(100)]
    calls = [launch(20 * US * k + 5 * US, 10 * US, k + 1) for k in range(100)]
    if captured:
        calls += [
            launch(0, US, 900, name="hipStreamBeginCapture"),
            launch(1999 * US, US, 901, name="hipStreamEndCapture"),
        ]
    work = [] if captured else [kernel("gemm", 20 * US * k + 16 * US, 2 * US, k + 1) for k in range(100)]
    after = [launch(2010 * US, 10 * US, 902), kernel("gemm", 2030 * US, 10 * US, 902)]
    found = list(
        launch_bound_steps(view(tmp_path, annotation("ProfilerStep#1", 0, 2100 * US), *ops, *calls, *work, *after))
    )
    assert len(found) == (0 if captured else 1)


def test_few_launches_are_not_worth_a_graph(tmp_path: Path) -> None:
    events = [
        e for k in range(3) for e in (launch(k * 100_000, 90_000, k + 1), kernel("k", k * 100_000 + 95_000, 10, k + 1))
    ]
    assert list(launch_bound_steps(view(tmp_path, *steps(3, 100_000), *events))) == []


# --- HOST002


def looked_at(times: int) -> Body:
    """A value is fetched so many times in a step of long kernels."""

    def body(p: Program, n: int) -> None:
        for k in range(10):
            with p.op("aten::mm", 5):
                p.kernel("gemm", 300)
            if k < times:
                with p.python("train.py(20): log"):
                    p.item()
                    p.host(200)

    return body


def test_sites_that_wait_are_told_with_their_line(tmp_path: Path) -> None:
    look = simulated(tmp_path, looked_at(3), stacks=True)
    [finding] = waiting_for_the_device(look)
    assert "`aten::item` in `train.py:20`" in finding.message
    assert (finding.evidence[0].file, finding.evidence[0].line) == ("train.py", 20)
    assert ".item()" in finding.change
    assert 300 * US < finding.stake.low <= finding.stake.high < 3 * 300 * US


def test_no_more_can_go_than_the_operator_that_waits(tmp_path: Path) -> None:
    """A wait of 30 µs in an operator of 40, and an idle device of 60 µs after it."""
    events = []
    for k in range(3):
        at = k * 100_000
        events += [
            op("aten::mm", at, 10_000),
            launch(at + 2_000, 5_000, k + 1),
            kernel("gemm", at + 5_000, 40_000, k + 1),
        ]
        events += [op("aten::item", at + 12_000, 40_000), launch(at + 17_000, 30_000, -1, name="cudaStreamSynchronize")]
    [finding] = waiting_for_the_device(view(tmp_path, *steps(3, 100_000), *events))
    assert (
        "It waits 30.0\u00a0µs of each step (1 time a step), with the operators around it 40.0\u00a0µs, and"
        in finding.message
    )
    assert finding.takes == pytest.approx(40_000, rel=0.01)


def test_the_stake_is_idle_time_and_not_waiting(tmp_path: Path) -> None:
    """The host waits nearly all the time, but has always launched enough."""

    def body(p: Program, n: int) -> None:
        for _ in range(10):
            with p.op("aten::mm", 5):
                p.kernel("gemm", 300, stream=7)
                p.kernel("gemm", 300, stream=20)
            p.item(stream=7)

    look = simulated(tmp_path, body)
    assert all(finding.stake.high < 0.1 * look.step for finding in waiting_for_the_device(look))


def test_copies_to_the_device_are_another_rules(tmp_path: Path) -> None:
    def body(p: Program, n: int) -> None:
        p.to_device(20e6)
        with p.op("aten::mm", 5):
            p.kernel("gemm", 300)

    assert list(waiting_for_the_device(simulated(tmp_path, body))) == []


# --- HOST003


def pointwise(*names: str) -> Body:
    """A product, and operators after it."""

    def body(p: Program, n: int) -> None:
        net = Network(p, training=False)
        for _ in range(4):
            net.linear(4096, 1024, 1024)
            for name in names:
                net.pointwise(name, 4096, 1024)

    return body


def test_runs_of_elementwise_operators(tmp_path: Path) -> None:
    look = simulated(tmp_path, pointwise("aten::mul", "aten::add", "aten::view", "aten::tanh"))
    [finding] = small_elementwise_operators(look)
    assert "12 operators a step form runs of up to 3" in finding.message
    assert 0 < finding.stake.low < finding.stake.high


def test_on_a_host_alone_nothing_is_said_of_kernels(tmp_path: Path) -> None:
    look = simulated(tmp_path, pointwise("aten::mul", "aten::add", "aten::tanh"), device=None)
    [finding] = small_elementwise_operators(look)
    assert "kernel" not in finding.message + finding.why


@pytest.mark.parametrize("names", [("aten::mul", "aten::add"), ("aten::mul", "aten::sum", "aten::add", "aten::mean")])
def test_pairs_and_reductions_count_by_what_they_write_and_read_again(names: tuple[str, ...], tmp_path: Path) -> None:
    [finding] = small_elementwise_operators(simulated(tmp_path, pointwise(*names)))
    assert finding.title == "One kernel could compute what several operators in a row do"
    assert f"{2 * len(names)} chains a step" in finding.message
    assert 0 == finding.stake.low < finding.stake.high
    assert "a fifth of the calls and of small kernels remains." in finding.why


def test_pairs_without_shapes_are_left_alone(tmp_path: Path) -> None:
    body = pointwise("aten::mul", "aten::add")
    assert list(small_elementwise_operators(simulated(tmp_path, body, shapes=False))) == []


def test_products_between_them_part_them(tmp_path: Path) -> None:
    assert list(small_elementwise_operators(simulated(tmp_path, pointwise("aten::mul")))) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::mul", True),
        ("aten::add_", True),
        ("MulBackward0", True),
        ("autograd::engine::evaluate_function: GeluBackward0", True),
        ("aten::mm", False),
        ("aten::sum", False),
        ("autograd::engine::evaluate_function: MmBackward0", False),
        ("mul", False),
    ],
)
def test_what_is_element_by_element(name: str, expected: bool) -> None:
    assert is_elementwise(name) is expected


# --- HOST004, HOST005


def updated(name: str, *, of: str = "SGD", count: int = 12) -> list[Event]:
    """Three steps of 1 ms of a host alone, with an update in each that calls an operator for each parameter."""
    events = steps(3, 1_000_000)
    for k in range(3):
        begin = k * 1_000_000
        events += [op("aten::mm", begin, 500_000), annotation(f"Optimizer.step#{of}.step", begin + 600_000, 300_000)]
        events += [
            op(each, begin + 600_000 + 3 * 8_000 * place + 8_000 * turn, 8_000)
            for place in range(count)
            for turn, each in enumerate((name, "aten::addcmul_", "aten::sqrt"))
        ]
    return events


def test_an_optimizer_that_loops(tmp_path: Path) -> None:
    [finding] = optimizer_by_parameter(view(tmp_path, *updated("aten::lerp_", of="Adam")))
    assert "36 operators a step" in finding.message
    assert "fused=True" in finding.change
    assert finding.stake.low == 0  # three operators a parameter: on a host nothing is sure
    assert finding.stake.high == pytest.approx(0.97 * 1.05 * 300 * US, rel=0.01)


@pytest.mark.parametrize("lists", [False, True])
def test_lists_of_parameters_are_a_loop_on_the_host(lists: bool, tmp_path: Path) -> None:
    """`foreach=True` calls each operator as before, but not from Python; where it is on, nothing is left to propose."""
    events = updated("aten::lerp_", of="NAdam", count=20)
    events += [op("aten::_foreach_mul_", k * 1_000_000 + 895_000, 4_000) for k in range(3) if lists]
    found = list(optimizer_by_parameter(view(tmp_path, *events)))
    assert len(found) == (not lists)
    for finding in found:
        assert "foreach=True" in finding.change
        assert finding.stake.low == 0
        assert finding.stake.high < 0.6 * 1.05 * 300 * US


def test_passes_over_large_parameters_shrink_as_their_bytes_do(tmp_path: Path) -> None:
    """AdamW in passes moves 76 bytes a parameter at least, fused 28: at 80 % of the recorded rate, or the memory's."""

    def body(p: Program, n: int) -> None:
        Operators(p, "H100", "fp32").optimizer([(4096, 4096)] * 12, fused=False)

    look = simulated(tmp_path, body)
    [finding] = optimizer_by_parameter(look)
    floor = 28 * 12 * 4096 * 4096 / 3.352e12 * 1e9
    assert finding.stake.low == pytest.approx((1 - 1.25 * 28 / 76) * look.step, rel=0.02)
    assert finding.stake.high == pytest.approx(look.step - floor, rel=0.06)


@pytest.mark.parametrize(
    "events",
    [updated("aten::_foreach_add_", count=4), updated("aten::lerp_", of="FusedAdam"), updated("aten::lerp_", count=3)],
    ids=["lists", "fused by name", "few"],
)
def test_optimizers_that_do_not_loop(events: list[Event], tmp_path: Path) -> None:
    assert list(optimizer_by_parameter(view(tmp_path, *events))) == []


@pytest.mark.parametrize(("us", "found"), [(3, True), (40, False)])
def test_zeros_for_large_gradients_are_cheaper_than_new_memory_on_the_host(
    us: float, found: bool, tmp_path: Path
) -> None:
    """40 µs are 1 MiB, which `tests/zoo/programs/zero_grad_of_large.py` has: dropped, a step took half longer."""
    look = simulated(tmp_path, training(on_host, update=zeros(120, us), precision="fp32"), device=None)
    assert bool(list(gradients_set_to_zero(look))) is found


def closed(name: str, *, of: str = "Adam", count: int = 12) -> list[Event]:
    """The same with a closure of 400 µs at the beginning of each step: a forward pass, and a node of the backward."""
    span = f"Optimizer.step#{of}.step"
    events = [each for each in updated(name, of=of, count=count) if not each["name"].startswith(("Opt", "aten::mm"))]
    for k in range(3):
        begin = k * 1_000_000
        node = op("autograd::engine::evaluate_function: MmBackward0", begin + 400_000, 150_000)
        forward = [op("aten::mm", begin + 150_000 + 10_000 * place, 8_000) for place in range(24)]
        events += [annotation(span, begin + 100_000, 800_000), *forward, node]
    return events


def test_a_closure_is_no_update(tmp_path: Path) -> None:
    [finding] = optimizer_by_parameter(view(tmp_path, *closed("aten::lerp_")))
    assert "36 operators a step take 350\N{NO-BREAK SPACE}µs" in finding.message
    assert finding.takes == 350 * US
    assert list(optimizer_by_parameter(view(tmp_path, *closed("aten::_fused_adam_")))) == []


def test_of_optimizers_in_one_another_the_inner_one_updates(tmp_path: Path) -> None:
    outer = [annotation("Optimizer.step#CombinedOptimizer.step", k * 1_000_000 + 590_000, 320_000) for k in range(3)]
    [finding] = optimizer_by_parameter(view(tmp_path, *updated("aten::lerp_", of="Adam"), *outer))
    assert "`Adam` updates" in finding.message


@pytest.mark.parametrize(
    ("of", "version", "argument"),
    [
        ("Adam", "2.13.0+cpu", "fused=True"),
        ("Adam", "2.1.0", "foreach=True"),
        ("Adam", "1.11.0", None),
        ("RMSprop", "2.13.0", "foreach=True"),
        ("SGD", "", "fused=True)  # from torch 2.4 on"),
        ("LBFGS", "", None),
        ("Muon", "", None),
        ("SparseAdam", "", None),
        ("Lion", "2.13.0", "torch._foreach_add_"),
    ],
)
def test_an_argument_is_one_that_the_optimizer_takes(
    of: str, version: str, argument: str | None, tmp_path: Path
) -> None:
    recorded = {"kinetoscope": {"versions": {"torch": version}}} if version else {}
    look = RankView(job(tmp_path, *updated("aten::lerp_", of=of), **recorded).trace(), ALL)
    found = list(optimizer_by_parameter(look))
    assert [argument in each.change for each in found if argument] == [True] * bool(argument)
    assert len(found) == bool(argument)
    assert all(("=True" in each.change) == (of != "Lion") for each in found)


def test_an_update_that_multiplies_matrices_is_no_loop_over_parameters(tmp_path: Path) -> None:
    assert list(optimizer_by_parameter(view(tmp_path, *updated("aten::mm", of="Shampoo")))) == []


def zeroed(name: str) -> list[Event]:
    """Three steps with `zero_grad` of 100 µs in each."""
    events = steps(3, 1_000_000)
    for k in range(3):
        begin = k * 1_000_000
        events += [
            op("aten::mm", begin, 500_000),
            annotation("Optimizer.zero_grad#SGD.zero_grad", begin + 600_000, 100_000),
        ]
        events += [op(name, begin + 600_000 + 10_000 * place, 8_000) for place in range(10)]
    return events


def test_gradients_filled_with_zeros(tmp_path: Path) -> None:
    [finding] = gradients_set_to_zero(view(tmp_path, *zeroed("aten::zero_")))
    assert finding.stake.low == 0  # on the host alone, where memory of gradients is taken anew
    assert finding.stake.high == pytest.approx(1.05 * 100 * US)
    assert list(gradients_set_to_zero(view(tmp_path, *zeroed("aten::detach_")))) == []


@pytest.mark.parametrize("gradients", [10, 2])
def test_gradients_that_the_program_fills_with_zeros(gradients: int, tmp_path: Path) -> None:
    """In a loop over its parameters; if fewer gradients are added to, the zeros are something else's."""
    events = [each for each in zeroed("aten::zero_") if not each["name"].startswith("Optimizer")]
    for k in range(3):
        for place in range(gradients):
            at = k * 1_000_000 + 800_000 + 10_000 * place
            events.append(op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", at, 9_000))
            events.append(op("aten::add_", at + 500, 8_000))
    found = list(gradients_set_to_zero(view(tmp_path, *events)))
    assert [each.stake.high == pytest.approx(1.05 * 160 * US) for each in found] == [True] * (gradients == 10)
    assert all("The program fills gradients" in each.message for each in found)
    assert all("parameter.grad = None" in each.change for each in found)


# --- HOST006, HOST007, HOST008


def test_garbage_collection(tmp_path: Path) -> None:
    """One pause of 400 µs in four steps of 1 ms; nothing is said of what three steps without it let expect."""
    events = [op("aten::mm", k * 1_000_000, 500_000) for k in range(4)]
    look = view(tmp_path, *steps(4, 1_000_000), *events, python("Python GC", 2_550_000, 400_000))
    [finding] = garbage_collection(look)
    assert finding.stake.low == pytest.approx(0.8 * 100 * US)
    assert finding.stake.high == pytest.approx(1.1 * 1.05 * 100 * US)
    assert finding.time is not None
    assert finding.time.length == 400_000
    assert list(garbage_collection(view(tmp_path, *steps(4, 1_000_000), *events))) == []
    assert list(unexplained_host_time(look)) != []  # what is left of the steps; the pause itself is explained


def test_compilations_in_the_window(tmp_path: Path) -> None:
    events = [op("aten::mm", k * 1_000_000, 500_000) for k in range(4)]
    compiled = [
        op("Torch-Compiled Region: 0/0", 1_100_000, 10_000),
        op("Torch-Compiled Region: 0/1", 2_000_000, 10_000),
    ]
    spans = [
        op("_compile.compile_inner (dynamo_timed)", 1_520_000, 440_000),
        op("build_guards (dynamo_timed)", 1_600_000, 9),
    ]
    [finding] = compiling_in_the_loop(view(tmp_path, *steps(4, 1_000_000), *events, *compiled, *spans))
    assert "1 compilation in 4 steps" in finding.message
    assert "2 compiled versions" in finding.message
    assert finding.stake.low == pytest.approx(0.9 * 110 * US)
    assert list(compiling_in_the_loop(view(tmp_path, *steps(4, 1_000_000), *events))) == []


def broken(step: int) -> list[Event]:
    """A compiled function in three pieces, 100 µs of Python between two of them."""
    at = step * 1_000_000
    graphs = [op("CompiledFunction", at + 300_000 * piece, 200_000) for piece in range(3)]
    regions = [annotation(f"Torch-Compiled Region: {k}/0", at + 300_000 * k, 900_000 - 300_000 * k) for k in range(3)]
    return [*graphs, *regions]


def test_a_graph_that_is_recorded_of_compiled_code_is_no_compilation(tmp_path: Path) -> None:
    recorded = [op("CUDAGraphNode.record (dynamo_timed)", 1_400_000, 500_000), *broken(1)]
    found = list(compiling_in_the_loop(view(tmp_path, *steps(3, 1_000_000), *recorded)))
    assert [each.key for each in found] in ([], ["graph breaks"])


def test_graph_breaks_are_a_note(tmp_path: Path) -> None:
    events = [each for k in range(3) for each in broken(k)]
    [finding] = compiling_in_the_loop(view(tmp_path, *steps(3, 1_000_000), *events))
    assert finding.confidence == "low"  # never more than a note
    assert finding.stake.low == 0
    assert finding.stake.high == pytest.approx(1.15 * 200 * US)
    assert "2 calls a step of compiled code go on in another piece;" in finding.message


def test_functions_that_are_compiled_one_by_one_are_no_graph_breaks(tmp_path: Path) -> None:
    events = [
        annotation(f"Torch-Compiled Region: {piece}/0", k * 1_000_000 + 300_000 * piece, 200_000)
        for k in range(3)
        for piece in range(3)
    ]
    assert list(compiling_in_the_loop(view(tmp_path, *steps(3, 1_000_000), *events))) == []


def test_a_value_that_changes_is_to_be_a_tensor(tmp_path: Path) -> None:
    written_log(tmp_path, metrics("0/1", "f", 18, 1, 99), artifact("recompile_reasons", "0/0: self.scale == 1", "0/1"))
    spans = [
        op("_compile.compile_inner (dynamo_timed)", 520_000, 60_000),
        annotation("x_data: compile_id=0/1", 530_000, 1),
    ]
    events = [op("aten::mm", k * 1_000_000, 500_000) for k in range(3)]
    [again] = compiling_in_the_loop(view(tmp_path, *steps(3, 1_000_000), *events, *spans))
    assert again.change.startswith("- self.scale = 1\n+ self.scale = torch.tensor(1)")


def test_the_log_names_the_lines_and_what_changed(tmp_path: Path) -> None:
    written_log(
        tmp_path,
        graph_break(20, "0/0"),
        metrics("0/1", "forward", 18, 1, 99),
        artifact("recompile_reasons", "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 12", "0/1"),
    )
    events = [each for k in range(4) for each in broken(k)]
    spans = [
        op("_compile.compile_inner (dynamo_timed)", 1_520_000, 60_000),
        annotation("x_data: compile_id=0/1", 1_530_000, 1),
    ]
    again, breaks = compiling_in_the_loop(view(tmp_path, *steps(4, 1_000_000), *events, *spans))
    assert "during the measured steps in `/home/me/model.py:18`. 1 compilation in 4 steps" in again.message
    unfit = "because `0/0` did not fit: `tensor 'x' size mismatch at index 0. expected 8, actual 12`."
    assert f"`forward` was compiled as `0/1`, {unfit}" in again.message
    assert again.change.startswith("+ torch._dynamo.mark_dynamic(x, 0)")
    assert "split the compiled code in `/home/me/model.py:20`." in breaks.message
    assert f": `/home/me/model.py:20` (`{PRINT}`)" in breaks.message


TRAINS = annotation("Optimizer.step#SGD.step", 1_000_000, 1_000)
"""Where nothing shows that the program trains, what no call holds may be waiting for requests."""


@pytest.mark.parametrize(("node", "count"), [("AccumulateGrad", 0), ("MmBackward0", 1)])
def test_a_backward_pass_whose_threads_were_not_recorded_is_no_pause(tmp_path: Path, node: str, count: int) -> None:
    """Autograd's threads run it; of those that are not in the file nothing is known."""
    events = [op("aten::mm", k * 10_000_000, 6_000_000) for k in range(4)]
    events += [annotation("## backward ##", k * 10_000_000 + 6_000_000, 3_000_000) for k in range(4)]
    events += [op(f"autograd::engine::evaluate_function: {node}", k * 10_000_000 + 8_990_000, 5_000) for k in range(4)]
    events += [op("aten::add", k * 10_000_000 + 9_000_000, 1_000_000) for k in range(4)]
    found = list(unexplained_host_time(view(tmp_path, *steps(4, 10_000_000), *events, TRAINS)))
    assert len(found) == count


def test_a_pause_is_told_by_its_annotation_its_frame_or_its_neighbours(tmp_path: Path) -> None:
    marks, events = steps(4, 10_000_000), [op("aten::mm", k * 10_000_000, 6_000_000) for k in range(4)]
    at = [k * 10_000_000 + 7_000_000 for k in range(4)]
    busy = [op("aten::add", k * 10_000_000 + 9_000_000, 1_000_000) for k in range(4)]
    busy += [op("aten::sum", k * 10_000_000 + 6_000_000, 1_000_000) for k in range(4)]
    plain = [*marks, *events, *busy, TRAINS]
    for more, told in (
        ([], "Host code after `aten::sum`"),
        ([annotation("save", start, 2_000_000) for start in at], "`save`"),
        ([python("train.py(9): save", start, 2_000_000) for start in at], "`train.py(9): save` in `train.py:9`"),
        ([python(f"<method wait of Work object at 0x7f{k}>", start, 2_000_000) for k, start in enumerate(at)],
         "`<method wait of Work object>`"),
    ):  # fmt: skip
        [finding] = unexplained_host_time(view(tmp_path, *plain, *more))
        assert told in finding.message
        assert finding.stake.low == pytest.approx(0.85 * 2000 * US)
        assert finding.stake.high == pytest.approx(1.05 * 2000 * US)
        assert finding.time is not None
        assert finding.time.start.tolist() == at


@pytest.mark.parametrize(("places", "sure"), [((0, 3, 6, 9), True), ((0, 1, 5), False), ((2,), False)])
def test_what_comes_seldom_may_be_by_chance(places: tuple[int, ...], sure: bool, tmp_path: Path) -> None:
    """Another process may have had the core, unless it is each third step."""
    for step, counts in ((100_000_000, True), (10_000_000, sure)):
        events = [op("aten::mm", k * step, step // 5 if k in places else step) for k in range(12)]
        found = list(unexplained_host_time(view(tmp_path, *steps(12, step), *events, TRAINS)))
        assert [each.confidence == "medium" for each in found] == [sure] * counts


@pytest.mark.parametrize("kinds", [1, 8])
@pytest.mark.parametrize("same_place", [True, False])
def test_pauses_in_a_call_are_one_thing_only_at_one_place(same_place: bool, kinds: int, tmp_path: Path) -> None:
    """A busy machine's scheduler takes the core in each step, each time elsewhere in the model."""
    events: list[Event] = []
    for k in range(8):
        at = k * 10_000_000
        events.append(annotation("forward", at, 10_000_000))
        for place in range(8):
            at += 400_000 if place == (3 if same_place else k) else 0
            events.append(op(f"aten::op{place % kinds}", at, 1_200_000))
            at += 1_200_000
    found = list(unexplained_host_time(view(tmp_path, *steps(8, 10_000_000), *events)))
    assert ["Host code in `forward` runs" in each.message for each in found if each.confidence == "medium"] == [
        True
    ] * same_place


@pytest.mark.parametrize("calls", [1, 8])
def test_a_call_that_most_often_computes_does_not_stand_still_by_itself(calls: int, tmp_path: Path) -> None:
    """In each step one call of the model has no operator for a while: of one call that is its doing."""
    events: list[Event] = []
    for k in range(8):
        for call in range(calls):
            at, idle = k * 200_000_000 + call * 25_000_000, call == k % calls
            events.append(annotation("forward", at, 25_000_000))
            events.append(op("aten::mm", at, 100_000 if idle else 25_000_000))
        events.append(op("aten::mm", at + 25_000_000, 175_000_000 - 25_000_000 * (calls - 1)))
    found = unexplained_host_time(view(tmp_path, *steps(8, 200_000_000), *events, TRAINS))
    assert any("`forward` runs" in each.message and each.confidence == "medium" for each in found) == (calls == 1)


def test_an_optimizers_own_python_is_not_to_be_changed(tmp_path: Path) -> None:
    """A fused update whose Python takes longer than its kernel; and pauses of uneven length are a guess."""
    fused = [each for each in updated("aten::_fused_adamw_", of="AdamW", count=1) if each["name"] != "aten::mm"]
    found = list(unexplained_host_time(view(tmp_path, *fused)))
    assert not any("Optimizer" in each.message for each in found)
    for pauses, confidence in (((100_000,) * 4, "medium"), ((0, 1_500_000, 0, 1_400_000), "low")):
        computed = [op("aten::mm", k * 2_000_000, 1_600_000 - pause) for k, pause in enumerate(pauses)]
        [finding] = unexplained_host_time(view(tmp_path, *steps(4, 2_000_000), *computed, TRAINS))
        assert finding.confidence == confidence


def test_nothing_is_unexplained_where_something_computes(tmp_path: Path) -> None:
    marks = steps(4, 10_000_000)
    hidden = [e for k in range(4) for e in (
        launch(k * 10_000_000, 9_000, k + 1), kernel("gemm", k * 10_000_000 + 10_000, 9_980_000, k + 1))]  # fmt: skip
    elsewhere = [op("aten::mm", k * 10_000_000, 10_000_000, tid=7) for k in range(4)]
    for events in (hidden, elsewhere):
        assert list(unexplained_host_time(view(tmp_path, *marks, *events))) == []


def test_hostile_names_are_quoted(tmp_path: Path) -> None:
    name = "ignore all`\n\x1b[31m" * 50
    events = [op("aten::mm", k * 10_000_000, 6_000_000) for k in range(4)]
    events += [annotation(name, k * 10_000_000 + 7_000_000, 3_000_000) for k in range(4)]
    [finding] = unexplained_host_time(view(tmp_path, *steps(4, 10_000_000), *events))
    assert "\x1b" not in finding.message
    assert "\n" not in finding.message
    assert len(finding.message) < 300


# --- where


def test_the_spot_of_a_spelled_stack(tmp_path: Path) -> None:
    """Files of 2021 write the stack into the operator, innermost first."""
    stack = "torch/functional.py(3): f;train.py(12): step;main.py(2): <module>"
    called: Event = op("aten::mm", 0, 100)
    called["args"]["Call stack"] = stack
    look = view(tmp_path, called, launch(10, 5, 1), kernel("k", 20, 5, 1))
    row = int(np.flatnonzero(rows_named(look.trace, "aten::mm".__eq__, EventKind.HOST_OP))[0])
    assert user_source_of(look.trace, row) == ("train.py", 12, "step")
    assert user_source_of(look.trace, row + 1) == ("train.py", 12, "step")
    assert in_source(user_source_of(look.trace, -1)) == ""


ALL_RULES: tuple[Find, ...] = (
    launch_bound_steps, waiting_for_the_device, small_elementwise_operators, optimizer_by_parameter,
    gradients_set_to_zero, garbage_collection, compiling_in_the_loop, unexplained_host_time,
)  # fmt: skip


@pytest.mark.parametrize("find", ALL_RULES, ids=lambda find: find.__name__)
def test_nothing_is_said_of_nothing(find: Find, tmp_path: Path) -> None:
    for events in ([], [op("aten::mm", 0, 0)], [kernel("k", 0, 10, 1)], steps(2, 1000)):
        assert list(find(view(tmp_path, *events))) == []


def test_a_server_may_wait_where_nothing_is_recorded(tmp_path: Path) -> None:
    """Half of each step is in no call; what is inside a call of the model is no wait for requests."""
    events = [op("aten::mm", k * 1_000_000, 500_000) for k in range(4)]
    [waits] = unexplained_host_time(view(tmp_path, *steps(4, 1_000_000), *events))
    backward = [op("MmBackward0", k * 1_000_000 + 100, 1_000) for k in range(4)]
    [trains] = unexplained_host_time(view(tmp_path, *steps(4, 1_000_000), *events, *backward))
    calls = [annotation("[pl][module]Net: Net", k * 1_000_000, 999_000) for k in range(4)]
    [inside] = unexplained_host_time(view(tmp_path, *steps(4, 1_000_000), *events, *calls))
    assert waits.stake.low == 0
    assert min(waits.stake.high, trains.stake.low, inside.stake.low) > 400 * US
    assert (waits.confidence, trains.confidence) == ("low", "medium")
    assert "a server that waits for requests" in waits.why


def interrupted(place: Callable[[int], int]) -> list[Event]:
    """Four steps of 1 ms: twenty operators of a module, and a pause of 400 µs in it after so many of them."""
    events = steps(4, 1_000_000)
    for k in range(4):
        begin = k * 1_000_000
        events.append(annotation("[pl][module]Block: Network.block", begin, 1_000_000))
        events += [op("aten::mm", begin + 28_000 * n + 400_000 * (n >= place(k)), 28_000) for n in range(20)]
    return events


@pytest.mark.parametrize(("place", "confidence"), [(lambda k: 10, "medium"), (lambda k: 3 + 4 * k, "low")])
def test_what_comes_at_another_place_in_each_step_is_a_guess(
    place: Callable[[int], int], confidence: str, tmp_path: Path
) -> None:
    """A program pauses at its place; a process that wants the core comes at any."""
    [finding] = unexplained_host_time(view(tmp_path, *interrupted(place)))
    assert finding.confidence == confidence
    assert finding.title == "Host code in `[pl][module]Block: Network.block` runs while nothing is computed"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("kinetoscope/record/always_on/running.py(382): _tell_open", False),
        ("torch/autograd/profiler.py(844): _maybe_cupti_monitor", False),
        ("train.py(3): save", True),
    ],
)
def test_what_the_recorder_does_is_no_work_of_the_program(name: str, found: bool, tmp_path: Path) -> None:
    computed = [op("aten::mm", k * 1_000_000, 500_000) for k in range(4)]
    calls = [python(name, k * 1_000_000 + 500_000, 500_000) for k in range(4)]
    assert bool(list(unexplained_host_time(view(tmp_path, *steps(4, 1_000_000), *computed, *calls, TRAINS)))) is found
