"""torch_geometric: neighbours are averaged node by node in Python, or by one GraphSAGE layer."""

import sys

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv

ABOUT = {
    "what": "torch_geometric, neighbours are averaged in a loop of Python",
    "needs": ("torch_geometric",),
    "step": "an optimizer step",
    "steps": 14,
    "slow": "Each node's neighbours are selected and averaged by operators of their own: thousands a step.",
    "rules": (),
    "true": "The loop over nodes launches the same few small operators for each node; one scatter does all. No rule says so.",
}

STEPS, NODES = 14, 300


class Loop(nn.Module):
    """A GraphSAGE layer as it is written down."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.neighbours, self.own = nn.Linear(width, out), nn.Linear(width, out, bias=False)

    def forward(self, x, edges):
        means = [x[edges[0, edges[1] == node]].mean(0) for node in range(len(x))]
        return self.neighbours(torch.stack(means)) + self.own(x)


class Network(nn.Module):
    def __init__(self, layer) -> None:
        super().__init__()
        self.first, self.second = layer(32, 64), layer(64, 8)

    def forward(self, x, edges):
        return self.second(self.first(x, edges).relu(), edges)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    edges = torch.cat([torch.randint(NODES, (2, 4 * NODES)), torch.arange(NODES).repeat(2, 1)], 1)
    graph = Data(x=torch.randn(NODES, 32), edge_index=edges, y=torch.randint(8, (NODES,)))
    model = Network(SAGEConv if "--fixed" in sys.argv else Loop)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(graph.x, graph.edge_index), graph.y)
        loss.backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
