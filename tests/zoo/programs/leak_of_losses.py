# mypy: ignore-errors
"""Losses on held-out data are kept with their graphs, for a curve at the end; the twin makes no graph."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "evaluation losses kept with their graphs",
    "needs": (),
    "step": "an optimizer step",
    "steps": 24,
    "slow": "memory grows by the activations that each kept loss holds",
    "rules": ("MEMORY005",),
    "true": "Memory grows with each step: a list keeps the tensors of the losses and what they refer to.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(64, 256), torch.randint(10, (64,))
    held_out, answers = torch.randn(64, 256), torch.randint(10, (64,))
    curve = []
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        with torch.set_grad_enabled("--fixed" not in sys.argv):
            curve.append(nn.functional.cross_entropy(model(held_out), answers))
    print("digest", sum(loss.item() for loss in curve))


if __name__ == "__main__":
    main()
