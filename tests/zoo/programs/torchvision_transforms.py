"""torchvision: a ResNet is trained on pictures that PIL transforms prepare, in the process or in workers."""

import sys

import numpy as np
import torch
import torchvision
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

ABOUT = {
    "what": "torchvision, ResNet-18; transforms in the process that trains",
    "needs": ("torchvision",),
    "step": "an optimizer step",
    "steps": 14,
    "slow": "Each batch is decoded, cropped and jittered by the process that trains: DataLoader(num_workers=0).",
    "rules": ("DATA001",),
    "true": "The loop waits for its own transforms in each step; with workers they run beside it.",
}

STEPS, BATCH = 14, 8


class Pictures(Dataset):
    """JPEG-like pictures of 320 x 320, prepared as for ImageNet."""

    prepare = v2.Compose(
        [
            v2.RandomResizedCrop(96, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.2, 0.2, 0.2, 0.05),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, place):
        pixels = np.random.default_rng(place).integers(0, 255, (320, 320, 3), dtype=np.uint8)
        return self.prepare(Image.fromarray(pixels)), place % 10


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    workers = 2 if "--fixed" in sys.argv else 0
    loader = DataLoader(Pictures(), BATCH, num_workers=workers, prefetch_factor=2 if workers else None)
    model = torchvision.models.resnet18(num_classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss()
    for images, labels in loader:
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
