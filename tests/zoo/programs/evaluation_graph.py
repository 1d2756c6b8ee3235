# mypy: ignore-errors
"""A model is evaluated batch by batch; the twin does so under `inference_mode`."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "evaluation loop without no_grad; the twin under inference_mode",
    "needs": (),
    "step": "a batch",
    "steps": None,
    "slow": "each forward pass builds an autograd graph",
    "rules": ("HOST012",),
    "true": "The forward passes keep a graph that nobody uses, which costs a little time and memory.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = (each for _ in range(12) for each in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU()))
    model = nn.Sequential(*layers, nn.Linear(64, 10)).eval()
    data = TensorDataset(torch.randn(6_400, 64), torch.randint(10, (6_400,)))
    correct = 0
    with torch.inference_mode("--fixed" in sys.argv):
        for inputs, targets in DataLoader(data, batch_size=64):
            correct += (model(inputs).argmax(1) == targets).sum()
    print("digest", correct.item())


if __name__ == "__main__":
    main()
