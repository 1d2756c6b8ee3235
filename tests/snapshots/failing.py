"""Jobs that run out of memory, each for one reason."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tests.snapshots.allocator import Block, Settings
from tests.snapshots.case import GIB, MIB, Case
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.stacks import python
from tests.snapshots.training import Model, Training

CAPTURE_STREAM = 0x5581_2340_CD50
EXPANDABLE: dict[str, Any] = {"settings": Settings(expandable_segments=True)}


def take(process: Process, where: str, sizes: Sequence[int], operator: str = "empty", stream: int = 0) -> list[Block]:
    """Requests made by one line of the program, `file:line function`."""
    place, function = where.split()
    file, line = place.split(":")
    with process.at(python(function, file, int(line))):
        return [process.alloc(operator, size, stream) for size in sizes]


def train(
    process: Process,
    steps: int = 3,
    optimizer: str = "AdamW",
    changes: dict[int, dict[str, Any]] | None = None,
    **model: Any,
) -> Training:
    """A training loop; `changes` gives new sizes of the model by step."""
    training = Training(process, Model(**model), optimizer=optimizer)
    training.build()
    for step in range(steps):
        training.model = replace(training.model, **(changes or {}).get(step, {}))
        training.train_step()
    return training


# --- too much that is in use ----------------------------------------------------------------------------------------


def with_teacher(process: Process) -> None:
    """A second model is loaded for distillation."""
    train(process, 2, layers=3)
    take(process, "distill.py:31 load_teacher", [400 * MIB] * 8, "_to_copy")


def serve(process: Process) -> None:
    """A server whose cache of keys and values grows with every token."""
    take(process, "serve.py:12 load", [64 * MIB] * 24, "_to_copy")
    for _ in range(400):
        take(process, "serve.py:40 extend_cache", [24 * MIB], "cat")
        process.free(*take(process, "serve.py:44 decode", [8 * MIB, 2 * MIB], "addmm"))


def keep_outputs(process: Process) -> None:
    """Outputs of each step are appended to a list."""
    training = Training(process, Model(layers=2))
    training.after_forward = lambda step: take(process, "train.py:60 log_outputs", [250 * MIB], "add")
    training.build()
    training.run(100)


def with_graph_beside(process: Process) -> None:
    """A small graph exists but is not the cause."""
    capture(process, (1, 0), [24 * MIB])
    train(process, 3, layers=6)


# --- fragmentation --------------------------------------------------------------------------------------------------


def varying_lengths(process: Process, *, share: float = 0.6) -> None:
    """Sequences of different lengths; part of each is copied into the segment that it leaves."""
    sizes = random.Random(4)
    for step in range(16):
        length = sizes.randrange(60, 100) + 6 * step
        process.free(*take(process, "model.py:61 forward", [length * MIB, 2 * length * MIB], "addmm"))
        take(process, "train.py:71 update_memory_bank", [int(share * length) * MIB], "clone")


def growing_buffers(process: Process, *, share: float = 0.55) -> None:
    """A buffer is replaced by a larger one; a small allocation then pins the segment of the old one."""
    buffer = take(process, "buffer.py:18 grow", [64 * MIB])
    for step in range(1, 16):
        larger = take(process, "buffer.py:18 grow", [(64 + 24 * step) * MIB])
        process.free(*buffer)
        take(process, "buffer.py:25 index", [int(share * (40 + 24 * step)) * MIB])
        buffer = larger


def states_in_holes(process: Process) -> None:
    """Optimizer states, created after the first backward, land in the segments of its activations."""
    process.free(*take(process, "model.py:61 forward", [180 * MIB] * 12, "addmm"))
    update = python("_init_group", "torch/optim/adam.py", 182)
    with process.at(python("main", "train.py", 49), python("step", "torch/optim/adam.py", 244), update):
        for _ in range(12):
            process.alloc("zeros_like", 100 * MIB)
    take(process, "model.py:61 forward", [180 * MIB] * 4, "addmm")


def validation_outputs(process: Process, *, share: float = 0.55) -> None:
    """Each batch's large logits are freed, its embeddings stay where they were."""
    for batch in range(24):
        logits = take(process, "validate.py:22 forward", [(60 + 8 * batch) * MIB], "linear")
        process.free(*logits)
        take(process, "validate.py:25 embeddings", [int(share * (60 + 8 * batch)) * MIB], "clone")


