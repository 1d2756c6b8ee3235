from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Trace
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.steps.proposed_steps import StepCandidate, step_candidates
from kinetoscope.model.steps.steps import Steps, steps
from tests import drawn


def found(folder: Path, *events: drawn.Event, steps_by: str | None = None) -> Steps:
    return steps(drawn.job(folder, *events).trace(), steps_by)


def pairs(intervals: Intervals) -> list[tuple[int, int]]:
    return list(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))


def step(number: int, start: int, length: int = 100, *, tid: int = 1) -> drawn.Event:
    return drawn.annotation(f"ProfilerStep#{number}", start, length, tid=tid)


# --- marked by the profiler


def test_the_profiler_numbers_its_steps(tmp_path: Path) -> None:
    marked = found(tmp_path, step(11, 100), step(10, 0))
    assert (marked.number.tolist(), pairs(marked.host)) == ([10, 11], [(0, 100), (100, 200)])
    assert (marked.origin, marked.note) == ("profiler", None)


def test_files_of_2021_call_steps_operators(tmp_path: Path) -> None:
    marked = found(tmp_path, drawn.event("Operator", "ProfilerStep#2", 0, 100))
    assert (marked.number.tolist(), marked.origin) == ([2], "profiler")


def test_shadows_of_steps_on_the_device_are_no_steps(tmp_path: Path) -> None:
    shadow = drawn.kernel("ProfilerStep#2", 50, 100, 1, category="gpu_user_annotation")
    assert len(found(tmp_path, step(2, 0), shadow)) == 1


def test_steps_that_another_thread_marks_at_the_same_time_count_once(tmp_path: Path) -> None:
    assert found(tmp_path, step(2, 0), step(2, 10, 50, tid=2), step(3, 100)).number.tolist() == [2, 3]


@pytest.mark.parametrize("name", ["ProfilerStep#", "ProfilerStep#x", "my ProfilerStep#3", "ProfilerStep#3!"])
def test_names_that_only_look_like_steps_mark_none(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, drawn.annotation(name, 0, 100)).origin == "window"


# --- as the device sees them


def test_a_step_lasts_until_the_work_launched_in_it_is_done(tmp_path: Path) -> None:
    late = [drawn.launch(90, 5, 1), drawn.kernel("gemm", 150, 30, 1)]
    assert pairs(found(tmp_path, step(0, 0), step(1, 100), *late).device) == [(0, 180), (180, 200)]


def test_a_step_that_is_over_before_the_device_begins_it_is_empty(tmp_path: Path) -> None:
    late = [drawn.launch(90, 5, 1), drawn.kernel("gemm", 150, 200, 1)]
    assert pairs(found(tmp_path, step(0, 0), step(1, 100), step(2, 200, 300), *late).device) == [
        (0, 350),
        (350, 350),
        (350, 500),
    ]


@pytest.mark.parametrize("before", [[], [drawn.launch(-20, 5, 8)]], ids=["not recorded", "recorded"])
def test_work_launched_before_the_first_step_delays_it(tmp_path: Path, before: list[drawn.Event]) -> None:
    own = [drawn.launch(10, 5, 1), drawn.kernel("gemm", 60, 10, 1)]
    assert pairs(found(tmp_path, step(0, 0), *own, *before, drawn.kernel("gemm", 20, 30, 8)).device) == [(50, 100)]


def test_unlinked_work_delays_nothing_once_the_first_steps_own_work_has_begun(tmp_path: Path) -> None:
    own = [drawn.launch(10, 5, 1), drawn.kernel("gemm", 40, 10, 1)]
    assert pairs(found(tmp_path, step(0, 0), *own, drawn.kernel("gemm", 20, 30, 8)).device) == [(0, 100)]


def test_unlinked_work_delays_nothing_if_the_first_step_has_no_work(tmp_path: Path) -> None:
    later = [drawn.launch(110, 5, 1), drawn.kernel("gemm", 120, 10, 1)]
    unlinked = drawn.kernel("gemm", 150, 40, 8)
    assert pairs(found(tmp_path, step(0, 0), step(1, 100), *later, unlinked).device) == [(0, 100), (100, 200)]


