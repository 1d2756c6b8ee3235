# mypy: ignore-errors
"""Anomaly detection was switched on to find a NaN, and was left on."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "anomaly detection left on",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "autograd keeps a stack for each operator, and looks for NaN in each gradient",
    "rules": ("HOST011",),
    "true": "Anomaly detection is on; without it a step takes about half.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.autograd.set_detect_anomaly("--fixed" not in sys.argv)
    model = nn.Sequential(*(nn.TransformerEncoderLayer(64, 2, 128, 0.0, batch_first=True) for _ in range(2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(4, 32, 64)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
