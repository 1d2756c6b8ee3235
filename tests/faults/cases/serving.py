"""What goes wrong in a serving engine: engines that are simulated, with the fault and without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from tests.faults.case import Case, Healthy
from tests.faults.engine import SIZES, Engine, planted_in_engine, serving

_FAMILY: Final = "Serving"
_VLLM: Final = Engine()
_SGLANG: Final = Engine(words="sglang", scopes=True, layers=24, width=1536, inner=6144)
_FOUR: Final = Engine(ranks=4, width=4096, inner=14336)
_A100: Final[dict[str, Any]] = {"device": "NVIDIA A100-SXM4-40GB", "capability": (8, 0), "memory": 40e9}
_MI300: Final[dict[str, Any]] = {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 192e9}


def _case(code: str, name: str, engine: Engine, faulty: dict[str, Any], fixed: dict[str, Any], **more: Any) -> Case:
    """A fault and its mending as what they change of an engine."""
    return planted_in_engine(
        code, name, replace(engine, **faulty), replace(engine, **fixed), family=_FAMILY, **more
    )  # fmt: skip


CASES: Final = (
    _case("SERVING001", "decoding without graphs, vLLM", _VLLM, {"sizes": ()}, {}, seed=601),
    _case(
        "SERVING001", "decoding without graphs, SGLang, A100", _SGLANG, {"sizes": (), "decode": (8,)}, {"decode": (8,)},
        seed=602, **_A100,
    ),
    _case(
        "SERVING001", "graphs of small batches only", replace(_VLLM, layers=28, width=1024, decode=(24, 96, 96)),
        {"sizes": SIZES[:8]}, {}, seed=603,
    ),
    _case(
        "SERVING001", "decoding without graphs, tokens waited for", _VLLM,
        {"sizes": (), "ahead": False}, {"ahead": False}, seed=604, still=("SERVING004",),
    ),
    _case(
        "SERVING002", "260 requests in graphs of 512", replace(_VLLM, decode=(260,), context=200, recorded=True),
        {"sizes": (512,)}, {"sizes": (264, 512)}, seed=611,
    ),
    _case(
        "SERVING002", "batches of all sizes in graphs of 512, A100",
        replace(_VLLM, decode=(180, 220, 300), context=200, recorded=True), {"sizes": (512,)}, {}, seed=612, **_A100,
    ),
    _case(
        "SERVING003", "prompts of 8,192 tokens", _VLLM, {"prompt": 8192, "chunk": 8192}, {}, seed=621, steps=32,
    ),
    _case(
        "SERVING003", "prompts between steps that decode, SGLang", _SGLANG,
        {"prompt": 4096, "chunk": 4096, "mixed": False, "every": 12}, {}, seed=622, steps=36,
    ),
    _case("SERVING004", "tokens waited for before the next step", _VLLM, {"ahead": False}, {}, seed=631),
    _case(
        "SERVING004", "tokens waited for, SGLang, parts named", _SGLANG, {"ahead": False}, {}, seed=632,
    ),
    _case(
        "SERVING004", "tokens waited for, MI300X, stacks", _VLLM, {"ahead": False}, {}, seed=633, stacks=True, **_MI300,
    ),
    _case(
        "SERVING004", "a scheduler slower than the device", _VLLM,
        {"schedules": 2000, "answers": 1200}, {"schedules": 600, "answers": 300}, seed=634,
    ),
    _case(
        "SERVING004", "a slow detokenizer, parts named", replace(_VLLM, scopes=True), {"answers": 2600}, {}, seed=635,
    ),
    _case("SERVING005", "four values fetched in each step", _VLLM, {"fetches": 4}, {}, seed=641),
    _case("SERVING005", "a value fetched, SGLang, A100", _SGLANG, {"fetches": 1}, {}, seed=642, **_A100),
    _case(
        "SERVING005", "logits sorted", replace(_VLLM, scopes=True, decode=(128,)),
        {"sampler": "sorted"}, {"sampler": "fused"}, seed=643,
    ),
    _case(
        "SERVING005", "logits sorted, A100, stacks", replace(_VLLM, decode=(256,), scopes=True),
        {"sampler": "sorted"}, {"sampler": "fused"}, seed=644, stacks=True, **_A100,
    ),
    _case(
        "SERVING001", "larger kernels without graphs", replace(_VLLM, width=2560, inner=10240, decode=(64,), asks=12),
        {"sizes": ()}, {}, seed=671,
    ),
    _case(
        "SERVING004", "tokens waited for, little to do between steps",
        replace(_VLLM, width=4096, inner=14336, schedules=60, prepares=30, answers=40), {"ahead": False}, {}, seed=672,
    ),
    _case(
        "SERVING005", "a value fetched, long steps", replace(_VLLM, width=4096, inner=14336, layers=24), {"fetches": 1},
        {}, seed=673,
    ),
    _case(
        "SERVING005", "logits sorted, MI300X", replace(_VLLM, decode=(96,), layers=24, width=4096, scopes=True),
        {"sampler": "sorted"}, {"sampler": "fused"}, seed=674, **_MI300,
    ),
    _case(
        "SERVING001", "no graphs, where values are fetched, too", replace(_VLLM, fetches=3), {"sizes": ()}, {},
        seed=681, still=("SERVING005",),
    ),
    _case(
        "SERVING005", "logits sorted, where tokens are waited for, too", replace(_SGLANG, decode=(128,), ahead=False),
        {"sampler": "sorted"}, {"sampler": "fused"}, seed=684, still=("SERVING004",), stacks=True,
    ),
    _case(
        "SERVING004", "tokens waited for, where logits are sorted, too",
        replace(_SGLANG, decode=(128,), sampler="sorted"), {"ahead": False}, {}, seed=685,
        still=("SERVING005",), stacks=True,
    ),
    _case(
        "SERVING003+SERVING004", "prompts, and tokens waited for", _VLLM,
        {"prompt": 4096, "chunk": 4096, "ahead": False}, {}, seed=683, steps=32,
    ),
    _case(
        "SERVING005", "five values fetched in short steps, A100",
        replace(_SGLANG, layers=16, width=1024, inner=4096, decode=(12,), context=100, asks=20), {"fetches": 5}, {},
        seed=686, **_A100,
    ),
    _case("HOST007", "a batch that is new to the compiler in each sixth step", _VLLM, {"compiles": 60e3}, {}, seed=691),
    _case("RANKS011", "a slow device of four", _FOUR, {"slow": (1, 1, 1.3, 1)}, {}, seed=651),
    _case(
        "RANKS011", "a device that is slower by a tenth, of eight", replace(_FOUR, ranks=8, decode=(64,)),
        {"slow": (1, 1, 1, 1, 1, 1.1, 1, 1)}, {}, seed=652,
    ),
    _case(
        "RANKS011", "a late host of four, tokens waited for", replace(_FOUR, ahead=False),
        {"late": (0, 1500, 0, 0)}, {}, seed=653, still=("SERVING004",),
    ),
)  # fmt: skip

HEALTHY: Final = (
    Healthy("vLLM, decoding with graphs", serving(_VLLM, seed=661)),
    Healthy("vLLM, batches of all sizes", serving(replace(_VLLM, decode=(17, 33, 50, 61), recorded=True), seed=662)),
    Healthy("vLLM, 40 requests in a graph of 64", serving(replace(_VLLM, decode=(40,), sizes=(64,), recorded=True))),
    Healthy("vLLM, prompts in small pieces", serving(replace(_VLLM, prompt=3072, chunk=1024, every=16), seed=663)),
    Healthy("vLLM, MI300X, stacks", serving(_VLLM, seed=664, stacks=True, **_MI300)),
    Healthy("SGLang, parts named, A100", serving(_SGLANG, seed=665, **_A100)),
    Healthy("SGLang, jitter of 10 %", serving(_SGLANG, seed=666, noise=0.1)),
    Healthy("SGLang, prompts alone", serving(replace(_SGLANG, prompt=512, mixed=False, every=12), seed=667, steps=36)),
    Healthy("four tensor-parallel ranks", serving(_FOUR, seed=668)),
    Healthy("a fused sampler", serving(replace(_VLLM, sampler="fused", scopes=True), seed=669)),
)
