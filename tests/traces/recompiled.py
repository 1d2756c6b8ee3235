# mypy: disable-error-code="import-not-found, no-untyped-call, misc, unused-ignore"
"""A compiled model with planted faults: a graph break, a function that is skipped, a size and a value that change."""

from __future__ import annotations

import sys
from pathlib import Path

import strip
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


def measured(x: torch.Tensor) -> torch.Tensor:
    """Torch cannot go on behind a break in a loop, and skips the function."""
    for _ in range(2):
        print("a planted break in a loop")
        x = x + 1
    return x


class Model(nn.Module):
    """Two layers, with a break between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 8)
        self.scale = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the shape [batch, 8]."""
        x = nn.functional.gelu(self.up(x))
        print("a planted graph break")
        return torch.relu(self.down(x)) * self.scale


def main(out: Path) -> None:
    """Train eight steps, of which five are recorded; in the fifth the size changes, in the sixth the value."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    compiled, skipped = torch.compile(model), torch.compile(measured)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def save(p: profile) -> None:
        plain = out / "plain.json"
        p.export_chrome_trace(str(plain))
        (out / "rank0.pt.trace.json.gz").write_bytes(strip.gzipped(plain.read_bytes()))
        plain.unlink()

    steps = schedule(wait=2, warmup=1, active=5)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, on_trace_ready=save) as p:
        for step in range(8):
            model.scale = 1 + (step >= 5)
            optimizer.zero_grad()
            compiled(torch.randn(8 if step < 4 else 12, 16)).sum().backward()
            optimizer.step()
            if step == 0:
                skipped(torch.zeros(4))
            p.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
