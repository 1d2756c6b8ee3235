"""Two trainings in one process, one after the other: a small model, then a larger one."""

import torch
from torch import nn

ABOUT = {
    "what": "several models: two trainings, one after the other",
    "needs": (),
    "step": "an optimizer step",
    "steps": 40,
    "slow": None,
    "rules": (),
    "true": "Steps of the first model are short, those of the second ten times as long; products take them.",
}

STEPS, BATCH = 20, 64


def trained(width: int) -> float:
    model = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        inputs, labels = torch.randn(BATCH, 256), torch.randint(10, (BATCH,))
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for width in (256, 1024):
        print(f"loss of width {width}: {trained(width):.5f}")


if __name__ == "__main__":
    main()
