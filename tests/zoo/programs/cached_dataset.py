# mypy: ignore-errors
"""A small CNN; the data set decodes each image in the first epoch, and keeps it; the twin does so before the training."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ABOUT = {
    "what": "own CNN, data set that caches in its first epoch",
    "needs": (),
    "step": "an optimizer step",
    "steps": 40,
    "phase": 8,
    "slow": "in its first epoch, which is what a recording of the first steps sees, the loop decodes images itself",
    "rules": ("DATA001",),
    "true": "Loading takes half of the steps of the first epoch; from the second on it takes nothing.",
}


class Images(Dataset):
    def __init__(self, count):
        self.count, self.cache = count, {}

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        if place not in self.cache:
            generator = torch.Generator().manual_seed(place)
            image = torch.rand(3, 64, 64, generator=generator)
            for _ in range(3):  # as if it were decoded and resized
                image = nn.functional.interpolate(image[None], scale_factor=2.0, mode="bilinear")[0]
                image = nn.functional.avg_pool2d(image[None], 2)[0]
            self.cache[place] = nn.functional.avg_pool2d(image[None], 2)[0]
        return self.cache[place], place % 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc = nn.Linear(64 * 8 * 8, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.conv1(x).relu(), 2)
        x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
        return self.fc(x.flatten(1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    images = Images(128)
    if "--fixed" in sys.argv:
        for place in range(len(images)):
            images[place]
    loader = DataLoader(images, batch_size=16, shuffle=True)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    for _ in range(ABOUT["steps"] // 8):
        for batch, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
