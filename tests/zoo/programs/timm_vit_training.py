"""timm: a small vision transformer is trained, with timm's own optimizer factory and schedule."""

import timm
import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

ABOUT = {
    "what": "timm, a small ViT is trained",
    "needs": ("timm",),
    "step": "an optimizer step",
    "steps": 14,
    "slow": None,
    "rules": (),
    "true": "Matrix products of the forward and backward pass take most of the step; nothing in it is needless.",
}

STEPS, BATCH = 14, 8


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=64, patch_size=8, depth=2, num_classes=10, pretrained=False
    )
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=STEPS, warmup_t=2, t_in_epochs=False)
    images, labels = torch.randn(64, 3, 64, 64), torch.randint(10, (64,))
    model.train()
    for update in range(STEPS):
        chosen = torch.randint(64, (BATCH,))
        loss = torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step_update(update + 1)
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
