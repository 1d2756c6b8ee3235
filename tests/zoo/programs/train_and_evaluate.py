# mypy: ignore-errors
"""Training with a short evaluation under `no_grad` after every epoch."""

import torch
from torch import nn

ABOUT = {
    "what": "training with evaluation after each epoch",
    "needs": (),
    "step": "an optimizer step",
    "steps": 32,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: every eighth step has an evaluation before it.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Linear(256, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    inputs, targets = torch.randn(8, 128, 256), torch.randint(10, (8, 128))
    held_out, answers = torch.randn(256, 256), torch.randint(10, (256,))
    for _ in range(ABOUT["steps"] // 8):
        model.train()
        for batch, labels in zip(inputs, targets, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch), labels).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            accuracy = (model(held_out).argmax(1) == answers).float().mean().item()
        print(f"accuracy {accuracy:.3f}")
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
