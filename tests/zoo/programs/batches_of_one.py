# mypy: ignore-errors
"""Samples go through the model one by one, and their gradients are added up; the twin takes them together."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "batches of one, accumulated",
    "needs": (),
    "step": "an optimizer step: 64 samples",
    "steps": 16,
    "slow": "64 forward and backward passes of one sample each, in place of one of 64",
    "rules": (),
    "true": "The model runs 64 times a step with one sample; one batch of 64 takes a tenth of the time.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(64, 128), torch.randint(10, (64,))
    size = 64 if "--fixed" in sys.argv else 1
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        for batch, labels in zip(inputs.split(size), targets.split(size), strict=True):
            (nn.functional.cross_entropy(model(batch), labels) * (size / 64)).backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
