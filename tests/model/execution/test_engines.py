"""Each form of a name that an engine gives to its steps, and what it says."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.execution.engines import ENGINES, PartOfBatch, ServingStep, engine_of, parsed

NOTHING = PartOfBatch(0, 0, 0, 0, 0)


def step(
    engine: str, kind: str | None, batch: int | None = None, tokens: int | None = None, **more: Any
) -> ServingStep:
    return ServingStep(engine, kind, batch, tokens=tokens, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        # vLLM, its three forms
        (
            "execute_new_3_cached_7",
            step("vLLM", "mixed", 10, prefill=PartOfBatch(3), decode=PartOfBatch(7)),
        ),
        ("execute_new_0_cached_7", step("vLLM", "decode", 7, prefill=NOTHING, decode=PartOfBatch(7))),
        (
            "execute_context_2(14721)_generation_0(0)",
            step("vLLM", "prefill", 2, 14721, prefill=PartOfBatch(2, 14721), decode=NOTHING),
        ),
        (
            "execute_context_1(888_788544)_generation_0(0)",
            step("vLLM", "prefill", 1, 888, prefill=PartOfBatch(1, 888), decode=NOTHING),
        ),
        (
            "execute_context_0(0)_generation_64(256)",
            step("vLLM", "verify", 64, 256, prefill=NOTHING, decode=PartOfBatch(64, 256)),
        ),
        ("execute_context_0(0)_generation_0(0)", step("vLLM", "idle", 0, 0, prefill=NOTHING, decode=NOTHING)),
        (
            "execute_6147_context_2(sq6144sk7144sqsq20971520sqsk23019520)_generation_3(sq3sk6144sqsq3sqsk6144)",
            step(
                "vLLM",
                "mixed",
                5,
                6147,
                prefill=PartOfBatch(2, 6144, 7144, 20971520, 23019520),
                decode=PartOfBatch(3, 3, 6144, 3, 6144),
            ),
        ),
        # SGLang, plain
        (
            "step[EXTEND bs=2 toks=14721]",
            step("SGLang", "prefill", 2, 14721, prefill=PartOfBatch(2, 14721), decode=NOTHING),
        ),
        ("step[DECODE bs=64]", step("SGLang", "decode", 64, 64, prefill=NOTHING, decode=PartOfBatch(64, 64))),
        ("step[MIXED bs=9]", step("SGLang", "mixed", 9)),
        ("step[IDLE bs=0]", step("SGLang", "idle", 0, 0, prefill=NOTHING, decode=NOTHING)),
        ("step[VERIFY bs=4]", step("SGLang", "verify", 4, prefill=NOTHING, decode=PartOfBatch(4))),
        ("step[TARGET_VERIFY bs=4]", step("SGLang", "verify", 4, prefill=NOTHING, decode=PartOfBatch(4))),
        ("step[DRAFT bs=4]", step("SGLang", "draft", 4, prefill=NOTHING, decode=PartOfBatch(4))),
        ("step[DRAFT_EXTEND_V2 bs=4]", step("SGLang", "draft", 4, prefill=NOTHING, decode=PartOfBatch(4))),
        ("step[SPLIT_PREFILL bs=1]", step("SGLang", "prefill", 1, prefill=PartOfBatch(1), decode=NOTHING)),
        ("step[PREBUILT bs=1]", step("SGLang", None, 1)),
        # SGLang, detailed: pairs in any order
        (
            "step[EXTEND bs=2 toks=5 c_sqsq=13 c_sqsk=20 c_sk=8]",
            step("SGLang", "prefill", 2, 5, prefill=PartOfBatch(2, 5, 8, 13, 20), decode=NOTHING),
        ),
        (
            "step[DECODE bs=64 g_sqsq=64 g_sqsk=131072 g_sk=131072 forward_id=12]",
            step(
                "SGLang",
                "decode",
                64,
                64,
                prefill=NOTHING,
                decode=PartOfBatch(64, 64, 131072, 64, 131072),
                forward_id=12,
            ),
        ),
        (
            "step[VERIFY bs=2 g_sq=8 g_sqsq=32 g_sqsk=400 g_sk=100]",
            # The 2 · 4 tokens that are verified are not in the sums of the name, and the kernels read them.
            step("SGLang", "verify", 2, 8, prefill=NOTHING, decode=PartOfBatch(2, 8, 108, 32, 432)),
        ),
        (
            "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]",
            step("SGLang", "verify", 64, 128, prefill=NOTHING, decode=PartOfBatch(64, 128, 131072, 256, 262144)),
        ),
        (
            "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
            step("SGLang", "mixed", 2, 6, prefill=PartOfBatch(1, 5, 8, 25, 40), decode=PartOfBatch(1, 1, 12, 1, 12)),
        ),
        # ATOM, plain and detailed
        (
            "prefill[bs=2 tok=14721 ctx=[7803, 6918]]",
            step("ATOM", "prefill", 2, 14721, prefill=PartOfBatch(2, 14721), decode=NOTHING),
        ),
        (
            "prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3]",
            step("ATOM", "prefill", 6, 17408, prefill=PartOfBatch(6, 17408), decode=NOTHING),
        ),
        (
            "decode[bs=117/128 tok=117 d=117]",
            step("ATOM", "decode", 117, 117, padded_batch=128, prefill=NOTHING, decode=PartOfBatch(117, 117)),
        ),
        (
            "decode[bs=32 tok=128 d=32 spec=3 sqsq=512 sqsk=262144 sk=65536]",
            step("ATOM", "verify", 32, 128, prefill=NOTHING, decode=PartOfBatch(32, 128, 65536, 512, 262144)),
        ),
        (
            # What the sums of both parts together are, no part has.
            "decode[bs=128 tok=384 p=2 d=126 sqsq=132612 sqsk=1114112 sk=258048 tbo=1]",
            step("ATOM", "mixed", 128, 384, prefill=PartOfBatch(2), decode=PartOfBatch(126)),
        ),
        # TensorRT-LLM
        (
            "[Executor] _forward_step 12: 0 ctx reqs, 64 gen reqs",
            step("TensorRT-LLM", "decode", 64, prefill=NOTHING, decode=PartOfBatch(64), forward_id=12),
        ),
        (
            "[Executor] _forward_step 7: 1 ctx reqs, 512 ctx tokens, 32 gen reqs",
            step("TensorRT-LLM", "mixed", 33, prefill=PartOfBatch(1, 512), decode=PartOfBatch(32), forward_id=7),
        ),
        # A form that is newer than this: the engine is known, and nothing else
        ("execute_context_two", None),
        ("execute_context_2(5)_generation_0(0)_encoder_3(7)", step("vLLM", None)),
        ("step[DECODE bs=7 of=[1, 2]]", step("SGLang", None)),
        (f"execute_new_{'9' * 40}_cached_1", step("vLLM", None)),
        # No names of steps
        ("execute_order", None),
        ("step[3]", None),
        ("aten::mm", None),
        ("ProfilerStep#3", None),
    ],
)
def test_what_the_name_of_a_step_says(name: str, says: ServingStep | None) -> None:
    assert parsed(name) == says


def test_context_is_known_where_the_name_gives_the_sums_of_both_parts() -> None:
    detailed = parsed("execute_8_context_1(sq5sk8sqsq25sqsk40)_generation_3(sq3sk30sqsq3sqsk30)")
    plain = parsed("execute_context_1(5)_generation_3(3)")
    assert detailed is not None
    assert detailed.context == 38
    assert plain is not None
    assert plain.context is None


@pytest.mark.parametrize(
    ("call", "engine"),
    [
        ("vllm/v1/worker/gpu_model_runner.py(1450): execute_model", "vLLM"),
        ("/usr/lib/python3/dist-packages/vllm/worker/model_runner.py(3): execute_model", "vLLM"),
        ("sglang/srt/model_executor/model_runner.py(2100): forward", "SGLang"),
        ("tensorrt_llm/_torch/pyexecutor/py_executor.py(900): _forward_step", "TensorRT-LLM"),
        ("text_generation_server/models/flash_causal_lm.py(1800): generate_token", "TGI"),
        ("megatron/training/training.py(1205): train_step", "Megatron"),
        ("torchtitan/trainer.py(500): train_step", "torchtitan"),
        ("deepspeed/runtime/pipe/engine.py(321): train_batch", "DeepSpeed"),
        ("vllm/v1/worker/gpu_model_runner.py(1450): execute_models", None),
        ("my/vllm_worker.py(1): execute_model", None),
    ],
)
def test_python_calls_that_are_a_step(call: str, engine: str | None) -> None:
    assert next((each.name for each in ENGINES if each.frames and each.frames.match(call)), None) == engine


@pytest.mark.parametrize(
    ("engine", "text", "phase"),
    [
        ("vLLM", "schedule: allocate_slots", "scheduler"),
        ("vLLM", "vllm/v1/core/sched/scheduler.py(182): schedule", "scheduler"),
        ("vLLM", "gpu_model_runner: preprocess", "inputs"),
        ("vLLM", "vllm/v1/worker/gpu_model_runner.py(700): _prepare_inputs", "inputs"),
        ("vLLM", "vllm/v1/core/sched/scheduler.py(182): update_from_output", "detokenizing"),
        ("vLLM", "vllm/v1/engine/detokenizer.py(5): update", "detokenizing"),
        ("vLLM", "gpu_model_runner: sample", "sampling"),
        ("SGLang", "sglang/srt/managers/scheduler.py(1): get_next_batch_to_run", "scheduler"),
        ("SGLang", "sglang/srt/managers/schedule_batch.py(1): prepare_for_decode", "inputs"),
        ("SGLang", "sglang/srt/managers/scheduler_output_processor_mixin.py(9): stream_output", "detokenizing"),
        ("SGLang", "scheduler.get_next_batch_to_run", "scheduler"),
        ("SGLang", "get_next_batch_to_run", "scheduler"),
        ("SGLang", "scheduler.run_batch", "inputs"),
        ("SGLang", "scheduler.process_batch_result", "detokenizing"),
        ("SGLang", "sglang/srt/managers/scheduler_components/output_streamer.py(135): stream_output", "detokenizing"),
        ("SGLang", "run_batch", None),
        ("SGLang", "sglang/srt/layers/sampler.py(70): forward", "sampling"),
        ("TensorRT-LLM", "tensorrt_llm/_torch/pyexecutor/py_executor.py(1): _handle_responses", "detokenizing"),
        ("vLLM", "vllm/v1/worker/gpu_model_runner.py(700): load_model", None),
    ],
)
def test_phases(engine: str, text: str, phase: str | None) -> None:
    phases = next(each.phases for each in ENGINES if each.name == engine)
    assert [name for name, pattern in phases.items() if pattern.match(text)] == ([phase] if phase else [])


def test_no_name_of_a_step_is_of_two_engines() -> None:
    names = ["execute_new_3_cached_7", "step[DECODE bs=1]", "decode[bs=1 tok=1 d=1]", "[Executor] _forward_step 1: x"]
    for name in names:
        assert sum(bool(each.beginning and each.beginning.match(name)) for each in ENGINES) == 1
        assert engine_of(name) is not None


counts = st.integers(0, 10**15)
parts = st.tuples(counts, counts, counts, counts)


@given(st.integers(1, 999), st.integers(1, 999), parts, parts, st.randoms(use_true_random=False))
def test_pairs_may_stand_in_any_order(
    context: int, generation: int, c: tuple[int, ...], g: tuple[int, ...], random: Random
) -> None:
    keys = ("sq", "sk", "sqsq", "sqsk")
    pairs = [f"c={context}", f"g={generation}", "forward_id=7", "new_key=5"]
    pairs += [
        f"{letter}_{key}={value}" for letter, of in (("c", c), ("g", g)) for key, value in zip(keys, of, strict=True)
    ]
    random.shuffle(pairs)
    said = parsed(f"step[MIXED bs={context + generation} {' '.join(pairs)}]")
    assert said == step(
        "SGLang", "mixed", context + generation, c[0] + g[0],
        prefill=PartOfBatch(context, *c), decode=PartOfBatch(generation, *g), forward_id=7,
    )  # fmt: skip


@given(
    st.text(max_size=40),
    st.sampled_from(["", "execute_", "step[", "step[DECODE bs=", "decode[bs=", "[Executor] _forward_step 1"]),
)
def test_any_text_is_read(text: str, beginning: str) -> None:
    said = parsed(beginning + text)
    assert (said is None) == (engine_of(beginning + text) is None)
    if said is not None and said.batch is not None:
        assert said.batch >= 0
