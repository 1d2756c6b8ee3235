# mypy: ignore-errors
"""Large gradients are set to zero one by one: on a CPU new memory costs more than the zeros."""

import torch
from torch import nn

ABOUT = {
    "what": "gradients of 1 MiB set to zero, parameter by parameter",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: let go, each gradient's memory goes back to the system, and a step takes half as long again.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(each for _ in range(8) for each in (nn.Linear(512, 512), nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    inputs = torch.randn(8, 512)
    for _ in range(ABOUT["steps"]):
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()
        model(inputs).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
