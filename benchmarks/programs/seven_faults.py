"""A small network for pictures with seven faults, as a tutorial removes them one by one; on a CPU.

Four can be removed without an edit: loading in the training process, more threads than cores, the detection of
anomalies, gradients of an evaluation. So can an optimizer that updates one parameter after the other. A transform in
plain Python and needless copies need an edit.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(4)
torch.autograd.set_detect_anomaly(True)
torch.manual_seed(0)


class Pictures(Dataset):
    """Pictures drawn by chance, with a transform in plain Python."""

    def __len__(self):
        """A number of pictures that no training gets through."""
        return 1 << 20

    def __getitem__(self, index):
        """One picture and its class."""
        generator = torch.Generator().manual_seed(index)
        picture = torch.randint(0, 255, (3, 32, 32), generator=generator, dtype=torch.uint8)
        shift = 0
        for each in range(12_000):
            shift += each * each % 7
        return picture.float() / 255 + shift % 2, index % 10


class Network(nn.Module):
    """Convolutions, and a row of small layers."""

    def __init__(self):
        """Its layers."""
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, padding=1, stride=stride)
            for before, after, stride in ((3, 16, 1), (16, 16, 2), (16, 32, 2))
        )
        self.small = nn.ModuleList(nn.Linear(32, 32) for _ in range(20))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        """One score for each class."""
        for layer in self.convolutions:
            x = torch.relu(layer(x)).clone()
        x = x.mean((2, 3))
        for layer in self.small:
            x = x + torch.relu(layer(x)) * 0.1
        return self.head(x)


def main():
    """Train until somebody ends it."""
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    loss_of = nn.CrossEntropyLoss()
    held_out = torch.rand(32, 3, 32, 32)
    for pictures, classes in DataLoader(Pictures(), batch_size=16):
        optimizer.zero_grad()
        loss_of(model(pictures), classes).backward()
        optimizer.step()
        model.eval()
        model(held_out)
        model.train()


if __name__ == "__main__":
    main()
