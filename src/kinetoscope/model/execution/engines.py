"""Serving engines and training frameworks: how each names its steps, and what such a name says of the batch.

An engine is one entry of `ENGINES`. A named group of its patterns is a key, and so is each `key=value` in a name; the
keys are those of SGLang, to which `keys` translates others. What a name does not say is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

StepKind = Literal["prefill", "decode", "mixed", "verify", "draft", "idle"]

Phase = Literal["scheduler", "inputs", "detokenizing", "sampling"]
"""Phases of an engine that ranges or Python calls name."""


@dataclass(frozen=True, slots=True)
class PartOfBatch:
    """The requests of a step that are all in prefill, or all in decode; None is what the name does not say.

    Attributes:
        requests: number of them.
        sq: Σ q, their new tokens.
        sk: Σ kv, the tokens that these attend to: those in the cache and the new ones.
        sqsq, sqsk: Σ q² and Σ q·kv, of which the operations of attention follow.
    """

    requests: int | None = None
    sq: int | None = None
    sk: int | None = None
    sqsq: int | None = None
    sqsk: int | None = None


@dataclass(frozen=True, slots=True)
class ServingStep:
    """Facts in the name of a step; None is what it does not say.

    Attributes:
        engine: name of the engine.
        kind: what the step does. prefill: prompts. decode: the next token of each request. mixed: both. verify: several
            tokens of each request that a draft model or a lookup proposed. draft: proposals. idle: nothing.
        batch: number of requests.
        padded_batch: number of requests that the step computes for, with those that fill up a graph.
        prefill, decode: the two parts of the batch.
        tokens: new tokens of all requests.
        forward_id: number of the forward pass, as other recorders of the engine know it.
    """

    engine: str
    kind: StepKind | None = None
    batch: int | None = None
    padded_batch: int | None = None
    prefill: PartOfBatch = PartOfBatch()
    decode: PartOfBatch = PartOfBatch()
    tokens: int | None = None
    forward_id: int | None = None

    @property
    def context(self) -> int | None:
        """Σ kv of all requests."""
        return _sum(self.prefill.sk, self.decode.sk)


@dataclass(frozen=True, slots=True)
class ServingEngine:
    """How one engine names its steps.

    Attributes:
        name: of the engine.
        beginning: how the names of its annotations of a step begin; None for engines that name none.
        patterns: whole names, the most detailed first; their groups are the keys.
        keys: the engine's own keys, and what they are called here.
        modes: kinds by the word in the group `mode`; the first of which the word is, or contains, the key.
        frames: Python calls that are a step, for recordings without these annotations.
        folders: in the names of its Python calls.
        phases: ranges and Python calls of each phase.
        serves: it serves; otherwise it trains.
        verifies_beyond: the tokens that a step verifies are not in its Σ kv and Σ q·kv.
    """

    name: str
    beginning: re.Pattern[str] | None = None
    patterns: tuple[re.Pattern[str], ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, StepKind] = field(default_factory=dict)
    frames: re.Pattern[str] | None = None
    folders: tuple[str, ...] = ()
    phases: Mapping[Phase, re.Pattern[str]] = field(default_factory=dict)
    serves: bool = True
    verifies_beyond: bool = False


def _part(letter: str) -> str:
    return "".join(rf"{key}(?P<{letter}_{key}>\d{{1,18}})" for key in ("sq", "sk", "sqsq", "sqsk"))


def _calls(*calls: str) -> re.Pattern[str]:
    """Python calls and ranges: `folder/file.py: function|function`; without a function all of the file; or a range."""
    patterns = []
    for call in calls:
        file, _, functions = call.partition(".py: ")
        if not functions and not file.endswith(".py"):
            patterns.append(call)
            continue
        named = rf"(?:{functions})$" if functions else ""
        patterns.append(rf"(?:.*/)?{file.removesuffix('.py')}\.py\(\d+\): {named}")
    return re.compile("|".join(patterns))


_NUMBER: Final = r"\d{1,18}"

ENGINES: Final = (
    ServingEngine(
        "vLLM",
        re.compile(r"execute_(?:new_\d|context_\d|\d+_context_)"),
        (
            re.compile(
                rf"execute_(?P<tokens>{_NUMBER})_context_(?P<c>{_NUMBER})\({_part('c')}\)"
                rf"_generation_(?P<g>{_NUMBER})\({_part('g')}\)"
            ),
            re.compile(  # some versions add a sum of squares to the tokens, and do not say of what
                rf"execute_context_(?P<c>{_NUMBER})\((?P<c_sq>{_NUMBER})(?:_{_NUMBER})?\)"
                rf"_generation_(?P<g>{_NUMBER})\((?P<g_sq>{_NUMBER})(?:_{_NUMBER})?\)"
            ),
            re.compile(rf"execute_new_(?P<c>{_NUMBER})_cached_(?P<g>{_NUMBER})"),
        ),
        frames=_calls(r"vllm/(?:v1/)?worker/\w*model_runner.py: execute_model"),
        folders=("vllm/",),
        phases={
            "scheduler": _calls(
                "schedule: ",
                r"vllm/v1/core/sched/\w+.py: schedule",
                "vllm/distributed/device_communicators/shm_broadcast.py: acquire_read|dequeue",
                r"vllm/v1/engine/core.py: _process_input_queue",
            ),
            "inputs": _calls(
                "gpu_model_runner: preprocess",
                r"vllm/v1/worker/\w*model_runner.py: _update_states|_prepare_inputs?|_preprocess|prepare_inputs",
                r"vllm/v1/attention/.*.py: build",
            ),
            "detokenizing": _calls(
                "gpu_model_runner: (?:postprocess|bookkeep|ModelRunnerOutput)",
                "llm_engine step: process_outputs",
                r"vllm/v1/core/sched/\w+.py: update_from_output",
                r"vllm/v1/worker/\w*model_runner.py: _bookkeeping_sync",
                r"vllm/v1/engine/(?:output_processor|detokenizer).py",
                "vllm/v1/serial_utils.py",
            ),
            "sampling": _calls(
                "gpu_model_runner: sample", r"vllm/v1/sample/\w+.py", r"vllm/v1/worker/\w*model_runner.py: _?sample"
            ),
        },
    ),
    ServingEngine(
        "SGLang",
        re.compile(r"step\[[A-Z]"),
        (re.compile(r"step\[(?P<mode>[A-Z][A-Z_0-9]*)(?P<pairs>[^\[\]]*)\]"),),
        keys={"toks": "tokens"},
        modes={
            "DRAFT": "draft",
            "VERIFY": "verify",
            "MIXED": "mixed",
            "EXTEND": "prefill",
            "PREFILL": "prefill",
            "DECODE": "decode",
            "IDLE": "idle",
        },
        frames=_calls("sglang/srt/model_executor/model_runner.py: forward"),
        verifies_beyond=True,
        folders=("sglang/srt/",),
        phases={
            "scheduler": _calls(
                r"scheduler\.(?:recv_requests|process_input_requests|get_next_batch_to_run|process_queue|idle)",
                r"scheduler\.sanity_check_cache|(?:recv_requests|get_next_batch_to_run|recv_res_dict_from_prev_stage)$",
                "sglang/srt/managers/scheduler.py: recv_requests|process_input_requests|get_next_batch_to_run",
                "sglang/srt/managers/scheduler_components/request_receiver.py",
                "sglang/srt/managers/schedule_policy.py",
            ),
            "inputs": _calls(
                r"scheduler\.run_batch",
                "sglang/srt/managers/schedule_batch.py: prepare_for_.*|get_model_worker_batch",
                "sglang/srt/model_executor/forward_batch_info.py: init_new",
                r"sglang/srt/.*.py: load_batch|replay_prepare|init_forward_metadata.*",
            ),
            "detokenizing": _calls(
                r"scheduler\.process_batch_result|(?:process_batch_result|copy_result_to_cpu)$",
                "sglang/srt/managers/scheduler.py: process_batch_result",
                r"sglang/srt/managers/scheduler_output_processor\w*.py",
                "sglang/srt/managers/scheduler_components/(?:batch_result_processor|output_streamer|output_sender).py",
                "sglang/srt/managers/detokenizer_manager.py",
            ),
            "sampling": _calls("sglang/srt/layers/sampler.py", r"sglang/srt/sampling/.*.py"),
        },
    ),
    ServingEngine(
        "ATOM",
        re.compile(r"(?:prefill|decode|mixed)\[bs="),
        (
            re.compile(
                rf"(?P<mode>prefill|decode|mixed)\[bs=(?P<bs>{_NUMBER})(?:/(?P<padded>{_NUMBER}))?(?P<pairs>.*)\]"
            ),
        ),
        keys={"tok": "tokens", "p": "c", "d": "g"},
        modes={"prefill": "prefill", "decode": "decode", "mixed": "mixed"},
        folders=("atom/model_engine/",),
        frames=_calls("atom/model_engine/model_runner.py: forward"),
    ),
    ServingEngine(
        "TensorRT-LLM",
        re.compile(r"\[Executor\] _forward_step \d"),
        (
            re.compile(
                rf"\[Executor\] _forward_step (?P<forward_id>{_NUMBER}): (?P<c>{_NUMBER}) ctx reqs,"
                rf"(?: (?P<c_sq>{_NUMBER}) ctx tokens,)? (?P<g>{_NUMBER}) gen reqs(?:, (?P<g_sq>{_NUMBER}) gen tokens)?"
            ),
        ),
        frames=_calls("tensorrt_llm/_torch/pyexecutor/py_executor.py: _forward_step"),
        folders=("tensorrt_llm/",),
        phases={
            "scheduler": _calls(
                r"_schedule|_fetch_new_requests|\[Executor\] _?(?:schedule|fetch)",
                "tensorrt_llm/_torch/pyexecutor/py_executor.py: _schedule|_fetch_new_requests",
            ),
            "inputs": _calls(
                "_prepare_(?:tp_)?inputs|prepare_resources",
                r"tensorrt_llm/_torch/pyexecutor/\w+.py: _prepare_.*inputs|prepare_resources",
            ),
            "detokenizing": _calls(
                "_handle_responses|_enqueue_responses",
                "tensorrt_llm/_torch/pyexecutor/py_executor.py: _handle_responses|_enqueue_responses",
            ),
            "sampling": _calls("_sample_async", "tensorrt_llm/_torch/pyexecutor/sampler.py"),
        },
    ),
    ServingEngine(
        "TGI",
        frames=_calls(r"text_generation_server/models/\w+.py: generate_token"),
        folders=("text_generation_server/",),
    ),
    ServingEngine(
        "LMDeploy",
        frames=_calls(r"lmdeploy/pytorch/engine/model_agent(?:/agent)?.py: _?async_model_forward|_forward_impl"),
        folders=("lmdeploy/pytorch/engine/",),
    ),
    ServingEngine(
        "torchtitan",
        frames=_calls(r"torchtitan/train(?:er)?.py: train_step"),
        folders=("torchtitan/",),
        serves=False,
    ),
    ServingEngine(
        "Megatron",
        frames=_calls("megatron/training/training.py: train_step"),
        folders=("megatron/training/",),
        serves=False,
    ),
    ServingEngine(
        "DeepSpeed",
        frames=_calls("deepspeed/runtime/(?:pipe/)?engine.py: train_batch"),
        folders=("deepspeed/runtime/",),
        serves=False,
    ),
)

PATCHED_ENGINE: Final = "vLLM"
"""The engine whose names tools patch into others; where an engine's own names stand beside them, those count first."""

