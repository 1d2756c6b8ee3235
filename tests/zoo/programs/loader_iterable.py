"""An IterableDataset that parses lines of text, in the process that trains or in workers."""

import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ABOUT = {
    "what": "own loader: an IterableDataset that parses text, without workers",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": "Lines are parsed in Python by the process that trains: DataLoader(num_workers=0).",
    "rules": ("DATA001",),
    "true": "Most of each step is parsing in `next`; in workers it runs beside the training.",
}

STEPS, BATCH, FEATURES = 16, 64, 200


class Lines(IterableDataset):
    """Lines such as `3 0.123 -1.25 …`: a label and features."""

    def __iter__(self):
        info = get_worker_info()
        number, count = (info.id, info.num_workers) if info else (0, 1)
        drawn = random.Random(0)
        line = " ".join(f"{drawn.gauss(0, 1):.6f}" for _ in range(FEATURES))
        for place in range(number, STEPS * BATCH, count):
            fields = f"{place % 10} {line}".split()
            values = [float(field) for field in fields[1:]]
            mean = sum(values) / len(values)
            yield torch.tensor([value - mean for value in values]), int(fields[0])


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(Lines(), BATCH, num_workers=2 if "--fixed" in sys.argv else 0)
    model = nn.Sequential(nn.Linear(FEATURES, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
