# mypy: ignore-errors
"""A small training with something planted from a step on: `training.py STEPS KIND FROM MS [RANK]`; on the CPU.

A step takes about 4 ms: batches of a loader, two layers, Adam. KIND: none, data, forward, gap, backward, optimizer
(MS more in each step from FROM on), drift (of the forward pass, MS more at the end), save or stall (MS in every
FROM-th step), collection (many objects, collected in every FROM-th step), creep (memory that grows).
"""

import gc
import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

steps, kind, first, ms = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
mine = len(sys.argv) < 6 or int(sys.argv[5]) == int(os.environ.get("RANK", "0"))
torch.set_num_threads(1)
torch.manual_seed(0)
at = 0


def more(what):
    """Compute for some time, if this is what was planted."""
    if not mine or kind not in (what, "drift" if what == "forward" else what):
        return
    if kind == "drift":
        spin(ms * at / steps)
    elif at >= first:
        spin(ms)


def spin(length):
    """Keep a core for so many ms."""
    end = time.perf_counter() + length / 1000
    while time.perf_counter() < end:
        pass


class Rows(Dataset):
    """Rows of numbers."""

    def __len__(self):
        """A row for each step."""
        return steps * 8

    def __getitem__(self, index):
        """Some work, as of a transform."""
        if index % 8 == 0:
            more("data")
            if kind == "stall" and at and at % first == 0:
                spin(ms)
        return torch.full((64,), float(index % 7))


class Slow(torch.autograd.Function):
    """The identity, with a backward pass that takes its time."""

    @staticmethod
    def forward(context, x):
        """The same."""
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        """The same, later."""
        more("backward")
        return gradient


class Network(nn.Module):
    """Two layers."""

    def __init__(self):
        """Of 256 features."""
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, x):
        """A number for each row."""
        more("forward")
        spin(1.0)
        return Slow.apply(self.layers(x))


class Optimizer(torch.optim.Adam):
    """Adam that may take longer."""

    def step(self, closure=None):
        """A step of it."""
        more("optimizer")
        return super().step(closure)


class Weights:
    """Something that takes long to save."""

    def __reduce__(self):
        """Work, as of copying to the host."""
        spin(ms)
        return int, ()


model = Network()
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = Optimizer(model.parameters(), lr=1e-4)
kept, loops = [], []
for batch in DataLoader(Rows(), batch_size=8):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    spin(0.5)
    optimizer.step()
    at += 1
    more("gap")
    if kind == "save" and at % first == 0:
        torch.save(Weights(), os.devnull)
    if kind == "creep":
        kept.append(torch.ones(int(ms * 1000)))
    if kind == "collection":
        loops.append([{} for _ in range(int(ms))])
        if at % first == 0:
            gc.collect()
            loops.clear()
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
