"""Pictures are augmented one by one in numpy between the steps, by a function of the training loop."""

import sys

import numpy as np
import torch
from torch import nn

ABOUT = {
    "what": "images augmented one by one in numpy",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": "Each picture is cropped, flipped, blurred and scaled by numpy in the loop itself.",
    "rules": ("HOST008", "DATA004"),
    "true": "A large part of each step is numpy's work on single pictures, while the model waits.",
}

STEPS, BATCH, SIDE = 16, 16, 112


def augment(picture, drawn):
    """One picture, uint8 [height, width, 3] -> float32 [3, side, side]."""
    top, left = drawn.integers(0, 48, 2)
    image = picture[top : top + SIDE, left : left + SIDE].astype(np.float32) / 255
    if drawn.random() < 0.5:
        image = image[:, ::-1]
    for axis in (0, 1):
        image = (np.roll(image, 1, axis) + 2 * image + np.roll(image, -1, axis)) / 4
    image = np.clip((image - 0.5) * drawn.uniform(0.8, 1.2) + 0.5, 0, 1) ** drawn.uniform(0.9, 1.1)
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))


def augment_all(pictures, drawn):
    """The same crop, flip and contrast for all of a batch, by torch: no loop, no power."""
    top, left = drawn.integers(0, 48, 2)
    images = pictures[:, top : top + SIDE, left : left + SIDE].permute(0, 3, 1, 2).float() / 255
    return images.flip(-1) if drawn.random() < 0.5 else images


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    drawn = np.random.default_rng(0)
    pictures = drawn.integers(0, 255, (128, 160, 160, 3), dtype=np.uint8)
    tensor, labels = torch.from_numpy(pictures), torch.randint(10, (128,))
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        chosen = drawn.integers(0, 128, BATCH)
        if "--fixed" in sys.argv:
            images = augment_all(tensor[chosen], drawn)
        else:
            images = torch.stack([augment(pictures[place], drawn) for place in chosen])
        loss = nn.functional.cross_entropy(model(images), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
