"""A recommender like DLRM: bags of embeddings, dense features, products of all pairs."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "DLRM-like, EmbeddingBag with dense gradients",
    "needs": (),
    "step": "an optimizer step",
    "steps": 14,
    "slow": "The gradient of each table is dense, and Adam goes through every row of it, though a batch names few.",
    "rules": ("MEMORY006",),
    "true": "Most of the step fills and updates rows that no sample named; a sparse gradient has only the others.",
}

STEPS, BATCH, ROWS, WIDTH, TABLES = 14, 128, 40_000, 32, 4


class Recommender(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(ROWS, WIDTH, mode="sum", sparse=sparse) for _ in range(TABLES))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.ReLU())
        pairs = (TABLES + 1) * TABLES // 2
        self.top = nn.Sequential(nn.Linear(pairs + WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, sparse, offsets):
        bottom = self.bottom(dense)
        parts = [bottom, *(table(ids, offsets) for table, ids in zip(self.tables, sparse, strict=False))]
        stacked = torch.stack(parts, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        rows, columns = torch.tril_indices(len(parts), len(parts), -1)
        return self.top(torch.cat([bottom, products[:, rows, columns]], 1)).squeeze(1)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sparse = "--fixed" in sys.argv
    model = Recommender(sparse)
    rest = [*model.bottom.parameters(), *model.top.parameters()]
    if sparse:
        optimizers = [torch.optim.SparseAdam(list(model.tables.parameters())), torch.optim.Adam(rest, fused=True)]
    else:
        optimizers = [torch.optim.Adam(model.parameters(), fused=True)]
    offsets = torch.arange(0, BATCH * 5, 5)
    for _ in range(STEPS):
        dense, ids = torch.randn(BATCH, 13), torch.randint(ROWS, (TABLES, BATCH * 5))
        labels = torch.randint(2, (BATCH,)).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(dense, ids, offsets), labels)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