MAX_CALL_CHARACTERS: Final = 512
"""Length of a name that is tried as a phase or a Python call; a trace may have hostile ones."""

STEP_WORDS: Final = ("execute_", "step[", "prefill[", "decode[", "mixed[", "_forward_step")
"""Words of which each name of a step contains one."""

_PAIR: Final = re.compile(rf"(\w+)=({_NUMBER})(?!\d)")
_SUMS: Final = ("sq", "sk", "sqsq", "sqsk")
_PARTS: Final[Mapping[StepKind, str]] = {"prefill": "c", "decode": "g", "verify": "g", "draft": "g", "idle": "g"}
"""The part of the batch that a step of each kind has, by its letter: context or generation."""


def engine_of(text: str) -> ServingEngine | None:
    """The engine whose name of a step `text` begins as; None for none."""
    return next((engine for engine in ENGINES if engine.beginning and engine.beginning.match(text)), None)


def is_in_phase(text: str, phase: Phase) -> bool:
    """True if a range or a Python call of this name is a phase of any engine."""
    return len(text) <= MAX_CALL_CHARACTERS and any(
        each.phases[phase].match(text) for each in ENGINES if phase in each.phases
    )


@lru_cache(maxsize=1 << 14)
def parsed(text: str) -> ServingStep | None:
    """The step that the name of an annotation describes; None if it is not the name of a step of an engine."""
    engine = engine_of(text)
    if engine is None:
        return None
    match = next((match for pattern in engine.patterns if (match := pattern.fullmatch(text))), None)
    if match is None:
        return ServingStep(engine.name)
    groups = {key: value for key, value in match.groupdict().items() if value is not None}
    mode, pairs = groups.pop("mode", ""), groups.pop("pairs", "")
    values = {engine.keys.get(key, key): int(value) for key, value in (*groups.items(), *_PAIR.findall(pairs))}
    return _step(engine, mode, values)