instants = st.integers(0, 60)


@given(
    bounds=st.lists(instants, min_size=1, max_size=6, unique=True).map(sorted),
    gap=st.integers(0, 3),
    work=st.lists(st.tuples(st.none() | instants, st.integers(-10, 80), st.integers(0, 30)), max_size=8),
)
def test_device_steps_are_what_the_formula_says(
    tmp_path_factory: pytest.TempPathFactory,
    bounds: list[int],
    gap: int,
    work: list[tuple[int | None, int, int]],
) -> None:
    host = [(start, max(end - gap, start)) for start, end in zip(bounds, [*bounds[1:], 60], strict=True)]
    events = [step(number, start, end - start) for number, (start, end) in enumerate(host)]
    for number, (launched, start, length) in enumerate(work):
        events += [] if launched is None else [drawn.launch(launched, 1, number + 1)]
        events.append(drawn.kernel("gemm", start, length, number + 1))

    def step_of(launched: int | None) -> int | None:
        inside = [k for k, (start, end) in enumerate(host) if launched is not None and start <= launched < end]
        return inside[0] if inside else None

    placed = [(step_of(launched), start, start + length) for launched, start, length in work]
    own = [start for place, start, _ in placed if place == 0]
    until = max([host[0][0], *(end for place, _, end in placed if place is None and own and end <= min(own))])
    expected = []
    for k, (start, end) in enumerate(host):
        begin = max(until, start)
        until = max([begin, end, *(done for place, _, done in placed if place == k)])
        expected.append((begin, until))
    assert pairs(found(tmp_path_factory.getbasetemp(), *events).device) == expected


# --- marked by the user


def test_the_user_names_the_annotation_that_is_a_step(tmp_path: Path) -> None:
    mine = [drawn.annotation("train_step", 10 * k, 5) for k in range(2)]
    named = found(tmp_path, step(7, 0), *mine, steps_by="train_step")
    assert (named.number.tolist(), pairs(named.host), named.origin) == ([0, 1], [(0, 5), (10, 15)], "annotation")


def test_the_user_may_name_what_the_annotations_begin_with(tmp_path: Path) -> None:
    mine = [drawn.annotation(f"batch {k}", 10 * k, 5) for k in range(3)]
    assert len(found(tmp_path, *mine, drawn.annotation("epoch", 0, 50), steps_by="batch")) == 3


def test_a_name_that_is_there_beats_names_that_begin_with_it(tmp_path: Path) -> None:
    mine = [drawn.annotation("batch", 0, 5), drawn.annotation("batch 1", 10, 5)]
    assert len(found(tmp_path, *mine, steps_by="batch")) == 1


def test_a_name_that_is_not_there_is_said_and_the_profilers_steps_count(tmp_path: Path) -> None:
    named = found(tmp_path, step(7, 0), steps_by="trian_step")
    assert (named.number.tolist(), named.origin) == ([7], "profiler")
    assert named.note == "No annotation is called 'trian_step', nor begins with that."


# --- proposed


def test_an_annotation_that_covers_the_window_is_proposed(tmp_path: Path) -> None:
    mine = [drawn.annotation(f"iteration {k}", 100 * k, 90) for k in range(3)]
    layers = [drawn.annotation("layer", 100 * k + 10 * layer, 9) for k in range(3) for layer in range(5)]
    proposed = found(tmp_path, *mine, *layers)
    assert (pairs(proposed.host), proposed.origin) == ([(0, 90), (100, 190), (200, 290)], "repetition")
    assert proposed.note == "No steps were marked; 3 are proposed from the annotation 'iteration #'."


