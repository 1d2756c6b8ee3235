# mypy: ignore-errors
"""Each layer is checkpointed, though all activations together are a few megabytes."""

import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

ABOUT = {
    "what": "activation checkpointing that nothing needs",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": "the forward pass of each layer runs twice",
    "rules": ("MEMORY007",),
    "true": "The second forward pass takes about a quarter of a step, to save a few megabytes.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = nn.ModuleList(nn.TransformerEncoderLayer(128, 4, 512, 0.0, "gelu", batch_first=True) for _ in range(4))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(8, 64, 128)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        hidden = inputs
        for layer in layers:
            hidden = layer(hidden) if "--fixed" in sys.argv else checkpoint(layer, hidden, use_reentrant=False)
        hidden.square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in layers.parameters()))


if __name__ == "__main__":
    main()
