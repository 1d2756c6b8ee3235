# mypy: ignore-errors
"""Gradients are set to zero one by one; the twin lets them go."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "gradients of 16 KiB set to zero, parameter by parameter",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "each gradient is filled with zeros, and added to in the backward pass",
    "rules": ("HOST005",),
    "true": "Gradients are zeroed by an operator each; `zero_grad()` lets them go, and a step is shorter by some percent.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(each for _ in range(40) for each in (nn.Linear(64, 64), nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(8, 64)
    for _ in range(ABOUT["steps"]):
        if "--fixed" in sys.argv:
            optimizer.zero_grad()
        else:
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.zero_()
        model(inputs).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
