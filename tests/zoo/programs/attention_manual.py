# mypy: ignore-errors
"""Causal attention is written out; the twin calls `scaled_dot_product_attention`."""

import math
import sys

import torch
from torch import nn

ABOUT = {
    "what": "attention written out",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": "scores are scaled, masked, and soft-maxed in memory",
    "rules": ("DEVICE005",),
    "true": "Attention runs operator by operator; one fused operator in its place shortens a step by a quarter.",
}


class Attention(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.fused, self.qkv, self.out = fused, nn.Linear(256, 768), nn.Linear(256, 256)
        self.register_buffer("mask", torch.tril(torch.ones(256, 256)).bool())

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 8, 32).permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(32)
            y = nn.functional.softmax(scores.masked_fill(~self.mask[:length, :length], float("-inf")), dim=-1) @ v
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*(Attention("--fixed" in sys.argv) for _ in range(2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(2, 256, 256)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
