"""The same kind of network without a fault: batches are ready, the optimizer is fused, two threads at most."""

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)


def main():
    """Train until somebody ends it."""
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loss_of = nn.CrossEntropyLoss()
    pictures = torch.rand(64, 3, 32, 32).to(memory_format=torch.channels_last)
    classes = torch.randint(0, 10, (64,))
    while True:
        optimizer.zero_grad()
        loss_of(model(pictures), classes).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
