"""Word vectors: a sparse embedding with SparseAdam, as it should be."""

import torch
from torch import nn

ABOUT = {
    "what": "EmbeddingBag(sparse=True) with SparseAdam",
    "needs": (),
    "step": "an optimizer step",
    "steps": 30,
    "slow": None,
    "rules": (),
    "true": "The sparse optimizer's own operators take about half of each short step; torch has no faster one.",
}

STEPS, BATCH, WORDS, WIDTH = 30, 256, 20_000, 64


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    context = nn.EmbeddingBag(WORDS, WIDTH, sparse=True)
    target = nn.Embedding(WORDS, WIDTH, sparse=True)
    optimizer = torch.optim.SparseAdam([*context.parameters(), *target.parameters()], lr=0.01)
    for _ in range(STEPS):
        around = torch.randint(WORDS, (BATCH, 8))
        words = torch.randint(WORDS, (BATCH, 6))
        scores = torch.einsum("bd,bkd->bk", context(around), target(words))
        wanted = torch.zeros(BATCH, 6)
        wanted[:, 0] = 1
        loss = nn.functional.binary_cross_entropy_with_logits(scores, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
