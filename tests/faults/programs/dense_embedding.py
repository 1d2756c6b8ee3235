# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""The gradient of a large embedding is dense."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

CODE, NAME, STEPS, STACKS = "MEMORY006", "dense gradient of a large embedding", 15, False

_ROWS = 200_000


@contextmanager
def program(fixed: bool) -> Iterator[Callable[[], None]]:
    """It is sparse."""
    table, head = nn.Embedding(_ROWS, 32, sparse=fixed), nn.Linear(320, 10)
    optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=1e-3)
    indices, target = torch.randint(_ROWS, (64, 10)), torch.randint(10, (64,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(table(indices).flatten(1)), target).backward()
        optimizer.step()

    yield step
