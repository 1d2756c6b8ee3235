# mypy: ignore-errors
"""Adam is stepped with a closure, and goes through many small parameters one by one."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "Adam stepped with a closure; the twin is fused",
    "needs": (),
    "step": "an optimizer step",
    "steps": 24,
    "slow": "Adam updates 96 small parameters one by one",
    "rules": ("HOST004",),
    "true": "Adam's update takes four tenths of a step; `fused=True` does it in one operator.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(layer for _ in range(48) for layer in (nn.Linear(64, 64), nn.ReLU())), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused="--fixed" in sys.argv)
    inputs, targets = torch.randn(64, 64), torch.randint(10, (64,))

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(ABOUT["steps"]):
        loss = optimizer.step(closure)
    print("loss", loss.item())
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
