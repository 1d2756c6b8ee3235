# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Models that torch.compile compiled, with the lines that each kernel is made from and torch's log of it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import kinetoscope
from kinetoscope.record.session.options import RecordOptions
from tools.gpu.programs.asked import Asked, asked


class Block(nn.Module):
    """Attention's neighbours: a norm, two products, and what lies between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """As named above."""
        y: Tensor = x + self.outer(nn.functional.gelu(self.inner(self.norm(x)), approximate="tanh"))
        return y


def record(told: Asked, name: str, mode: str | None) -> None:
    """Three steps of a compiled model, into a folder of this name."""
    width, rows = (64, 32) if told.small else (1024, 8192)
    plain = nn.Sequential(*(Block(width) for _ in range(1 if told.small else 4))).to(told.device)
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-4)
    batch = torch.randn(rows, width, device=told.device)
    options = RecordOptions(with_provenance=True)
    with kinetoscope.profile(told.out / name, wait=2, warmup=1, active=3, options=options, run=name) as prof:
        model = torch.compile(plain, mode=mode)
        for _ in range(6):
            optimizer.zero_grad()
            with torch.autocast(torch.device(told.device).type, torch.bfloat16):
                loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            prof.step()


def main() -> None:
    """By default, and with CUDA graphs."""
    told = asked()
    record(told, "default", None)
    if told.device != "cpu":
        record(told, "reduce-overhead", "reduce-overhead")


if __name__ == "__main__":
    main()
