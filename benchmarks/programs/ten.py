"""What a step of ten small programs takes with the history of a run and without: `python ten.py PROGRAM STEPS`.

It runs as a job that is recorded does. In blocks of 250 steps that take turns the hooks are in place, or what torch
itself has there. Prints a JSON object of microseconds for each: without, with.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, Final

import torch
import torch.optim.optimizer as hooks
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter as Batches

BLOCK: Final = 250
SETTLING: Final = 20
"""Steps after a change that are not counted: the interpreter adapts to what was put in place."""

Step = Callable[[], object]
Program = tuple[list[nn.Module], Step]
"""Its outermost modules, and a step of it."""


def layers(width: int, count: int) -> nn.Sequential:
    """Linear layers with what is between them."""
    return nn.Sequential(*chain.from_iterable((nn.Linear(width, width), nn.ReLU()) for _ in range(count)))


def batches(*shapes: tuple[int, ...], size: int) -> Iterator[Any]:
    """Batches of random tensors by torch's loader, without an end."""
    data = TensorDataset(*(torch.randn(100 * size, *shape) for shape in shapes))
    return chain.from_iterable(DataLoader(data, batch_size=size) for _ in repeat(None))


def trained(net: nn.Module, loss: Callable[[], torch.Tensor], **options: Any) -> Program:
    """A program of one module, and AdamW. With a rate of 0 it stays what it is: numbers that fade are slow."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.0, **options)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return [net], step


def least() -> Program:
    """One number and plain SGD: next to nothing in a step."""
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0, foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        (parameter * parameter).sum().backward()
        optimizer.step()

    return [], step


def busy() -> Program:
    """The same, after 850 µs of computing: a millisecond or so."""
    modules, short = least()

    def step() -> None:
        until = time.perf_counter() + 0.00085
        while time.perf_counter() < until:
            pass
        short()

    return modules, step


def loader() -> Program:
    """Six layers and torch's loader."""
    net, data = layers(256, 6), batches((256,), size=64)
    return trained(net, lambda: net(next(data)[0]).square().mean())


def convolutions() -> Program:
    """Images."""
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU())
    data = batches((3, 32, 32), size=8)
    return trained(net, lambda: net(next(data)[0]).mean())


def transformer() -> Program:
    """Four layers of attention."""
    net = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), 4, enable_nested_tensor=False
    )
    data = batches((32, 128), size=4)
    return trained(net, lambda: net(next(data)[0]).square().mean())


def recurrent() -> Program:
    """An LSTM."""
    net, data = nn.LSTM(64, 128, batch_first=True), batches((16, 64), size=8)
    return trained(net, lambda: net(next(data)[0])[0].square().mean())


def adversarial() -> Program:
    """Two modules and two optimizers, which take turns."""
    maker, judge = layers(128, 2), layers(128, 2)
    first, second = (torch.optim.Adam(each.parameters(), lr=0.0) for each in (judge, maker))
    noise = torch.randn(32, 128)

    def step() -> None:
        first.zero_grad()
        (judge(noise).mean() - judge(maker(noise).detach()).mean()).backward()
        first.step()
        second.zero_grad()
        judge(maker(noise)).mean().backward()
        second.step()

    return [maker, judge], step


def accumulating() -> Program:
    """Four passes in a step, in bfloat16."""
    net, data = layers(192, 4), batches((192,), size=32)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.0)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(4):
            with torch.autocast("cpu", torch.bfloat16):
                loss = net(next(data)[0]).square().mean()
            loss.backward()
        optimizer.step()

    return [net], step


def checkpointing() -> Program:
    """Layers that are computed anew in the backward pass."""
    net, data = layers(192, 4), batches((192,), size=32)
    return trained(net, lambda: checkpoint(net, next(data)[0], use_reentrant=False).square().mean())


def tables() -> Program:
    """Embeddings, of which a step needs few rows."""
    net = nn.ModuleList(nn.EmbeddingBag(1000, 32) for _ in range(8))
    rows = torch.randint(0, 1000, (32, 10))
    return trained(net, lambda: torch.relu(torch.cat([each(rows) for each in net], 1)).mean(), foreach=True)


PROGRAMS: Final = {
    each.__name__: each
    for each in (
        least, busy, loader, convolutions, transformer, recurrent, adversarial, accumulating, checkpointing, tables,
    )
}  # fmt: skip


class Hooks:
    """What the recorder has put into torch, to take away and put back."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self._tables = [hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks]
        for module in chain.from_iterable(each.modules() for each in modules):
            self._tables += [module._forward_hooks, module._forward_pre_hooks]
        self._places: list[tuple[Any, str]] = [
            (torch.autograd, "backward"), (Batches, "__next__"), (Batches, "__init__"),
            *((torch.autograd.profiler.record_function, name) for name in ("__enter__", "__exit__")),
        ]  # fmt: skip
        functions = [getattr(*each) for each in self._places]
        self._ours = [dict(each) for each in self._tables], functions, list(gc.callbacks)
        self._plain: Any = [{} for _ in self._tables], [each.__wrapped__ for each in functions], []

    def put(self, *, ours: bool) -> None:
        """Ours, or none."""
        tables, functions, callbacks = self._ours if ours else self._plain
        for table, values in zip(self._tables, tables, strict=True):
            table.clear()
            table.update(values)
        for place, function in zip(self._places, functions, strict=True):
            setattr(*place, function)
        gc.callbacks[:] = callbacks


def measured(program: Program, steps: int) -> list[dict[str, float]]:
    """Microseconds of a step without and with: CPU time of its thread; mean, median and 99th percentile of time."""
    modules, step = program
    for _ in range(100):
        step()
    in_place, cpu = Hooks(modules), [0, 0]
    took: tuple[list[int], list[int]] = [], []
    for block in range(max(steps // BLOCK, 2) * 2):
        which = (block + block // 2) % 2
        in_place.put(ours=which == 1)
        for _ in range(SETTLING):
            step()
        began, before = time.thread_time_ns(), time.perf_counter_ns()
        for _ in range(BLOCK):
            step()
            now = time.perf_counter_ns()
            took[which].append(now - before)
            before = now
        cpu[which] += time.thread_time_ns() - began
    rows = []
    for which, times in enumerate(took):
        each = sorted(times)
        row = {"cpu": cpu[which] / len(each), "mean": sum(each) / len(each)}
        row |= {"median": each[len(each) // 2], "p99": each[len(each) * 99 // 100]}
        rows.append({name: value / 1e3 for name, value in row.items()})
    return rows


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(json.dumps(measured(PROGRAMS[sys.argv[1]](), int(sys.argv[2]))))