def shuffled_cache(process: Process) -> None:
    """Requests of all lengths come and go in any order."""
    order = random.Random(11)
    blocks: list[Block] = []
    for _ in range(900):
        if len(blocks) > 25:
            process.free(blocks.pop(order.randrange(len(blocks))))
        blocks += take(process, "cache.py:33 reserve", [order.choice((12, 18, 26, 44, 60, 90, 140)) * MIB])


def medium_pieces(process: Process) -> None:
    """Segments of 20 MiB; a small piece of each stays."""
    stages = [take(process, "pipeline.py:48 stage", [9 * MIB, 2 * MIB, 8 * MIB]) for _ in range(60)]
    for first, _, last in stages:
        process.free(first, last)
    take(process, "pipeline.py:61 gather", [600 * MIB])


def adapters(process: Process) -> None:
    """Adapters of several sizes are swapped; their statistics stay."""
    order = random.Random(3)
    for _ in range(60):
        sizes = [order.randrange(11, 200) * MIB for _ in range(4)]
        blocks = take(process, "adapters.py:20 load", sizes, "_to_copy")
        take(process, "adapters.py:27 statistics", [order.randrange(2, 9) * MIB], "zeros")
        process.free(*blocks)
    take(process, "adapters.py:40 merge", [700 * MIB])


# --- memory of another pool -----------------------------------------------------------------------------------------


def side_stream(process: Process, *, stream: int = SIDE_STREAM, pieces: int = 24) -> None:
    """Batches are prefetched on a side stream, and part of each stays; then the model needs the memory."""
    for _ in range(pieces):
        large = take(process, "prefetch.py:30 prefetch", [120 * MIB], "_to_copy", stream)
        process.free(*large)
        take(process, "prefetch.py:33 index", [4 * MIB], "_to_copy", stream)
        take(process, "prefetch.py:35 pad", [116 * MIB], "_to_copy", stream)
    process.free(*(block for block in list(process.allocators[0].active.values()) if block.requested == 116 * MIB))
    take(process, "model.py:61 forward", [110 * MIB] * 20, "addmm")


def capture_after_warmup(process: Process, *, emptied: bool = False) -> None:
    """A capture cannot release what the warm-up left in the cache."""
    process.free(*take(process, "graphs.py:21 warm_up", [100 * MIB] * 30, "addmm"))
    if emptied:
        process.empty_cache()
    capture(process, (1, 0), [100 * MIB] * 20)


# --- CUDA graphs ----------------------------------------------------------------------------------------------------


def capture(process: Process, pool: tuple[int, int], sizes: Sequence[int]) -> None:
    """A graph is captured; its memory is free but still belongs to the graph."""
    with process.capture(pool):
        process.free(*take(process, "graphs.py:40 capture", sizes, "addmm"))


def graphs(process: Process, *, shared: bool = False, captured: bool = True, count: int = 6, after: int = 30) -> None:
    """A graph for each batch size, each with a pool of its own."""
    take(process, "serve.py:12 load", [64 * MIB] * 10, "_to_copy")
    for number in range(count):
        sizes = [(40 + 10 * number) * MIB] * 10
        if captured:
            capture(process, (0, 1) if shared else (number + 1, 0), sizes)
        else:
            process.free(*take(process, "graphs.py:40 capture", sizes, "addmm"))
    process.free(*take(process, "serve.py:50 prefill", [96 * MIB] * after, "addmm"))


