# mypy: ignore-errors
"""Gradients of four batches are added up before each update, as a large batch would not fit."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "gradient accumulation in a plain loop",
    "needs": (),
    "step": "an optimizer step: four batches and an update",
    "steps": 16,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: convolutions take most of a step.",
}
ACCUMULATE = 4


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    count = 16 * ACCUMULATE * ABOUT["steps"]
    loader = DataLoader(TensorDataset(torch.randn(count, 3, 16, 16), torch.randint(10, (count,))), batch_size=16)
    for number, (images, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(images), labels)
        (loss / ACCUMULATE).backward()
        if (number + 1) % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
