"""timm: a small EfficientNet is trained with Mixup and an average of its weights."""

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.utils import ModelEmaV3

ABOUT = {
    "what": "timm, an EfficientNet is trained with Mixup and an average of the weights",
    "needs": ("timm",),
    "step": "an optimizer step",
    "steps": 12,
    "slow": None,
    "rules": (),
    "true": "Convolutions and batch norms of the forward and backward pass take most of the step.",
}

STEPS, BATCH = 12, 8


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = timm.create_model("test_efficientnet", num_classes=10, pretrained=False)
    average = ModelEmaV3(model, decay=0.99)
    mixup = Mixup(mixup_alpha=0.2, num_classes=10)
    criterion = SoftTargetCrossEntropy()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    images, labels = torch.randn(32, 3, 96, 96), torch.randint(10, (32,))
    model.train()
    for _ in range(STEPS):
        chosen = torch.randint(32, (BATCH,))
        inputs, targets = mixup(images[chosen], labels[chosen])
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
