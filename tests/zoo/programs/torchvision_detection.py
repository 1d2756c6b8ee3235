"""torchvision: a tiny Faster R-CNN is trained, as its reference script does it."""

import torch
from torch import nn
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.rpn import AnchorGenerator
from torchvision.ops import MultiScaleRoIAlign

ABOUT = {
    "what": "torchvision, a tiny Faster R-CNN is trained",
    "needs": ("torchvision",),
    "step": "an optimizer step",
    "steps": 14,
    "slow": None,
    "rules": (),
    "true": "Many small operators of proposals and matching, made by torchvision; the user's loop has no fault.",
}

STEPS = 14


def backbone() -> nn.Module:
    """Four convolutions; 64 channels at an eighth of the picture's size."""
    layers, before = [], 3
    for channels in (16, 32, 64):
        layers += [nn.Conv2d(before, channels, 3, stride=2, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
        before = channels
    body = nn.Sequential(*layers, nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())
    body.out_channels = 64
    return body


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = FasterRCNN(
        backbone(),
        num_classes=4,
        min_size=160,
        max_size=160,
        rpn_anchor_generator=AnchorGenerator(((16, 32, 64),), ((0.5, 1.0, 2.0),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 7, 2),
        rpn_pre_nms_top_n_train=200,
        rpn_post_nms_top_n_train=100,
        box_batch_size_per_image=64,
    )
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.005, momentum=0.9)
    pictures = [torch.rand(3, 160, 160) for _ in range(2)]
    boxes = torch.tensor([[10.0, 20.0, 60.0, 80.0], [70.0, 30.0, 150.0, 120.0]])
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2])} for _ in pictures]
    model.train()
    for _ in range(STEPS):
        losses = model(pictures, targets)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
