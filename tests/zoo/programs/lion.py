# mypy: ignore-errors
"""An optimizer of one's own: Lion, as its paper writes it; the twin has torch's `_foreach_` functions."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "own optimizer class (Lion)",
    "needs": (),
    "step": "an optimizer step",
    "steps": 24,
    "slow": "Lion updates 98 small parameters one by one, five operators each",
    "rules": ("HOST004",),
    "true": "With `_foreach_` functions a step is a tenth shorter: calls from Python go, the arithmetic stays.",
}


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["exp_avg"] = torch.zeros_like(p)
                p.mul_(1 - lr * decay)
                update = state["exp_avg"].lerp(p.grad, 1 - beta1).sign_()
                p.add_(update, alpha=-lr)
                state["exp_avg"].lerp_(p.grad, 1 - beta2)


class ForeachLion(Lion):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            params = group["params"]
            if not self.state:
                for p in params:
                    self.state[p]["exp_avg"] = torch.zeros_like(p)
            averages, grads = [self.state[p]["exp_avg"] for p in params], [p.grad for p in params]
            torch._foreach_mul_(params, 1 - lr * decay)
            updates = torch._foreach_lerp(averages, grads, 1 - beta1)
            torch._foreach_sign_(updates)
            torch._foreach_add_(params, updates, alpha=-lr)
            torch._foreach_lerp_(averages, grads, 1 - beta2)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(layer for _ in range(48) for layer in (nn.Linear(64, 64), nn.ReLU())), nn.Linear(64, 10))
    optimizer = (ForeachLion if "--fixed" in sys.argv else Lion)(model.parameters())
    inputs, targets = torch.randn(64, 64), torch.randint(10, (64,))
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
