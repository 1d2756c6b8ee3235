"""Training jobs that keep memory of each step, and healthy twins of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tests.snapshots.allocator import Block
from tests.snapshots.case import MIB, Case
from tests.snapshots.failing import EXPANDABLE, take
from tests.snapshots.process import Process
from tests.snapshots.stacks import python
from tests.snapshots.training import Model, Training

SMALL = Model(layers=2, width=512, batch=2, tokens=256, vocabulary=8000)
STEPS = 12

Planting = Callable[[Process, Training], None]


def training(process: Process, planting: Planting | None = None, *, steps: int = STEPS, **facts: Any) -> None:
    """A small training loop with something planted in it."""
    loop = Training(process, SMALL, **facts)
    if planting is not None:
        planting(process, loop)
    loop.build()
    loop.run(steps)


def always(action: Callable[[Process], object]) -> Planting:
    def plant(process: Process, loop: Training) -> None:
        loop.after_forward = lambda step: action(process)

    return plant


# --- leaks ----------------------------------------------------------------------------------------------------------


def keep_outputs(process: Process) -> None:
    take(process, "train.py:60 log_outputs", [3 * MIB], "add")


def keep_losses(process: Process) -> None:
    take(process, "train.py:63 losses", [MIB // 4], "add")


def keep_features(process: Process) -> None:
    with process.module("model.py", 52):
        process.alloc("add", MIB)


def keep_in_hook(process: Process) -> None:
    with process.backward("AddmmBackward0"):
        process.alloc("clone", 2 * MIB)


def keep_alternately(process: Process, loop: Training) -> None:
    loop.after_step = lambda step: keep_outputs(process) if step % 2 else None


def keep_late(process: Process, loop: Training) -> None:
    loop.after_step = lambda step: keep_outputs(process) if step > 4 else None


def keep_growing_cache(process: Process, loop: Training) -> None:
    cache: list[Block] = []

    def extend(step: int) -> None:
        larger = take(process, "serve.py:40 extend_cache", [(4 + 2 * step) * MIB], "cat")
        process.free(*cache)
        cache[:] = larger

    loop.after_forward = extend


def keep_new_states(process: Process, loop: Training) -> None:
    update = python("_init_group", "torch/optim/adam.py", 182)

    def add(step: int) -> None:
        with process.at(python("add_param_group", "train.py", 66), python("step", "torch/optim/adam.py", 244), update):
            process.alloc("zeros_like", 2 * MIB)

    loop.after_step = add


def keep_among_lengths(process: Process, loop: Training) -> None:
    varying_lengths(process, loop)
    loop.after_forward = lambda step: keep_outputs(process)


def keep_and_flush_less(process: Process, loop: Training) -> None:
    kept: list[Block] = []

    def log(step: int) -> None:
        kept.extend(take(process, "train.py:60 log_outputs", [2 * MIB] * 3, "add"))
        process.free(kept.pop())

    loop.after_step = log


# --- healthy --------------------------------------------------------------------------------------------------------


def bounded_queue(process: Process, loop: Training) -> None:
    queue: deque[Block] = deque()

    def push(step: int) -> None:
        queue.extend(take(process, "data.py:19 prefetch", [4 * MIB], "_to_copy"))
        if len(queue) > 3:
            process.free(queue.popleft())

    loop.before_step = push


def validation(process: Process, loop: Training) -> None:
    def validate(step: int) -> None:
        if step % 4 == 3:
            process.free(*take(process, "validate.py:22 forward", [8 * MIB] * 4, "linear"))

    loop.after_step = validate


def varying_lengths(process: Process, loop: Training) -> None:
    lengths = (256, 192, 320, 128, 384, 224, 352, 160, 288, 256, 416, 192)

    def choose(step: int) -> None:
        loop.model = replace(SMALL, tokens=lengths[step % len(lengths)])

    loop.before_step = choose


def curriculum(process: Process, loop: Training) -> None:
    def choose(step: int) -> None:
        loop.model = replace(SMALL, tokens=128 + 32 * step)

    loop.before_step = choose


def average_from_step_3(process: Process, loop: Training) -> None:
    def start(step: int) -> None:
        if step == 3:
            take(process, "ema.py:11 average", [block.requested for block in loop.parameters.values()], "clone")

    loop.after_step = start


def flushed_log(process: Process, loop: Training) -> None:
    kept: list[Block] = []

    def log(step: int) -> None:
        kept.extend(take(process, "train.py:60 log_outputs", [2 * MIB], "add"))
        if step % 4 == 3:
            process.free(*kept)
            kept.clear()

    loop.after_step = log


def two_buffers(process: Process, loop: Training) -> None:
    buffers: list[Block] = []

    def swap(step: int) -> None:
        buffers.extend(take(process, "buffer.py:25 back", [6 * MIB], "empty"))
        if len(buffers) > 2:
            process.free(buffers.pop(0))

    loop.before_step = swap


def late_capture(process: Process, loop: Training) -> None:
    def capture(step: int) -> None:
        if step == 2:
            with process.capture((1, 0)):
                process.free(*take(process, "graphs.py:40 capture", [24 * MIB] * 2, "addmm"))

    loop.after_step = capture


def emptied(process: Process, loop: Training) -> None:
    loop.after_step = lambda step: process.empty_cache()


KEEP = always(keep_outputs)
BARE: dict[str, Any] = {"annotate": False}

LEAKS = [
    Case("outputs in a list", "leak", partial(training, planting=KEEP), line="train.py:60"),
    Case("losses in a list", "leak", partial(training, planting=always(keep_losses)), line="train.py:63"),
    Case("features in a module", "leak", partial(training, planting=always(keep_features)), line="model.py:52"),
    Case("kept by a hook of the backward", "leak", partial(training, planting=always(keep_in_hook))),
    Case("every other step", "leak", partial(training, planting=keep_alternately), line="train.py:60"),
    Case("from step 5 on", "leak", partial(training, planting=keep_late, steps=16), line="train.py:60"),
    Case(
        "a cache that is replaced by a larger one",
        "leak",
        partial(training, planting=keep_growing_cache),
        line="serve.py:40",
    ),
    Case("new states of the optimizer", "leak", partial(training, planting=keep_new_states), line="train.py:66"),
    Case("among varying lengths", "leak", partial(training, planting=keep_among_lengths), line="train.py:60"),
    Case("flushed less than filled", "leak", partial(training, planting=keep_and_flush_less), line="train.py:60"),
    Case(
        "Python stacks, metadata",
        "leak",
        partial(training, planting=KEEP, metadata=True, **BARE),
        {"stacks": "python"},
        line="train.py:60",
    ),
    Case("no steps marked", "leak", partial(training, planting=KEEP, **BARE), line="train.py:60"),
]

HEALTHY = [
    Case("plain", "healthy", training),
    Case("plain, expandable segments", "healthy", training, EXPANDABLE),
    Case("no steps marked, healthy", "healthy", partial(training, **BARE)),
    Case("bounded queue", "healthy", partial(training, planting=bounded_queue)),
    Case("validation every fourth step", "healthy", partial(training, planting=validation)),
    Case("varying lengths", "healthy", partial(training, planting=varying_lengths)),
    Case("longer from step to step", "healthy", partial(training, planting=curriculum)),
    Case("average from step 3 on", "healthy", partial(training, planting=average_from_step_3)),
    Case("log that is flushed", "healthy", partial(training, planting=flushed_log)),
    Case("two buffers", "healthy", partial(training, planting=two_buffers, metadata=True, **BARE)),
    Case("graph captured at step 2", "healthy", partial(training, planting=late_capture)),
    Case("caches emptied each step", "healthy", partial(training, planting=emptied), {"stacks": "python"}),
]

CASES = [*LEAKS, *HEALTHY]
