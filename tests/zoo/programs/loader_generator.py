"""An own generator that cuts batches out of a tensor: cheap, and nothing to mend."""

import torch
from torch import nn

ABOUT = {
    "what": "own loader: a generator over a tensor in memory",
    "needs": (),
    "step": "an optimizer step",
    "steps": 32,
    "slow": None,
    "rules": (),
    "true": "Drawing a batch takes a small part of the step; the model's products take the rest.",
}

BATCH = 64


def batches(inputs, labels):
    order = torch.randperm(len(inputs))
    for begin in range(0, len(order), BATCH):
        chosen = order[begin : begin + BATCH]
        yield inputs[chosen], labels[chosen]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs, labels = torch.randn(1024, 256), torch.randint(10, (1024,))
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for epoch in range(2):
        total = 0.0
        for x, y in batches(inputs, labels):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"loss of epoch {epoch}: {total.item() / 16:.5f}")


if __name__ == "__main__":
    main()
