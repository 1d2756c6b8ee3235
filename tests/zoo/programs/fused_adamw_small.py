# mypy: ignore-errors
"""A fused AdamW over 130 small tensors: its Python is a good part of so short a step, and cannot be changed."""

import torch
from torch import nn

ABOUT = {
    "what": "fused AdamW over many small parameters",
    "needs": (),
    "step": "an optimizer step",
    "steps": 30,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: the update is fused, and what is left of it is torch's own Python.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = (each for _ in range(32) for each in (nn.Linear(48, 48), nn.LayerNorm(48), nn.ReLU()))
    model = nn.Sequential(*layers, nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(64, 48), torch.randint(10, (64,))
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
