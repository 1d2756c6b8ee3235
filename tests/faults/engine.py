"""A serving engine that is simulated: it schedules a batch, prepares it, runs the model, samples, answers.

What it serves is a plain function of the step, so that twins serve the same. Ranks of a tensor-parallel group go in
lockstep: each all-reduce of a replay ends on all of them at once, a little after the last of them has come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from tests.faults.case import Case, Draw
from tests.faults.host import ns
from tests.faults.kernels import elementwise, gemm, microseconds, silicon
from tests.faults.program import COMPUTE, Program

SIZES: Final = (1, 2, 4, *range(8, 513, 8))
"""Batches that vLLM captures graphs for by itself."""

_HEAD: Final = 128
"""Elements of a head of attention."""

_REDUCED: Final = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*, vllm::RankSignals)"

_FRAMES: Final = {
    "vllm": {
        "schedule": "vllm/v1/core/sched/scheduler.py(250): schedule",
        "prepare": "vllm/v1/worker/gpu_model_runner.py(1210): _prepare_inputs",
        "sample": "vllm/v1/sample/sampler.py(66): forward",
        "answer": "vllm/v1/core/sched/scheduler.py(910): update_from_output",
    },
    "sglang": {
        "schedule": "sglang/srt/managers/scheduler.py(1690): get_next_batch_to_run",
        "prepare": "sglang/srt/model_executor/forward_batch_info.py(380): init_new",
        "sample": "sglang/srt/layers/sampler.py(58): forward",
        "answer": "sglang/srt/managers/scheduler_output_processor_mixin.py(220): process_batch_result_decode",
    },
}
_RANGES: Final = {
    "vllm": {
        "prepare": "gpu_model_runner: preprocess", "forward": "gpu_model_runner: forward",
        "sample": "gpu_model_runner: sample", "answer": "gpu_model_runner: bookkeep",
    },
    "sglang": {"schedule": "scheduler.get_next_batch_to_run", "answer": "scheduler.process_batch_result"},
}  # fmt: skip


class Batch(NamedTuple):
    """What a step serves: requests that decode, and so many tokens of prompts."""

    decode: int
    prompt: int


class Piece(NamedTuple):
    """A kernel of the model, by the operator that launches it, and the shapes that this has."""

    op: str
    kernel: str
    us: float
    shapes: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Engine:
    """An engine, its model, what it serves, and how.

    Attributes:
        words: whose names it gives to steps, functions and kernels.
        scopes: parts of a step are named, too.
        layers, width, inner, vocabulary: of the model; a quarter of its heads hold keys and values.
        decode: requests that decode, a number for each step in turn.
        context: tokens that each of them has already.
        prompt, every, chunk: each so many steps a prompt of so many tokens comes in, of which a step takes `chunk`.
        mixed: tokens of prompts share a step with requests that decode.
        sizes: batches that graphs were captured for, ascending; none: each kernel is launched by itself.
        recorded: the captures of its graphs were recorded, too, as vLLM does it.
        ahead: the next batch is scheduled and launched while the device still works on this one.
        asks: us of the host for each operator that is not in a graph.
        schedules, prepares, answers: us of the host for a step: which requests, the tensors, the texts.
        sampler: takes the greatest; draws with one kernel; or sorts all logits first.
        compiles: us of a compilation in each sixth step, whose batch is new.
        fetches: values that the host fetches from the device before it samples.
        pageable: bytes of inputs that are copied from pageable memory.
        ranks: of the tensor-parallel group.
        slow, late: by rank, times its kernels take, and us that its host takes more in each step.
    """

    words: Literal["vllm", "sglang"] = "vllm"
    scopes: bool = False
    layers: int = 16
    width: int = 2048
    inner: int = 8192
    vocabulary: int = 128_000
    decode: tuple[int, ...] = (32,)
    context: int = 1000
    prompt: int = 0
    every: int = 8
    chunk: int = 2048
    mixed: bool = True
    sizes: tuple[int, ...] = SIZES
    recorded: bool = False
    ahead: bool = True
    asks: float = 14
    schedules: float = 250
    prepares: float = 100
    answers: float = 150
    sampler: Literal["greatest", "fused", "sorted"] = "greatest"
    compiles: float = 0
    fetches: int = 0
    pageable: float = 0
    ranks: int = 1
    slow: tuple[float, ...] = ()
    late: tuple[float, ...] = ()

    # --- what it serves

    def batch(self, n: int) -> Batch:
        """Of a step."""
        decode, place = self.decode[n % len(self.decode)], n % self.every
        tokens = max(min(self.chunk, self.prompt - place * self.chunk), 0)
        return Batch(decode if self.mixed or not tokens else 0, tokens)

    def padded(self, batch: Batch) -> int:
        """The batch of the graph that is replayed; 0 if none is."""
        return 0 if batch.prompt else next((size for size in self.sizes if size >= batch.decode), 0)

    def name(self, batch: Batch) -> str:
        """The annotation of a step."""
        decode, tokens = batch
        if self.words == "vllm":
            return f"execute_context_{int(tokens > 0)}({tokens})_generation_{decode}({decode})"
        if not tokens:
            return f"step[DECODE bs={decode}]"
        return f"step[MIXED bs={decode + 1}]" if decode else f"step[EXTEND bs=1 toks={tokens}]"

    # --- the model

    def forward(self, p: Program, batch: Batch, rows: int) -> Iterator[Piece]:
        """Its kernels; rows: of the matrices, with those that only pad the batch."""
        chip, wide, ranks = silicon(p.device), 2 * rows * self.width, self.ranks
        held = self.width // 4 // ranks
        copied = microseconds(chip, "bf16", 0, 2 * wide)

        def product(name: str, k: int, n: int, of: int = rows) -> Piece:
            moved = 2 * (of * k + k * n + of * n)
            us = microseconds(chip, "bf16", 2.0 * of * k * n, moved)
            return Piece(name, gemm(chip, "bf16"), us, ((of, k), (k, n)))

        norm = Piece("_C::fused_add_rms_norm", "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>", copied)
        reduced = [Piece("_C_custom_ar::all_reduce", _REDUCED, 8 + wide / 200_000)] if ranks > 1 else []
        read = 4.0 * held * batch.decode * self.context  # keys and values
        pairs = batch.prompt * (batch.prompt / 2 + self.context / 2)
        attends = microseconds(chip, "bf16", 4.0 * self.width // ranks * pairs, read + 4.0 * wide / ranks)
        attention = (
            "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t>>"
        )
        yield Piece("aten::embedding", "void at::native::(anonymous namespace)::indexSelectLargeIndex", copied)
        for _ in range(self.layers):
            yield norm
            yield product("aten::mm", self.width, (self.width + 2 * self.width // 4) // ranks)
            yield Piece("_C::rotary_embedding", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>", copied)
            yield Piece(
                "_C_cache_ops::reshape_and_cache_flash", "void vllm::reshape_and_cache_flash_kernel", copied / 4
            )
            yield Piece("_vllm_fa2_C::varlen_fwd", attention, attends)
            yield product("aten::mm", self.width // ranks, self.width)
            yield from reduced
            yield norm
            yield product("aten::mm", self.width, 2 * self.inner // ranks)
            yield Piece(
                "_C::silu_and_mul", "void vllm::act_and_mul_kernel<c10::BFloat16>", copied * self.inner / self.width
            )
            yield product("aten::mm", self.inner // ranks, self.width)
            yield from reduced
        yield norm
        yield product("aten::mm", self.width, self.vocabulary // ranks, max(rows - batch.prompt, 1))

    def sampling(self, p: Program, requests: int) -> Iterator[Piece]:
        """Its kernels, which read all logits once, three times, or many times."""
        each = microseconds(silicon(p.device), "bf16", 0, 4.0 * max(requests, 1) * self.vocabulary)
        if self.sampler == "greatest":
            yield Piece(
                "aten::argmax", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, ArgMaxOps>>", each
            )
        elif self.sampler == "fused":
            yield Piece("flashinfer::softmax", "void flashinfer::sampling::OnlineSoftmaxFusedKernel<1024u>", 2 * each)
            kernel = "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, false, float, int>"
            yield Piece("flashinfer::top_k_top_p_sampling_from_probs", kernel, 2 * each)
        else:
            for _ in range(8):
                sort = "void at_cuda_detail::cub::DeviceSegmentedRadixSortKernel<Policy900, false, float, long>"
                yield Piece("aten::sort", sort, 4 * each)
            for op in ("softmax", "cumsum", "masked_fill_", "scatter", "softmax", "exponential_", "div_"):
                yield Piece(f"aten::{op}", elementwise(op.title().rstrip("_") + "Functor", "float"), 2 * each)
            yield Piece(
                "aten::argmax", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, ArgMaxOps>>", each
            )

    # --- a step

    def step(self, p: Program, n: int, rank: int = 0) -> Iterator[Sequence[Piece]]:
        """Run it. What several ranks replay together is asked of whoever runs them: the kernels of the graph."""
        batch = self.batch(n)
        with self._part(p, "schedule"):
            p.host(self.schedules)
        with p.annotation(self.name(batch)):
            with self._part(p, "prepare"):
                p.host(self.prepares + (self.late[rank] if self.late else 0))
                if self.pageable:
                    p.to_device(self.pageable, dtype="long int")
                for _ in range(4):
                    p.to_device(4096, pinned=True, blocking=False, dtype="long int")
            if self.compiles and n % 6 == 0:
                with p.op("dynamo", 20), p.op("_compile.compile_inner (dynamo_timed)", 0.3 * self.compiles):
                    p.call("OutputGraph.call_user_compiler (dynamo_timed)", 0.7 * self.compiles)
            with self._part(p, "forward"):
                padded = self.padded(batch)
                pieces = list(self.forward(p, batch, (padded or batch.decode) + batch.prompt))
                if self.slow:
                    pieces = [piece._replace(us=piece.us * self.slow[rank]) for piece in pieces]
                if padded and self.ranks > 1:
                    yield pieces
                elif padded:
                    p.graph_launch([piece[1:3] for piece in pieces], graph=padded)
                else:
                    self._launch(p, pieces)
            with self._part(p, "sample"):
                for _ in range(self.fetches):
                    p.item()
                self._launch(p, self.sampling(p, batch.decode + (batch.prompt > 0)))
                before, ready = p.ready, self._fetched(p, batch)
                p.ready = ready
            if not self.ahead:
                p.synchronize("cudaEventSynchronize", until=ready)
        if self.ahead:
            p.synchronize("cudaEventSynchronize", until=before)
        with self._part(p, "answer"):
            p.host(self.answers)

    def capture(self, path: Path, **program: Any) -> None:
        """Write the recording of the captures of all graphs that are replayed."""
        p = Program(marks=False, **program)
        p.begin()
        p.record_from_here()
        for size in sorted({self.padded(Batch(decode, 0)) for decode in self.decode}):
            with p.annotation(f"capture_{size}_FULL"):
                p.runtime("cudaStreamBeginCapture", 5)
                for op, _, _, shapes in self.forward(p, Batch(size, 0), size):
                    with p.op(op, self.asks, shapes=shapes, types=["c10::BFloat16"] * len(shapes)):
                        p.launched("cudaLaunchKernel")
                p.runtime("cudaStreamEndCapture", 5)
            p.end_step()
        p.finish(path)

    def _fetched(self, p: Program, batch: Batch) -> int:
        """When the new tokens are on the host."""
        p.copy("DtoH", 8 * (batch.decode + 1), pinned=True, blocking=False)
        p.runtime("cudaEventRecord", 2)
        return p.gpu.end(COMPUTE)

    def _launch(self, p: Program, pieces: Sequence[Piece] | Iterator[Piece]) -> None:
        for op, kernel, us, _ in pieces:
            with p.op(op, self.asks):
                p.kernel(kernel, us)

    def _part(self, p: Program, part: str) -> AbstractContextManager[object]:
        """A part of a step, as far as it is recorded."""
        parts = ExitStack()
        if frame := _FRAMES[self.words].get(part):
            parts.enter_context(p.python(frame))
        if self.scopes and (name := _RANGES[self.words].get(part)):
            parts.enter_context(p.annotation(name))
        return parts if frame or self.scopes else nullcontext()


def serving(engine: Engine, *, steps: int = 24, warm: int = 3, seed: int = 1, **program: Any) -> Draw:
    """Draws an engine, a file a rank; the mean time of a step is that of all ranks."""

    def draw(folder: Path) -> float:
        ranks = range(engine.ranks)
        if engine.recorded:
            (folder / "capture_traces").mkdir()
            engine.capture(folder / "capture_traces" / "graph_capture_rank_0.pt.trace.json", **program)
        programs = [
            Program(seed=seed + rank, marks=False, top=_top(rank, engine.ranks), **program) for rank in ranks
        ]  # fmt: skip
        for p in programs:
            p.begin()
        for n in range(-warm, steps):
            if n == 0:
                for p in programs:
                    p.record_from_here()
            begins = max(p.now for p in programs)  # the engine hands a step to all ranks at once
            for p in programs:
                p.now = begins
            running = [engine.step(p, n, rank) for rank, p in enumerate(programs)]
            asked = [next(each, None) for each in running]
            if all(asked):
                _replay_together(programs, [pieces for pieces in asked if pieces], engine.padded(engine.batch(n)))
            for p, rest in zip(programs, running, strict=True):
                list(rest)
                p.end_step()
        return sum(p.finish(folder / f"rank{rank}.pt.trace.json") for rank, p in enumerate(programs)) / engine.ranks

    return draw


def _replay_together(programs: Sequence[Program], asked: Sequence[Sequence[Piece]], graph: int) -> None:
    """One graph on each rank; its all-reduces wait for each other."""
    calls = [p.launched("cudaGraphLaunch", 12.0) for p in programs]
    ends = [p.gpu.submit(p.now, COMPUTE, 0)[0] for p in programs]
    for node, pieces in enumerate(zip(*asked, strict=True)):
        starts = [end + (700 if node else 0) for end in ends]
        takes = [p.drawn(piece.us) for p, piece in zip(programs, pieces, strict=True)]
        if pieces[0].kernel == _REDUCED:
            ends = [max(starts) + ns(pieces[0].us)] * len(programs)
        else:
            ends = [start + took for start, took in zip(starts, takes, strict=True)]
        for p, piece, start, end, call in zip(programs, pieces, starts, ends, calls, strict=True):
            p.node(piece.kernel, start, end, COMPUTE, call, graph, node)
    for p, end in zip(programs, ends, strict=True):
        p.gpu.ends[COMPUTE] = end


def _top(rank: int, ranks: int) -> dict[str, Any]:
    info = {"backend": "nccl", "rank": rank, "world_size": ranks, "pg_count": 1, "nccl_version": "2.27.3"}
    return {"distributedInfo": info} if ranks > 1 else {}


def planted_in_engine(code: str, name: str, faulty: Engine, fixed: Engine, *, seed: int = 1, **more: Any) -> Case:
    """A case of two engines; `more` is of `Case`, of `Program` or of `serving`."""
    case = {key: more.pop(key) for key in ("timed", "still", "family") if key in more}
    return Case(code, name, serving(faulty, seed=seed, **more), serving(fixed, seed=seed, **more), **case)
