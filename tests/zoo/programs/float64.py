# mypy: ignore-errors
"""The data come from NumPy in double precision, and the model was made to fit them."""

import sys

import numpy as np
import torch
from torch import nn

ABOUT = {
    "what": "the whole model in float64",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "all products are computed in float64",
    "rules": ("DEVICE013",),
    "true": "The model computes in FP64; in FP32 a step takes about half.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1))
    data = torch.from_numpy(np.random.default_rng(0).normal(size=(64 * ABOUT["steps"], 256)))
    if "--fixed" in sys.argv:
        data = data.float()
    else:
        model = model.double()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for batch in data.split(64):
        optimizer.zero_grad()
        (model(batch) - batch.mean(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
