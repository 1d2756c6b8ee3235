"""A graph network in plain torch: the neighbourhood is a sparse matrix."""

import torch
from torch import nn

ABOUT = {
    "what": "a graph network with torch.sparse.mm",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": None,
    "rules": (),
    "true": "Products with the sparse neighbourhood and the weights take most of the step.",
}

STEPS, NODES, WIDTH = 20, 4000, 128


class Network(nn.Module):
    """Two graph convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 16)

    def forward(self, neighbourhood, x):
        hidden = torch.sparse.mm(neighbourhood, self.first(x)).relu()
        return torch.sparse.mm(neighbourhood, self.second(hidden))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    edges = torch.randint(NODES, (2, 10 * NODES))
    neighbourhood = torch.sparse_coo_tensor(edges, torch.full((10 * NODES,), 0.1), (NODES, NODES)).coalesce()
    x, labels = torch.randn(NODES, WIDTH), torch.randint(16, (NODES,))
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(neighbourhood, x), labels)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
