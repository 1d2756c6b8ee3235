# mypy: ignore-errors
"""A transformer, compiled as a whole."""

import torch
from torch import nn

ABOUT = {
    "what": "model compiled whole",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: two compiled graphs and a fused update.",
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(128), nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x):
        return x + self.outer(nn.functional.gelu(self.inner(self.norm(x))))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(Block(), Block())
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(512, 128)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        compiled(inputs).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