def training_graph(process: Process, *, captured: bool = True) -> None:
    """A whole step is captured; then validation runs eagerly."""
    sizes = [150 * MIB] * 14
    take(process, "train.py:30 main", [100 * MIB] * 8, "_to_copy")
    if captured:
        capture(process, (1, 0), sizes)
    else:
        process.free(*take(process, "graphs.py:40 capture", sizes, "addmm"))
    process.free(*take(process, "validate.py:22 forward", [250 * MIB] * 9, "addmm"))


def released_graph(process: Process, *, captured: bool = True) -> None:
    """One of two graphs is reset and returns its memory; the other still holds too much."""
    graphs(process, count=2, captured=captured, after=2)
    if captured:
        process.allocators[0].release_pool((1, 0))
    process.free(*take(process, "serve.py:50 prefill", [200 * MIB] * 14, "addmm"))


# --- blocks that wait for another stream ----------------------------------------------------------------------------


def pending(process: Process, *, uses: bool = True, size: int = 300, count: int = 8, asked: int = 250) -> None:
    """Buffers that a copy stream still reads, in segments that small live blocks pin."""
    allocator = process.allocators[0]
    buffers = []
    for _ in range(count):
        buffers += take(process, "offload.py:30 stage", [size * MIB], "empty")
    process.free(*buffers)
    # Each segment now holds a block that stays and one that is handed to the copy stream.
    handed = []
    for _ in range(count):
        take(process, "offload.py:36 keep", [20 * MIB], "empty")
        handed += take(process, "offload.py:38 hand_over", [(size - 20) * MIB], "empty")
    for block in handed:
        if uses:
            allocator.record_stream(block, SIDE_STREAM)
        process.free(block)
    take(process, "model.py:61 forward", [asked * MIB], "addmm")


def pending_in_capture(process: Process, *, uses: bool = True) -> None:
    """While another stream captures, the allocator checks no events: what the reduction has read stays allocated."""
    allocator = process.allocators[0]
    buckets = take(process, "ddp.py:88 bucket", [256 * MIB] * 8, "empty")
    with process.capture((1, 0), streams=frozenset({CAPTURE_STREAM})):
        for block in buckets:
            if uses:
                allocator.record_stream(block, SIDE_STREAM)
            process.free(block)
        allocator.complete()
        take(process, "model.py:61 forward", [240 * MIB] * 4, "addmm")


# --- others on the device -------------------------------------------------------------------------------------------


def neighbour(process: Process, *, takes: int = 3 * GIB, at: int = 2, **model: Any) -> None:
    """Something else takes memory of the device after some steps: another process, NCCL's buffers, a library."""
    training = Training(process, Model(**model))
    training.build()
    for step in range(5):
        if step == at:
            process.empty_cache()
            process.other_memory(process.other + takes)
        training.train_step()


def sized(mib: int, **facts: Any) -> dict[str, Any]:
    return {"total": mib * MIB, **facts}


LIVE = [
    Case("batch too large", "live data", partial(train, optimizer="SGD", layers=8, batch=16), sized(6500)),
    Case("states of AdamW", "live data", partial(train, layers=12, width=2048), sized(10_100)),
    Case(
        "one long batch", "live data", partial(train, steps=5, layers=4, changes={3: {"tokens": 3072}}), sized(13_300)
    ),
    Case("logits", "live data", partial(train, layers=2, vocabulary=250_000, tokens=1024), sized(12_000)),
    Case("a second model", "live data", with_teacher, sized(3900)),
    Case("cache of keys and values", "live data", serve, sized(6000)),
    Case("outputs kept", "live data", keep_outputs, sized(6000)),
    Case("live, expandable segments", "live data", partial(train, layers=10, batch=8), sized(5600, **EXPANDABLE)),
    Case("live, beside a graph", "live data", with_graph_beside, sized(2900)),
    Case("live, no error text", "live data", partial(train, layers=8, batch=16), sized(7000), has_text=False),
]

