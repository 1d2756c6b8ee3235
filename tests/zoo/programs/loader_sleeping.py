"""An own generator waits for its storage before each batch; a thread could fetch ahead."""

import queue
import sys
import threading
import time

import torch
from torch import nn

ABOUT = {
    "what": "own loader: a generator that waits for storage",
    "needs": (),
    "step": "an optimizer step",
    "steps": 24,
    "slow": "The generator sleeps 20 ms (a storage that answers late) before each batch, while nothing else runs.",
    "rules": ("DATA004", "HOST008"),
    "true": "The loop waits some 20 ms in each step for its own generator; fetched ahead by a thread it would not.",
}

STEPS, BATCH = 24, 768


def fetched(count):
    """Batches as they come from the storage."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        time.sleep(0.02)
        yield torch.randn(BATCH, 512, generator=generator), torch.randint(10, (BATCH,), generator=generator)


def ahead(batches, depth=4):
    """The same, fetched by a thread."""
    ready = queue.Queue(depth)

    def fetch() -> None:
        for batch in batches:
            ready.put(batch)
        ready.put(None)

    threading.Thread(target=fetch, daemon=True).start()
    while (batch := ready.get()) is not None:
        yield batch


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = fetched(STEPS)
    for inputs, labels in ahead(batches) if "--fixed" in sys.argv else batches:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
