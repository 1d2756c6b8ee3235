"""An evaluation script as it should be: batches of a tensor, inference mode, sums read at the end."""

import torch
from torch import nn

ABOUT = {
    "what": "evaluation without an optimizer",
    "needs": (),
    "step": "a call of the model",
    "steps": None,
    "slow": None,
    "rules": (),
    "true": "Convolutions of the model take nearly all of the time.",
}


@torch.inference_mode()
def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs, labels = torch.randn(640, 3, 32, 32), torch.randint(10, (640,))
    model = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(64, 10)),
    ).eval()
    right, loss = torch.zeros((), dtype=torch.long), torch.zeros(())
    for x, y in zip(inputs.split(32), labels.split(32), strict=False):
        logits = model(x)
        loss += nn.functional.cross_entropy(logits, y, reduction="sum")
        right += (logits.argmax(-1) == y).sum()
    print(f"result: accuracy {right.item() / 640:.4f}, loss {loss.item() / 640:.4f}")


if __name__ == "__main__":
    main()
