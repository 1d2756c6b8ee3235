# mypy: ignore-errors
"""An average of the weights is kept parameter by parameter, in FP32; the twin updates it with one call."""

import copy
import sys

import torch
from torch import nn

ABOUT = {
    "what": "moving average of the weights by hand",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "two operators for each of 98 parameters, in Python",
    "rules": ("HOST003",),
    "true": "The average takes about a tenth of a step; `torch._foreach_lerp_` does it in one call.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(each for _ in range(48) for each in (nn.Linear(64, 64), nn.ReLU())), nn.Linear(64, 10))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(64, 64), torch.randint(10, (64,))
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        with torch.no_grad():
            if "--fixed" in sys.argv:
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 0.01)
            else:
                for kept, now in zip(average.parameters(), model.parameters(), strict=True):
                    kept.mul_(0.99).add_(now, alpha=0.01)
    print("digest", sum(p.double().sum().item() for p in average.parameters()))


if __name__ == "__main__":
    main()
