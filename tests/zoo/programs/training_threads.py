"""Two models are trained at once, each in a thread of its own."""

import threading

import torch
from torch import nn

ABOUT = {
    "what": "training in two threads at once",
    "needs": (),
    "step": "an optimizer step",
    "steps": 40,
    "slow": None,
    "rules": (),
    "true": "Each thread steps an optimizer of its own; their operators run beside each other.",
}

STEPS, BATCH = 20, 32


def train(seed: int, results: list) -> None:
    drawn = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, 256, generator=drawn)
        labels = torch.randint(10, (BATCH,), generator=drawn)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    results[seed] = loss.item()


def main() -> None:
    torch.set_num_threads(1)
    results = [0.0, 0.0]
    threads = [threading.Thread(target=train, args=(seed, results)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("loss", all(loss > 0 for loss in results))


if __name__ == "__main__":
    main()
