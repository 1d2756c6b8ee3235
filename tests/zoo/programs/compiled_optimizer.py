# mypy: ignore-errors
"""Forward and backward pass run as they are; the optimizer's step is compiled."""

import torch
from torch import nn

ABOUT = {
    "what": "optimizer inside torch.compile",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: the compiled update is one call.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    @torch.compile(fullgraph=False)
    def update():
        optimizer.step()

    inputs, targets = torch.randn(128, 256), torch.randint(10, (128,))
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        update()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
