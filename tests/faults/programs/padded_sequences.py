# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Sequences of all lengths are padded to the longest of their batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from tests.faults.programs.parts import perceptron

CODE, NAME, STEPS, STACKS = "DATA008", "sequences of all lengths in a batch", 16, False


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """Sequences of similar lengths."""
    model = perceptron(256)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    lengths = [4 + 6 * place for place in range(16)] * 16
    if fixed:
        lengths.sort()
    sequences = [torch.randn(length, 256) for length in lengths]
    place = 0

    def step() -> None:
        nonlocal place
        batch = nn.utils.rnn.pad_sequence(sequences[place : place + 16], batch_first=True)
        place = (place + 16) % len(sequences)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    yield step
