# mypy: disable-error-code="import-not-found, no-untyped-call, misc, unused-ignore"
"""The job behind the bundled demo: a small residual network on packed photographs, decoded in the main process.

Needs torch and numpy. Written the way such a script is found in the wild, mistake included: `num_workers` was left
at 0, so each step waits while sixteen photographs are unpacked, cropped and coloured one after the other.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

BATCH = 16
SIDE = 32


class Photos(Dataset[tuple[Tensor, int]]):
    """Photographs kept deflated, 224 x 224 pixels; each sample is unpacked, cropped, flipped, jittered, shrunk."""

    def __init__(self, count: int) -> None:
        self.random = np.random.default_rng(0)
        # Smooth pictures with a little noise: like photographs, they deflate to about half.
        ramp = np.add.outer(np.arange(224), np.arange(224))[..., None] * np.array([1, 2, 3]) // 6
        noise = self.random.integers(0, 8, (count, 224, 224, 3))
        self.packed = [zlib.compress((ramp % 240 + each).astype(np.uint8).tobytes()) for each in noise]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels = np.frombuffer(zlib.decompress(self.packed[index]), np.uint8).reshape(224, 224, 3)
        return torch.from_numpy(self.augment(pixels)), index % 10

    def augment(self, pixels: np.ndarray) -> np.ndarray:
        """A random crop of 192 pixels, flipped at random, with random contrast, averaged down to 32 x 32, CHW."""
        top, left = self.random.integers(0, 32, 2)
        crop = pixels[top : top + 192, left : left + 192].astype(np.float32) / 255
        if self.random.random() < 0.5:
            crop = crop[:, ::-1]
        crop = np.clip((crop - 0.5) * self.random.uniform(0.8, 1.2) + 0.5, 0, 1)
        small = crop.reshape(SIDE, 6, SIDE, 6, 3).mean(axis=(1, 3))
        return np.ascontiguousarray(small.transpose(2, 0, 1), dtype=np.float32)


class Block(nn.Module):
    """Two convolutions and a way round them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, inputs: Tensor) -> Tensor:
        inner = torch.relu(self.norm1(self.conv1(inputs)))
        return torch.relu(inputs + self.norm2(self.conv2(inner)))


class ResNet(nn.Module):
    """A stem, two stages of one block, a classifier."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.stage1 = Block(16)
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.stage2 = Block(32)
        self.head = nn.Linear(32, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.stage2(self.down(self.stage1(self.stem(inputs))))
        output: Tensor = self.head(features.mean(dim=(2, 3)))
        return output


def train(steps: int, *, after_step: Callable[[], object]) -> None:
    """Trains for `steps` batches."""
    loader = DataLoader(Photos(steps * BATCH), batch_size=BATCH, shuffle=True)
    model = ResNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for pictures, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(pictures), labels)
        loss.backward()
        optimizer.step()
        after_step()
