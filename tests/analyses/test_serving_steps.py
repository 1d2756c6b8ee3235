"""Steps of a serving engine: what the names say, time on the device, gaps and their causes, shares."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import serving_steps
from kinetoscope.analyses.serving_steps import GAP_PARTS, SHARES
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.reading import read
from tests.catalog.samples import required
from tests.drawn import Event, annotation, job, kernel, launch, op, python, written
from tests.faults.engine import Engine, serving
from tests.model.graphs.test_attach import captured, replayed
from tests.notes import codes


def rows(of: Job, **params: Any) -> list[dict[str, Any]]:
    return serving_steps(of, **params).frame.to_dicts()


def work(name: str, at: int, start: int, duration: int, correlation: int, **more: Any) -> list[Event]:
    """A kernel that is launched in 10 ns at `at`."""
    call = launch(at, 10, correlation, name=more.pop("call", "cudaLaunchKernel"))
    return [call, kernel(name, start, duration, correlation, **more)]


TWO_STEPS = [
    annotation("execute_context_0(0)_generation_4(4)", 0, 100),
    *work("flash_fwd_splitkv_kernel", 40, 60, 100, 1),
    launch(150, 30, 90, name="cudaStreamSynchronize"),
    annotation("gpu_model_runner: postprocess", 180, 40),
    annotation("schedule: allocate_slots", 220, 40),
    *work("Memcpy HtoD (Pinned -> Device)", 265, 275, 10, 2, category="gpu_memcpy"),
    annotation("execute_context_1(6)_generation_4(4)", 300, 100),
    *work("cutlass_gemm", 350, 380, 100, 3, call="cudaGraphLaunch"),
    *work("void at::native::reduce_kernel<ArgMaxOps>", 410, 485, 15, 4),
]


def test_each_instant_before_a_step_has_one_cause(tmp_path: Path) -> None:
    first, second = rows(job(tmp_path, *TWO_STEPS))
    assert {name: first[name] for name in ("gap", *GAP_PARTS) if first[name]} == {
        "gap": 60, "gap_inputs": 40, "gap_launch": 20,
    }  # fmt: skip
    assert {name: second[name] for name in ("gap", *GAP_PARTS)} == {
        "gap": 210, "gap_synchronization": 20, "gap_detokenizing": 40, "gap_scheduler": 40, "gap_other": 30,
        "gap_inputs": 50, "gap_launch": 30,
    }  # fmt: skip
    assert (first["gap_cause"], second["gap_cause"], second["device_between"]) == ("inputs", "inputs", 10)


def test_what_the_device_does_in_a_step(tmp_path: Path) -> None:
    first, second = rows(job(tmp_path, *TWO_STEPS))
    assert (first["attention"], first["device_busy"], first["device_idle"], first["duration"]) == (100, 100, 0, 160)
    # Sampling that is launched after the step belongs to it.
    assert (second["gemm"], second["sampling"], second["device_busy"]) == (100, 15, 115)
    assert (second["device_idle"], second["duration"]) == (5, 500 - 160)
    assert (first["replayed"], second["replayed"]) == (0, 100 / 115)
    assert second["tokens_per_second"] == 10 * 1e9 / 340
    assert (second["start"], second["wall"], second["engine"]) == (300, 100, "vLLM")


def test_what_is_launched_in_experts_or_attention_is_theirs(tmp_path: Path) -> None:
    events = [
        annotation("step[DECODE bs=1]", 0, 1000),
        op("vllm::moe_forward", 0, 100),
        op("SortTokens", 10, 50),
        *work("sort", 20, 1000, 7, 1),
        python("nn.Module: Qwen3MoeDecoderLayer_3", 200, 300),
        *work("cutlass_gemm", 210, 1100, 11, 2),
        python("nn.Module: Qwen3MoeSparseMoeBlock_3", 230, 100),
        *work("cutlass_gemm", 240, 1200, 13, 3),
        op("aten::_scaled_dot_product_attention_math", 400, 50),
        op("aten::bmm", 401, 40),
        *work("cutlass_gemm", 410, 1300, 17, 4),
        op("vllm::moe_forward", 600, 100),
        *work("ncclDevKernel_AllReduce", 610, 1400, 19, 5),
        python("vllm/v1/sample/sampler.py(70): forward", 800, 100),
        op("aten::softmax", 801, 50),
        *work("softmax", 810, 1500, 23, 6),
    ]
    (row,) = rows(job(tmp_path, *events))
    assert {name: row[name] for name in SHARES} == {
        "attention": 17, "gemm": 11, "moe": 20, "communication": 19, "sampling": 23, "other": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, false, float, int>", "sampling"),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>",
            "sampling",
        ),
        ("_gumbel_sample_kernel", "sampling"),
        ("apply_token_bitmask_inplace_kernel", "sampling"),
        ("grid_sampler_2d_kernel<float>", "other"),
        ("upsample_bilinear2d_out_frame", "other"),
        ("_sum_bitmatrix_rows", "other"),
        ("topk_softmax_kernel", "moe"),
        ("void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, int>", "moe"),
    ],
)
def test_names_of_kernels_that_sample(name: str, share: str, tmp_path: Path) -> None:
    (row,) = rows(job(tmp_path, annotation("step[DECODE bs=1]", 0, 50), *work(name, 10, 30, 7, 1)))
    assert row[share] == 7


def test_the_end_of_a_step_is_no_preparation_of_the_next(tmp_path: Path) -> None:
    first = [annotation("step[DECODE bs=1]", 0, 100), *work("gemm", 0, 10, 30, 1)]
    second = [annotation("step[DECODE bs=1]", 150, 50), *work("gemm", 160, 180, 10, 2)]
    _, row = rows(job(tmp_path, *first, *second))
    parts = {name: row[name] for name in ("gap", *GAP_PARTS) if row[name]}
    assert parts == {"gap": 140, "gap_detokenizing": 60, "gap_other": 50, "gap_inputs": 10, "gap_launch": 20}


def test_what_other_threads_do_is_no_cause(tmp_path: Path) -> None:
    elsewhere = [
        annotation("schedule: allocate_slots", 0, 500, tid=9),
        launch(0, 500, 80, name="cudaStreamSynchronize", tid=9),
    ]
    steps = [annotation("step[DECODE bs=1]", 0, 30), *work("gemm", 10, 20, 10, 1)]
    later = [annotation("step[DECODE bs=1]", 100, 30), *work("gemm", 110, 130, 10, 2)]
    _, row = rows(job(tmp_path, *elsewhere, *steps, *later))
    assert (row["gap_scheduler"], row["gap_synchronization"], row["gap_other"]) == (0, 0, 70)


def test_two_engines_names_of_one_step_are_one_step(tmp_path: Path) -> None:
    outer = annotation("execute_8_context_1(sq5sk8sqsq25sqsk40)_generation_3(sq3sk30sqsq3sqsk30)", 0, 100)
    (row,) = rows(job(tmp_path, outer, annotation("step[MIXED bs=4]", 5, 90)))
    assert (row["engine"], row["kind"], row["batch"], row["tokens"]) == ("SGLang", "mixed", 4, 8)
    assert (row["prefill_tokens"], row["decode_requests"], row["context"]) == (5, 3, 38)
    assert (row["start"], row["wall"], row["duration"], row["device_busy"]) == (0, 100, None, 0)


def test_overlapping_steps_count_no_time_twice(tmp_path: Path) -> None:
    steps = [annotation("step[DECODE bs=1]", 100 * k, 90) for k in range(2)]
    first, second = rows(job(tmp_path, *steps, *work("gemm", 5, 10, 200, 1), *work("gemm", 110, 150, 100, 2, stream=8)))
    assert (first["duration"], second["duration"], second["gap"]) == (210, 100, 0)


def test_prefill_holds_up_decode(tmp_path: Path) -> None:
    names = [
        "execute_context_0(0)_generation_8(8)",
        "execute_context_1(90)_generation_8(8)",
        "execute_context_1(90)_generation_0(0)",
        "execute_context_2(90)_generation_0(0)",
        "execute_context_0(0)_generation_7(7)",
        "execute_context_1(90)_generation_0(0)",
    ]
    length = [50, 200, 300, 310, 70, 90]
    events, at = [], 0
    for k, (name, duration) in enumerate(zip(names, length, strict=True)):
        events += [annotation(name, at, 20), *work("gemm", at, at + 10, duration - 10, k + 1)]
        at += duration
    delay = [row["decode_delay"] for row in rows(job(tmp_path, *events))]
    # Decode steps of 5–8 requests take 50 and 70 ns: the median of nearest rank is 50. The last one holds up nothing.
    assert delay == [None, 150, 300, 310, None, None]


def test_a_server_without_requests_waits_for_nobody(tmp_path: Path) -> None:
    events = []
    for k, at in enumerate((0, 100, 200, 90_000)):
        events += [annotation("step[DECODE bs=1]", at, 30), *work("gemm", at + 10, at + 30, 50, k + 1)]
    answer = serving_steps(job(tmp_path, *events))
    last = answer.frame.to_dicts()[-1]
    assert (last["pause"], last["gap"], last["duration"]) == (90_000 - 280, 30, 80)
    assert answer.frame["pause"].null_count() == 3
    assert any(note.startswith("Before 1 step the server had no requests, 8.97e-05 s in all") for note in answer.notes)


def test_proposed_tokens_that_were_accepted(tmp_path: Path) -> None:
    def verify(at: int, batch: int, context: int) -> Event:
        return annotation(f"step[VERIFY bs={batch} g_sq={4 * batch} g_sk={context} g_sqsq=1 g_sqsk=1]", at, 50)

    # Σ kv grows by 2 · 1 new token and 4 accepted ones of the 6 proposed; then one request has ended.
    steps = [verify(0, 2, 108), annotation("step[DRAFT bs=2]", 60, 10), verify(100, 2, 114), verify(200, 1, 60)]
    assert [row["acceptance"] for row in rows(job(tmp_path, *steps))] == [4 / 6, None, None, None]


def test_steps_that_no_engine_named(tmp_path: Path) -> None:
    calls = [python("sglang/srt/model_executor/model_runner.py(9): forward", 100 * k, 90) for k in range(3)]
    answer = serving_steps(job(tmp_path, *calls))
    assert answer.frame["engine"].to_list() == ["SGLang"] * 3
    assert answer.frame["kind"].null_count() == 3
    assert "The 3 steps are the Python calls of SGLang's forward." in answer.notes
    assert "STACKS_SLOW_ENGINE" in codes(answer.notes)
    generate = [event for k in range(4) for event in (annotation("token", 100 * k, 99), op("aten::mm", 100 * k, 50))]
    assert serving_steps(job(tmp_path, *generate)).frame.height == 4


def test_training_has_no_steps_of_serving(tmp_path: Path) -> None:
    answer = serving_steps(job(tmp_path, op("AddmmBackward0", 0, 10), annotation("ProfilerStep#1", 0, 20)))
    assert (answer.frame.height, answer.notes) == (
        0,
        ("The program serves no requests: no serving engine named a step.",),
    )


def test_ranks_wait_for_the_slowest_that_has_the_same_step(tmp_path: Path) -> None:
    name = "execute_context_0(0)_generation_4(4)"
    for rank, (length, second) in enumerate([(100, name), (130, name.replace("4", "5"))]):
        events = [
            annotation(name, 0, 20),
            *work("gemm", 0, 10, length, 1),
            *work("ncclDevKernel_AllReduce", 5, 200, 50, 2),
        ]
        events += [annotation(second, 300, 20), *work("gemm", 300, 310, length, 3)]
        written(tmp_path / f"rank{rank}.json", *events, distributedInfo={"rank": rank, "world_size": 2})
    waiting = [(row["rank"], row["step"], row["rank_waiting"]) for row in rows(read(str(tmp_path), jobs=1))]
    assert waiting == [(0, 0, 30), (0, 1, None), (1, 0, 0), (1, 1, None)]


def test_a_range_of_time_and_steps_choose_rows(tmp_path: Path) -> None:
    drawn = job(tmp_path, *TWO_STEPS)
    assert [row["step"] for row in rows(drawn, select=Selection(time=(200, 900)))] == [1]
    assert [row["step"] for row in rows(drawn, select=Selection(steps=(0,)))] == [0]
    assert [
        row["step"] for row in rows(drawn, select=Selection(annotation="execute_context_1(6)_generation_4(4)"))
    ] == [1]


def test_the_capture_of_a_graph_says_how_many_requests_it_is_for(tmp_path: Path) -> None:
    events = [event | {"name": "step[DECODE bs=5]"} if event["name"] == "step" else event for event in replayed(2)]
    graph, capture = written(tmp_path / "run.json", *events), written(tmp_path / "capture.json", *captured())
    padded = [(row["batch"], row["padded_batch"]) for row in rows(read(graph, capture=capture, jobs=1))]
    assert padded == [(5, 8), (5, 8)]
    assert [row["padded_batch"] for row in rows(read(graph, jobs=1))] == [None, None]


def test_what_was_launched_before_the_recording_is_no_gap(tmp_path: Path) -> None:
    early = [annotation("step[DECODE bs=1]", 0, 100_000), *work("gemm", 10_000, 5_000_000, 1_000_000, 1)]
    (row,) = rows(job(tmp_path, *early))
    assert (row["gap"], row["duration"]) == (0, 1_000_000)
    # Nor is the time after a copy that runs beside it a hole in the step.
    early += work("Memcpy HtoD (Pinned -> Device)", 20_000, 40_000, 500, 2, category="gpu_memcpy", stream=9)
    (row,) = rows(job(tmp_path, *early))
    assert (row["device_idle"], row["duration"], row["device_busy"]) == (0, 1_000_000, 1_000_000)


spans = st.tuples(st.integers(0, 300), st.integers(0, 60))
pieces = st.lists(
    st.tuples(
        spans, st.integers(0, 300), st.sampled_from(["gemm", "flash_fwd", "ncclKernel_AllReduce", "argmax", "add"]),
        st.integers(7, 8),
    ),
    max_size=12,
)  # fmt: skip


@given(steps=st.lists(spans, max_size=5), pieces=pieces, phases=st.lists(spans, max_size=5))
def test_sums_are_exact_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    pieces: list[tuple[tuple[int, int], int, str, int]],
    phases: list[tuple[int, int]],
) -> None:
    events = [annotation(f"step[DECODE bs={k}]", *span) for k, span in enumerate(steps)]
    events += [annotation(f"schedule: {k}", *span) for k, span in enumerate(phases)]
    for k, ((start, duration), at, name, stream) in enumerate(pieces):
        events += [launch(at, 5, k + 1), kernel(name, start, duration, k + 1, stream=stream)]
    if not events:
        return
    for row in rows(job(tmp_path_factory.mktemp("drawn"), *events)):
        assert sum(row[name] for name in SHARES) == row["device_busy"]
        host = (row["start"], row["start"] + row["wall"])
        own = [(*span, name) for span, at, name, _ in pieces if host[0] <= at - min_start(events) < host[1]]
        if not any(name == "argmax" for *_, name in own) and "argmax" not in (name for _, _, name, _ in pieces):
            assert row["device_busy"] == len({t for start, length, _ in own for t in range(start, start + length)})
        if row["duration"] is None:
            continue
        assert sum(row[name] for name in GAP_PARTS) == row["gap"]
        assert row["duration"] == row["gap"] + row["device_between"] + row["device_busy"] + row["device_idle"]
        assert min(row[name] for name in (*GAP_PARTS, "device_idle", "device_between")) >= 0


def min_start(events: list[Event]) -> int:
    """Where the trace is shown to begin, ns."""
    start: float = min(event["ts"] for event in events)
    return round(start * 1000)


def test_the_samples(shared_traces: Path) -> None:
    samples = shared_traces.parent / "samples" / "serving"
    required(samples)
    (row,) = rows(read(str(samples / "vllm_decode_full" / "graph_execution.json.gz"), jobs=1))
    assert [row[name] for name in ("engine", "kind", "batch", "tokens", "context")] == ["vLLM", "decode", 32, 32, 55086]
    assert sum(row[name] for name in SHARES) == row["device_busy"]
    assert row["replayed"] > 0.96
    assert row["moe"] > row["device_busy"] / 2
    (row,) = rows(read(str(samples / "sglang_prefilldecode"), jobs=1))
    assert [row[name] for name in ("engine", "kind", "batch", "tokens")] == ["SGLang", "prefill", 15, 15360]
    assert (row["context"], row["replayed"]) == (15360, 0)
    assert row["device_idle"] < row["duration"] // 100  # the device was busy with work from before the recording
    assert sum(row[name] for name in SHARES) == row["device_busy"]


SCHEMES = {
    "vLLM, requests": ("execute_new_2_cached_6", "execute_new_0_cached_8"),
    "vLLM, tokens": ("execute_context_2(900)_generation_6(6)", "execute_context_0(0)_generation_8(8)"),
    "vLLM, detailed": (
        "execute_906_context_2(sq900sk950sqsq500000sqsk520000)_generation_6(sq6sk600sqsq6sqsk600)",
        "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk1550sqsq8sqsk1550)",
    ),
    "SGLang, plain": ("step[MIXED bs=8]", "step[DECODE bs=8]"),
    "SGLang, detailed": (
        "step[MIXED bs=8 c=2 g=6 c_sq=900 c_sk=950 c_sqsq=500000 c_sqsk=520000 g_sq=6 g_sk=600 g_sqsq=6 g_sqsk=600]",
        "step[DECODE bs=8 g_sqsq=8 g_sqsk=1550 g_sk=1550 forward_id=3]",
    ),
    "ATOM": ("decode[bs=8 tok=906 p=2 d=6]", "decode[bs=8/16 tok=8 d=8]"),
    "TensorRT-LLM": (
        "[Executor] _forward_step 1: 2 ctx reqs, 900 ctx tokens, 6 gen reqs, 6 gen tokens",
        "[Executor] _forward_step 2: 0 ctx reqs, 8 gen reqs",
    ),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_naming_scheme(scheme: str, tmp_path: Path) -> None:
    mixed, decode = SCHEMES[scheme]
    steps = [annotation(mixed, 0, 50), annotation(decode, 200, 50)]
    launched = [*work("gemm", 10, 30, 100, 1), *work("gemm", 210, 230, 40, 2, call="hipGraphLaunch")]
    found = rows(job(tmp_path, *steps, *launched))
    engine = scheme.partition(",")[0]
    assert [(row["engine"], row["kind"], row["batch"]) for row in found] == [
        (engine, "mixed", 8),
        (engine, "decode", 8),
    ]
    tokens = {"vLLM, requests": None, "SGLang, plain": None}.get(scheme, 906)
    assert [row["tokens"] for row in found] == [tokens, None if scheme in ("vLLM, requests", "TensorRT-LLM") else 8]
    context = 1550 if "detailed" in scheme else None
    assert [row["context"] for row in found] == [context, context]
    assert [row["padded_batch"] for row in found] == [None, 16 if scheme == "ATOM" else None]
    # The mixed step takes 130 ns, from its range on; the decode step 140 ns, 100 of them a gap.
    assert [(row["duration"], row["gap"], row["replayed"]) for row in found] == [(130, 30, 0), (140, 100, 1)]
    assert [row["decode_delay"] for row in found] == [0, None]


def test_a_simulated_engine_waits_for_what_its_host_does(tmp_path: Path) -> None:
    """Each step the host schedules for 250 µs, prepares for 100 µs, and answers for 150 µs, while the device waits."""
    serving(Engine(words="sglang", ahead=False, scopes=True, layers=4), steps=12)(tmp_path)
    found = rows(read(str(tmp_path), jobs=1))[1:]
    median = {name: statistics.median(row[name] for row in found) for name in GAP_PARTS}
    assert median["gap_scheduler"] == pytest.approx(250_000, rel=0.1)
    assert median["gap_detokenizing"] == pytest.approx(150_000, rel=0.1)
    assert median["gap_inputs"] == pytest.approx(110_000, rel=0.2)  # and copies of the inputs
    assert median["gap_other"] < 10_000
