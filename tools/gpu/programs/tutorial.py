# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""A small network on pictures, and seven changes one after another, as tutorials of the profiler make them.

Each change keeps those before it: workers, pinned memory, a larger batch, pictures copied as bytes, gradients dropped
instead of zeroed, 16 bits, a compiled model. All eight programs are measured in turns and recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tests.faults.programs.running import in_turns
from tools.gpu.programs.asked import Asked, asked

CHANGES: Final = ("as written", "workers", "pinned", "larger_batch", "bytes", "dropped", "bits16", "compiled")
"""What each program has more than the one before; the first has nothing."""

_PREFETCH: Final = 2


@dataclass(frozen=True)
class Size:
    """How much there is to do.

    Attributes:
        side: of a picture, in pixels.
        batch: pictures of a step, before there are eight times as many.
        workers: of the loader.
        rounds, steps: times that each program is measured, and its steps.
        recordings: of each program.
        programs: how many of them.
    """

    side: int
    batch: int
    workers: int
    rounds: int
    steps: int
    recordings: int
    programs: int = len(CHANGES)


_ON_DEVICE: Final = Size(side=128, batch=32, workers=8, rounds=4, steps=16, recordings=2)
_ON_HOST: Final = Size(side=64, batch=8, workers=2, rounds=2, steps=8, recordings=2)
_SMALL: Final = Size(side=32, batch=4, workers=2, rounds=2, steps=4, recordings=1, programs=len(CHANGES) - 1)
"""Without the compiled one: to compile takes longer than all else."""


class Pictures(Dataset[tuple[Tensor, int]]):
    """Small pictures that are enlarged when they are asked for."""

    def __init__(self, side: int, as_bytes: bool) -> None:
        self.side, self.as_bytes = side, as_bytes
        self.small = torch.randint(256, (1024, 3, 32, 32), dtype=torch.uint8, device="cpu")

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        picture = self.small[place % 1024].float()[None]
        large = nn.functional.interpolate(picture, size=self.side, mode="bilinear")[0]
        if self.as_bytes:
            return large.to(torch.uint8), place % 10
        return (large / 255 - 0.5) / 0.25, place % 10


class Net(nn.Module):
    """Eight convolutions and a classifier; pictures of bytes are normalized on the device."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, *[32] * 8)
        layers: list[nn.Module] = []
        for number, (left, right) in enumerate(pairwise(widths)):
            layers += [nn.Conv2d(left, right, 3, padding=1, stride=1 + number % 2), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.head = nn.Linear(32 * 16, 10)

    def forward(self, pictures: Tensor) -> Tensor:
        """Scores of ten classes."""
        if pictures.dtype == torch.uint8:
            pictures = (pictures.float() / 255 - 0.5) / 0.25
        head: Tensor = self.head(self.layers(pictures))
        return head


@contextmanager
def program(made: int, told: Asked, size: Size) -> Iterator[Callable[[], None]]:
    """The program with so many changes made."""
    on_cuda = torch.device(told.device).type == "cuda"
    loading: dict[str, Any] = {"batch_size": _samples(made, size), "pin_memory": on_cuda and made >= 2}
    if made >= 1:
        loading |= {"num_workers": size.workers, "prefetch_factor": _PREFETCH, "persistent_workers": True}
    batches = iter(DataLoader(Pictures(size.side, as_bytes=made >= 4), **loading))
    plain: nn.Module = Net().to(told.device)
    model = torch.compile(plain) if made >= 7 else plain
    optimizer = torch.optim.SGD(plain.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        pictures, labels = (each.to(told.device, non_blocking=made >= 2) for each in next(batches))
        optimizer.zero_grad(set_to_none=made >= 5)
        with torch.autocast(torch.device(told.device).type, torch.bfloat16, enabled=made >= 6):
            loss = nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()

    yield step


def _samples(made: int, size: Size) -> int:
    """Pictures of a step."""
    return size.batch * 8 if made >= 3 else size.batch


def main() -> None:
    """Measure and record all eight; times of a step and pictures of a step go to `measured.json`."""
    told = asked()
    on_host = torch.device(told.device).type == "cpu"
    size = _SMALL if told.small else _ON_HOST if on_host else _ON_DEVICE
    names = [f"{made}_{change.replace(' ', '_')}" for made, change in enumerate(CHANGES[: size.programs])]
    programs = {name: partial(program, made, told, size) for made, name in enumerate(names)}
    warm = size.workers * _PREFETCH + 2
    measured = in_turns(
        programs, told.out, size.rounds, size.steps, warm=warm, recordings=size.recordings, wait=told.wait
    )
    told.tell(**measured, samples={name: _samples(made, size) for made, name in enumerate(names)})


if __name__ == "__main__":
    main()