def _step(engine: ServingEngine, mode: str, values: dict[str, int]) -> ServingStep:
    kind = next((kind for word, kind in engine.modes.items() if word in mode), None) if mode else None
    if mode and kind != "mixed" and values.get("c") and values.get("g"):
        kind = "mixed"
    if kind is not None and kind != "mixed":
        values = _of_one_part(kind, values)
    if kind == "verify" and engine.verifies_beyond and all(f"g_{key}" in values for key in _SUMS):
        values |= {"g_sk": values["g_sk"] + values["g_sq"], "g_sqsk": values["g_sqsk"] + values["g_sqsq"]}
    prefill, decode = (_part_of(values, letter) for letter in "cg")
    if not mode:
        kind = _kind_of(prefill, decode)
    if kind == "decode" and (decode.sq or 0) > (decode.requests or 0):
        kind = "verify"
    return ServingStep(
        engine.name,
        kind,
        values.get("bs", _sum(prefill.requests, decode.requests)),
        values.get("padded"),
        prefill,
        decode,
        values.get("tokens", _sum(prefill.sq, decode.sq)),
        values.get("forward_id"),
    )


def _of_one_part(kind: StepKind, values: dict[str, int]) -> dict[str, int]:
    """The numbers of a step that is all prefill or all decode: its name gives each once, for the part that it has."""
    part = "c" if any(key.startswith("c_") for key in values) else _PARTS[kind]
    own = {part: values["bs"], "c" if part == "g" else "g": 0} if "bs" in values else {}
    if kind == "decode" and "bs" in values:
        own[f"{part}_sq"] = values["bs"]  # a new token for each request, unless the name says otherwise
    own |= {f"{part}_sq": values["tokens"]} if "tokens" in values else {}
    own |= {f"{part}_{key}": values[key] for key in _SUMS if key in values}
    return {**own, **values, "c" if part == "g" else "g": 0}


def _part_of(values: Mapping[str, int], letter: str) -> PartOfBatch:
    if values.get(letter) == 0:
        return PartOfBatch(0, 0, 0, 0, 0)
    return PartOfBatch(values.get(letter), *(values.get(f"{letter}_{key}") for key in _SUMS))


def _kind_of(prefill: PartOfBatch, decode: PartOfBatch) -> StepKind | None:
    if prefill.requests is None or decode.requests is None:
        return None
    if prefill.requests:
        return "mixed" if decode.requests else "prefill"
    return "decode" if decode.requests else "idle"


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
