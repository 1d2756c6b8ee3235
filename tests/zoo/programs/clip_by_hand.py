# mypy: ignore-errors
"""Gradients are clipped by a norm that Python adds up; the twin calls `clip_grad_norm_`."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "gradients clipped by hand",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "a norm, an item and a product for each of 98 parameters",
    "rules": ("HOST003", "HOST015"),
    "true": "Clipping takes about a tenth of a step; `clip_grad_norm_` takes a call for all parameters.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(each for _ in range(48) for each in (nn.Linear(64, 64), nn.ReLU())), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(64, 64), torch.randint(10, (64,))
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        if "--fixed" in sys.argv:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=True)
        else:
            total = 0.0
            for parameter in model.parameters():
                total += parameter.grad.data.norm(2).item() ** 2
            scale = min(0.01 / (total**0.5 + 1e-6), 1.0)
            for parameter in model.parameters():
                parameter.grad.data.mul_(scale)
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
