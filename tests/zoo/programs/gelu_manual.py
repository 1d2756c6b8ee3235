# mypy: ignore-errors
"""GELU is written out by its formula; the twin calls `F.gelu`."""

import math
import sys

import torch
from torch import nn

ABOUT = {
    "what": "GELU written out",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "eight operators in place of one, forward, and more of them backward",
    "rules": ("HOST003",),
    "true": "GELU runs operator by operator; `F.gelu` in its place shortens a step by some percent.",
}


class NewGELU(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gelu = nn.GELU(approximate="tanh") if "--fixed" in sys.argv else NewGELU()
    layers = (each for _ in range(3) for each in (nn.Linear(256, 1024), gelu, nn.Linear(1024, 256)))
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(64, 256)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
