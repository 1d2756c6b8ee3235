# mypy: ignore-errors
"""Attention over long sequences is checkpointed, as its activations are most of what the machine has for them."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

ABOUT = {
    "what": "activation checkpointing that memory needs",
    "needs": (),
    "step": "an optimizer step",
    "steps": 12,
    "slow": None,
    "rules": (),
    "true": "A fifth of a step is computed again, on purpose: without it a step would keep some 0.1 GB.",
}


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(64), nn.Linear(64, 1024), nn.Linear(1024, 64)

    def forward(self, x):
        return x + self.outer(nn.functional.gelu(self.inner(self.norm(x))))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = nn.ModuleList(Mixer() for _ in range(4))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(2, 1024, 64)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        hidden = inputs
        for layer in layers:
            hidden = checkpoint(layer, hidden, use_reentrant=False)
        hidden.square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in layers.parameters()))


if __name__ == "__main__":
    main()