FRAGMENTED = [
    Case("lengths vary", "fragmentation", varying_lengths, sized(2450), EXPANDABLE),
    Case("a buffer grows", "fragmentation", growing_buffers, sized(4000), EXPANDABLE),
    Case("states in holes", "fragmentation", states_in_holes, sized(3100), EXPANDABLE),
    Case("pieces of an expandable segment", "fragmentation", medium_pieces, sized(1900, **EXPANDABLE)),
    Case("embeddings of validation", "fragmentation", validation_outputs, sized(3600), EXPANDABLE),
    Case("shuffled cache", "fragmentation", shuffled_cache, sized(2850), EXPANDABLE),
    Case("pieces of 20 MiB segments", "fragmentation", medium_pieces, sized(2000)),
    Case("adapters", "fragmentation", adapters, sized(2100), EXPANDABLE),
    Case("fragmentation, no text", "fragmentation", validation_outputs, sized(3300), EXPANDABLE, has_text=False),
]

ONE_STREAM = partial(side_stream, stream=0)
ELSEWHERE = [
    Case("prefetch stream", "other pool", side_stream, sized(5000), cured_program=ONE_STREAM),
    Case("prefetch stream, no text", "other pool", side_stream, sized(4400), {}, ONE_STREAM, has_text=False),
    Case(
        "capture after warm-up",
        "other pool",
        capture_after_warmup,
        sized(4800),
        {},
        partial(capture_after_warmup, emptied=True),
    ),
    Case("graph per batch size", "graph pool", graphs, sized(7200), {}, partial(graphs, captured=False)),
    Case(
        "seventh graph",
        "graph pool",
        partial(graphs, count=7),
        sized(5000),
        {},
        partial(graphs, count=7, captured=False),
    ),
    Case(
        "validation beside a graph",
        "graph pool",
        training_graph,
        sized(5000),
        {},
        partial(training_graph, captured=False),
    ),
    Case("one of two graphs", "graph pool", released_graph, sized(4300), {}, partial(released_graph, captured=False)),
    Case("graph, no text", "graph pool", graphs, sized(6800), {}, partial(graphs, captured=False), has_text=False),
    Case("copy stream", "pending free", pending, sized(3100), {}, partial(pending, uses=False)),
    Case(
        "copy stream, larger",
        "pending free",
        partial(pending, size=500, asked=460),
        sized(4800),
        {},
        partial(pending, size=500, asked=460, uses=False),
    ),
    Case(
        "reduction while capturing",
        "pending free",
        pending_in_capture,
        sized(2800),
        {},
        partial(pending_in_capture, uses=False),
    ),
]

OUTSIDE = "outside of the allocator"
OTHERS = [
    Case(
        "another process", OUTSIDE, partial(neighbour, layers=6), sized(5600), {}, partial(neighbour, layers=6, takes=0)
    ),
    Case(
        "buffers of NCCL",
        OUTSIDE,
        partial(neighbour, layers=6, takes=GIB),
        sized(3600),
        {},
        partial(neighbour, layers=6, takes=0),
    ),
    Case("there from the start", OUTSIDE, partial(train, layers=6), sized(8000, other=6 * GIB), {"other": 600 * MIB}),
    Case(
        "expandable, another process",
        OUTSIDE,
        partial(neighbour, layers=6),
        sized(5600, **EXPANDABLE),
        {},
        partial(neighbour, layers=6, takes=0),
    ),
    Case(
        "another process, no text",
        OUTSIDE,
        partial(neighbour, layers=6),
        sized(5600),
        {},
        partial(neighbour, layers=6, takes=0),
        has_text=False,
    ),
    Case("limit of the process", "limit", partial(train, layers=6), sized(8000, fraction=0.3), {"fraction": None}),
]

CASES = [*LIVE, *FRAGMENTED, *ELSEWHERE, *OTHERS]