@pytest.mark.parametrize("name", ["enumerate(DataLoader)#_Iter.__next__", "Optimizer.zero_grad#SGD.zero_grad"])
def test_parts_of_steps_are_not_proposed_as_steps(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, *(drawn.annotation(name, 100 * k, 90) for k in range(4))).origin == "window"


def test_an_annotation_that_covers_little_is_not_proposed(tmp_path: Path) -> None:
    assert found(tmp_path, *(drawn.annotation("save", 100 * k, 50) for k in range(4))).origin == "window"


def test_an_outlier_does_not_make_steps_of_what_covers_little(tmp_path: Path) -> None:
    pieces = [drawn.annotation("save", 10 * k, 6) for k in range(11)]
    assert found(tmp_path, *pieces, drawn.annotation("save", 110, 697)).origin == "window"


def test_the_first_step_may_warm_up(tmp_path: Path) -> None:
    pieces = [drawn.annotation("iteration 0", 0, 5000), *(drawn.annotation("iteration 1", k, 90) for k in (5000, 5100))]
    assert len(found(tmp_path, *pieces, drawn.annotation("iteration 2", 5200, 90))) == 4


@pytest.mark.parametrize("name", ["## Call CompiledFxGraph f4ii ##", "Torch-Compiled Region: 0/0", "capture_32_FULL"])
def test_parts_of_compiled_code_are_not_proposed_as_steps(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, *(drawn.annotation(name, 100 * k, 90) for k in range(4))).origin == "window"


ENGINES = {
    "vLLM": ["execute_context_2(14721)_generation_0(0)", "execute_context_0(0)_generation_9(9)"],
    "vLLM, in detail": [
        "execute_8_context_0(sq0sk0)_generation_8(sq8sk55)",
        "execute_9_context_1(sq1sk1)_generation_8()",
    ],
    "SGLang": ["step[EXTEND bs=2 toks=14721]", "step[DECODE bs=2 g_sq=2 forward_id=7]"],
    "ATOM": ["prefill[bs=2 tok=9 ctx=[1,2]]", "decode[bs=2 tok=2 d=1]"],
    "TensorRT-LLM": ["[Executor] _forward_step 1: 2 ctx reqs, 0 gen reqs", "[Executor] _forward_step 2: 0 ctx reqs"],
}


@pytest.mark.parametrize("names", ENGINES.values(), ids=ENGINES)
def test_the_steps_of_an_engine_are_steps_however_long_they_are(tmp_path: Path, names: list[str]) -> None:
    marks = [drawn.annotation(names[0], 0, 500), drawn.annotation(names[1], 600, 10)]
    layers = [drawn.annotation("layer", 100 * k, 90) for k in range(5)]
    proposed = found(tmp_path, *marks, *layers)
    assert (pairs(proposed.host), proposed.origin) == ([(0, 500), (600, 610)], "engine")


def test_of_two_engines_names_those_count_that_cover_most(tmp_path: Path) -> None:
    outer = [drawn.annotation(f"execute_{k}_context_0(sq0)_generation_1(sq1)", 100 * k, 90) for k in range(3)]
    inner = [drawn.annotation(f"step[DECODE bs={k}]", 100 * k + 10, 70) for k in range(3)]
    assert pairs(found(tmp_path, *outer, *inner).host) == [(0, 90), (100, 190), (200, 290)]


def test_annotations_that_may_be_steps(tmp_path: Path) -> None:
    outer = [drawn.annotation(f"iteration {k}", 100 * k, 90) for k in range(3)]
    inner = [drawn.annotation("forward", 100 * k + 10, 40) for k in range(3)]
    engine = [drawn.annotation(f"step[DECODE bs={k}]", 100 * k + 60, 10) for k in range(2)]
    other = [drawn.annotation("once", 0, 300), *(drawn.annotation("nccl:all_reduce", 10 * k, 5) for k in range(9))]
    trace = drawn.job(tmp_path, *outer, *inner, *engine, *other).trace()
    assert step_candidates(trace) == (
        StepCandidate("step[DECODE bs=", 2, 20 / 300),
        StepCandidate("iteration ", 3, 270 / 300),
        StepCandidate("forward", 3, 120 / 300),
    )
    for each in step_candidates(trace):
        assert len(steps(trace, each.name)) == each.count


