"""An own loader: a thread prepares batches and hands them over in a queue, ahead of the loop."""

import queue
import threading

import numpy as np
import torch
from torch import nn

ABOUT = {
    "what": "own loader: a thread with a queue, ahead of the loop",
    "needs": (),
    "step": "an optimizer step",
    "steps": 24,
    "slow": None,
    "rules": (),
    "true": "The queue is full when the loop asks: it never waits, and the model takes the step.",
}

STEPS, BATCH = 24, 64


class Loader:
    """Batches of a thread, at most four ahead."""

    def __init__(self, count: int) -> None:
        self.count, self.ready = count, queue.Queue(4)
        threading.Thread(target=self._work, name="loader", daemon=True).start()

    def _work(self) -> None:
        drawn = np.random.default_rng(0)
        for _ in range(self.count):
            x = drawn.standard_normal((BATCH, 256), dtype=np.float32)
            self.ready.put((torch.from_numpy(x), torch.from_numpy(drawn.integers(0, 10, BATCH))))
        self.ready.put(None)

    def __iter__(self):
        while (batch := self.ready.get()) is not None:
            yield batch


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 2048), nn.GELU(), nn.Linear(2048, 1024), nn.GELU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for inputs, labels in Loader(STEPS):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
