# mypy: disable-error-code="import-not-found, no-untyped-call, misc, unused-ignore"
"""A compiled model, whose kernels lead to the lines of this file; `record.py` runs it with torch's log switched on."""

from __future__ import annotations

import sys
from pathlib import Path

import strip
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


class Block(nn.Module):
    """Two products and a norm, and what a compiler fuses between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the shape of x."""
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return x + 0.5 * torch.tanh(self.down(hidden))


class Classifier(nn.Module):
    """Two blocks and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(32), Block(32)])
        self.head = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logarithms of eight probabilities."""
        for block in self.blocks:
            x = block(x)
        return torch.log_softmax(self.head(x), dim=-1)


def main(out: Path) -> None:
    """Train five steps, of which three are recorded; the loss is not compiled."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Classifier()
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def save(p: profile) -> None:
        plain = out / "plain.json"
        p.export_chrome_trace(str(plain))
        (out / "rank0.pt.trace.json.gz").write_bytes(strip.gzipped(plain.read_bytes()))
        plain.unlink()

    steps = schedule(wait=1, warmup=1, active=3)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, on_trace_ready=save, record_shapes=True) as p:
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.nll_loss(compiled(torch.randn(16, 32)), torch.randint(8, (16,)))
            loss.backward()
            optimizer.step()
            p.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