def test_hostile_names_of_annotations_cost_no_time(tmp_path: Path) -> None:
    names = ["(" * 50_000, "[" + "1" * 50_000, "([" * 9_000 + "1" + "])" * 9_000, "", "(1)", "  "]
    marks = [drawn.annotation(name, 10 * k, 5) for k, name in enumerate(3 * names)]
    trace = drawn.job(tmp_path, *marks).trace()
    assert len(steps(trace)) == 1
    assert {each.count for each in step_candidates(trace)} == {3}


def test_steps_end_where_the_optimizers_do(tmp_path: Path) -> None:
    optimizer = [drawn.annotation("Optimizer.step#SGD.step", 100 * k + 80, 10) for k in range(3)]
    proposed = found(tmp_path, drawn.op("aten::mm", 5, 10), *optimizer)
    assert pairs(proposed.host) == [(5, 90), (90, 190), (190, 290)]
    assert proposed.note == "No steps were marked; 3 are proposed from the ends of Optimizer.step."


def test_of_two_optimizers_the_one_that_steps_least_often_counts(tmp_path: Path) -> None:
    critic = [drawn.annotation("Optimizer.step#Adam.step", 100 * k + d, 10) for k in range(3) for d in (20, 50)]
    generator = [drawn.annotation("Optimizer.step#SGD.step", 100 * k + 80, 10) for k in range(3)]
    once = drawn.annotation("Optimizer.step#Muon.step", 95, 2)  # too seldom to be the step
    assert pairs(found(tmp_path, *critic, *generator, once).host) == [(20, 90), (90, 190), (190, 290)]


def launched(names: list[str]) -> list[drawn.Event]:
    """A kernel of each name, launched one after the other, 10 ns apart."""
    calls = [drawn.launch(10 * k, 5, k + 1) for k in range(len(names))]
    return [*calls, *(drawn.kernel(name, 10 * k + 5, 5, k + 1) for k, name in enumerate(names))]


SEQUENCE = ["begin", *(f"layer {k % 7}" for k in range(109))]


def test_a_sequence_of_launches_that_repeats_is_proposed(tmp_path: Path) -> None:
    proposed = found(tmp_path, *launched(["warm-up", *(4 * SEQUENCE), "begin"]))
    assert pairs(proposed.host) == [(10 + 1100 * k, 1110 + 1100 * k) for k in range(4)]
    assert proposed.origin == "repetition"


@pytest.mark.parametrize(
    "names",
    [
        2 * SEQUENCE,
        30 * ["begin", "end"],
        [name if name == "begin" else f"{name} of {k}" for k in range(5) for name in SEQUENCE],
    ],
    ids=["too few", "too short", "never the same"],
)
def test_other_sequences_of_launches_are_not_proposed(tmp_path: Path, names: list[str]) -> None:
    assert found(tmp_path, *launched(names)).origin == "window"


def test_sequences_of_which_one_takes_most_of_the_time_are_not_proposed(tmp_path: Path) -> None:
    calls = launched([*(4 * SEQUENCE), "begin"])
    late = [{**each, "ts": each["ts"] + 100} if each["ts"] >= 3.3 else each for each in calls]
    assert found(tmp_path, *late).origin == "window"


def test_a_graph_that_launches_a_sequence_several_times_makes_no_steps_of_no_length(tmp_path: Path) -> None:
    kernels = [drawn.kernel(name, 5 + 5 * k, 5, 1) for k, name in enumerate(4 * SEQUENCE)]
    assert found(tmp_path, drawn.launch(0, 5, 1, name="cudaGraphLaunch"), *kernels).origin == "window"


def iterations(count: int, names: list[str], *, first: int = 0) -> list[drawn.Event]:
    """Operators of the main thread, one after the other, 10 ns apart."""
    return [drawn.op(name, first + 10 * k, 8) for k, name in enumerate(count * names)]


