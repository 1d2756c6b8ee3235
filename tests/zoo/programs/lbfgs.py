# mypy: ignore-errors
"""A small network is fitted with LBFGS, whose closure runs several times a step."""

import torch
from torch import nn

ABOUT = {
    "what": "LBFGS with a line search",
    "needs": (),
    "step": "a step of the optimizer, which calls its closure up to five times",
    "steps": 16,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: the closure's passes are most of a step, and LBFGS has no other form.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x = torch.linspace(-3, 3, 4096)[:, None]
    y = torch.sin(2 * x) + 0.1 * torch.randn_like(x)
    model = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(ABOUT["steps"]):
        loss = optimizer.step(closure)
    print("loss", loss.item())
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
