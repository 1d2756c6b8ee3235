# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""What the recorded scenarios train: tiny models, data sets and one plain training loop. Needs torch.

Nothing here profiles; `record.py` does. Sizes are chosen so that a recording of a few steps stays below 150 kB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import record_function
from torch.utils.data import Dataset

Batch = tuple[Tensor, Tensor]


def train(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    after_step: Callable[[], object],
    optimizer: torch.optim.Optimizer | None = None,
) -> None:
    """A training loop as people write it; `after_step` is `prof.step`, or does something more first."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for inputs, target in batches:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), target)
        loss.backward()
        optimizer.step()
        after_step()


def train_in_phases(model: nn.Module, batches: Iterable[Batch], *, after_step: Callable[[], object]) -> None:
    """The same loop, with its phases marked by the user."""
    optimizer = torch.optim.Adam(model.parameters())
    for inputs, target in batches:
        with record_function("forward"):
            loss = functional.cross_entropy(model(inputs), target)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        after_step()


def vectors(count: int, *, size: int = 64, batch: int = 32, classes: int = 10) -> list[Batch]:
    """`count` batches of random vectors, made beforehand: no loading inside the steps."""
    return [(torch.randn(batch, size), torch.randint(classes, (batch,))) for _ in range(count)]


def images(count: int, *, side: int = 16, batch: int = 8) -> list[Batch]:
    """`count` batches of random three-channel images."""
    return [(torch.randn(batch, 3, side, side), torch.randint(10, (batch,))) for _ in range(count)]


def sentences(count: int, *, length: int = 16, batch: int = 4, words: int = 100) -> list[Batch]:
    """`count` batches of random token numbers, each with one class."""
    return [(torch.randint(words, (batch, length)), torch.randint(10, (batch,))) for _ in range(count)]


class SlowVectors(Dataset[Batch]):
    """A data set whose every sample takes 3 ms, like one that decodes files."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Batch:
        time.sleep(0.003)
        return torch.full((64,), float(index)), torch.tensor(index % 10)


class MLP(nn.Module):
    """Two linear layers."""

    def __init__(self, *, size: int = 64, hidden: int = 128, classes: int = 10) -> None:
        super().__init__()
        self.hidden = nn.Linear(size, hidden)
        self.output = nn.Linear(hidden, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.output(torch.relu(self.hidden(inputs)))
        return output


class ConvNet(nn.Module):
    """Two convolutions with batch norm, one of them grouped, then a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1, groups=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.output = nn.Linear(16, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        output: Tensor = self.output(self.features(inputs).flatten(1))
        return output


class Transformer(nn.Module):
    """Embedding, one encoder layer, mean over the tokens, classifier."""

    def __init__(self, *, words: int = 100, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=False)
        self.output = nn.Linear(width, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        output: Tensor = self.output(self.encoder(self.embedding(tokens)).mean(dim=1))
        return output
