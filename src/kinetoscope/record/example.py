"""The job of `kinetoscope demo`: trains a small network on random pictures, and makes two mistakes that are common.

Each picture is unpacked in Python by the process that trains, while the model waits; and each step asks for the value
of the loss, for which a device would have to be waited for.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):  # type: ignore[misc]
    """Packed pictures, three channels of 32 × 32 each."""

    def __init__(self, count: int) -> None:
        self._packed = [bytes((7 * index + at) % 256 for at in range(3 * 32 * 32)) for index in range(count)]

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        levels = [(byte / 255) ** 2.2 for byte in self._packed[index]]  # number by number: the first mistake
        return torch.tensor(levels).reshape(3, 32, 32), index % 10


def network() -> Any:
    """Two convolutions and a classifier."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 8 * 8, 10),
    )


def main(steps: int = 8, batch: int = 64) -> None:
    """Train for so many steps."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # what takes how long is then much the same on any machine
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    criterion = torch.nn.CrossEntropyLoss()
    total = 0.0
    for pictures, labels in DataLoader(Pictures(steps * batch), batch):
        optimizer.zero_grad()
        loss = criterion(model(pictures.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()  # the second mistake


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