LOOP = ["aten::linear", "aten::relu", *(["aten::mm", "aten::add"] * 4)]


def test_operators_that_repeat_exactly_without_device_work_are_steps(tmp_path: Path) -> None:
    proposed = found(tmp_path, drawn.op("aten::zeros", 0, 5), *iterations(10, LOOP, first=100))
    assert pairs(proposed.host) == [(100 + 100 * k, 200 + 100 * k - 2 * (k == 9)) for k in range(10)]
    assert proposed.note == "No steps were marked; 10 are proposed from a sequence of operators that repeats."


@pytest.mark.parametrize(
    "events",
    [
        iterations(2, [f"aten::op{k}" for k in range(40)]),
        iterations(10, ["aten::linear", "aten::relu"]),
        [*iterations(6, LOOP), *iterations(1, ["aten::a", "aten::b"] * 20, first=600)],
        [drawn.python("nn.Module: Encoder_0", 0, 700), *iterations(6, LOOP)],
    ],
    ids=["too few", "too short", "not to the end", "layers of a module"],
)
def test_other_operators_that_repeat_are_no_steps(tmp_path: Path, events: list[drawn.Event]) -> None:
    assert found(tmp_path, *events).origin == "window"


def test_with_device_work_operators_make_no_steps(tmp_path: Path) -> None:
    work = [drawn.launch(1, 2, 1), drawn.kernel("gemm", 5, 5, 1)]
    assert found(tmp_path, *work, *iterations(10, LOOP)).origin == "window"


def test_one_step_of_an_engine_is_a_step(tmp_path: Path) -> None:
    one = found(tmp_path, drawn.annotation("execute_context_2(14721)_generation_0(0)", 0, 500))
    assert (one.origin, len(one)) == ("engine", 1)


def test_without_any_pattern_the_window_is_one_step(tmp_path: Path) -> None:
    one = found(tmp_path, drawn.op("aten::mm", 10, 50), drawn.op("aten::mm", 100, 20, tid=2))
    assert (one.number.tolist(), pairs(one.host), one.origin) == ([0], [(10, 120)], "window")
    assert one.note == "No steps were marked, and nothing repeats as steps do: the whole window counts as one."


def test_without_host_calls_the_window_is_that_of_the_device(tmp_path: Path) -> None:
    assert pairs(found(tmp_path, drawn.kernel("gemm", 10, 50, 1)).host) == [(10, 60)]


def test_an_empty_trace_has_one_empty_step(tmp_path: Path) -> None:
    trace: Trace = drawn.job(tmp_path).trace()
    assert pairs(steps(trace).device) == [(0, 0)]


def test_the_python_calls_of_an_engine_are_steps_where_it_named_none(tmp_path: Path) -> None:
    calls = [drawn.python("vllm/v1/worker/gpu_model_runner.py(9): execute_model", 100 * k, 90 - k) for k in range(3)]
    proposed = found(tmp_path, *calls, drawn.python("vllm/v1/worker/gpu_model_runner.py(3): load_model", 400, 900))
    assert pairs(proposed.host) == [(0, 90), (100, 189), (200, 288)]
    assert proposed.note == "The 3 steps are the Python calls of vLLM's execute_model."


def test_a_window_without_steps_has_the_work_whose_launch_is_missing(tmp_path: Path) -> None:
    """Of a recording whose beginning was cut off, all that it has is in the window; no step is delayed by it."""
    cut = drawn.kernel("copy", 10, 500, correlation=1)
    own = (drawn.op("aten::mm", 0, 600), drawn.launch(520, 10, 2), drawn.kernel("gemm", 540, 20, correlation=2))
    assert pairs(found(tmp_path, cut, *own).device) == [(0, 600)]
    [delayed] = pairs(found(tmp_path, step(1, 0, 600), cut, *own).device)
    assert delayed == (510, 600)
