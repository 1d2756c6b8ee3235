# mypy: ignore-errors
"""Histograms of all weights and gradients are made in each step, as for TensorBoard; the twin does so every tenth."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "histograms of all parameters in each step",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "the histograms take more time than the training",
    "rules": ("HOST008",),
    "true": "Two histograms for each parameter take most of a step; every tenth step would do.",
}


def log(writer, model):
    for name, parameter in model.named_parameters():
        for kind, values in (("weights", parameter.detach()), ("gradients", parameter.grad)):
            counts, edges = torch.histogram(values.flatten(), bins=64)
            writer[f"{kind}/{name}"] = (counts.tolist(), edges.tolist(), values.mean().item(), values.std().item())


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(64, 256), torch.randint(10, (64,))
    writer = {}
    for step in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        if "--fixed" not in sys.argv or step % 10 == 0:
            log(writer, model)
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
