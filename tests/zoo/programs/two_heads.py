"""Two heads on one trunk, each with a loss: a backward pass for each, or one for their sum."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "two losses with a backward pass each",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "The trunk's backward pass runs once for each head, with retain_graph=True.",
    "rules": ("HOST014",),
    "true": "One backward pass of the sum gives the same gradients and goes through the trunk once.",
}

STEPS, BATCH = 20, 64


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()]
        self.trunk = nn.Sequential(*layers)
        self.kind, self.place = nn.Linear(1024, 10), nn.Linear(1024, 4)

    def forward(self, inputs):
        hidden = self.trunk(inputs)
        return self.kind(hidden), self.place(hidden)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        inputs, kinds, places = torch.randn(BATCH, 256), torch.randint(10, (BATCH,)), torch.rand(BATCH, 4)
        kind, place = model(inputs)
        first = nn.functional.cross_entropy(kind, kinds)
        second = nn.functional.smooth_l1_loss(place, places)
        optimizer.zero_grad()
        if "--fixed" in sys.argv:
            (first + second).backward()
        else:
            first.backward(retain_graph=True)
            second.backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.1f}")


if __name__ == "__main__":
    main()
