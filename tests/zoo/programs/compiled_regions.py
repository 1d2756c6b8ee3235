# mypy: ignore-errors
"""Each block of a model is compiled by itself; what lies between them runs as it is."""

import torch
from torch import nn

ABOUT = {
    "what": "blocks compiled one by one",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: the blocks are compiled, attention and update are fused.",
}


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(128), nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x):
        return x + self.outer(nn.functional.gelu(self.inner(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.ModuleList(nn.MultiheadAttention(128, 4, batch_first=True) for _ in range(2))
        self.mlps = nn.ModuleList(MLP() for _ in range(2))
        for mlp in self.mlps:
            mlp.compile()

    def forward(self, x):
        for attention, mlp in zip(self.attention, self.mlps, strict=True):
            x = mlp(x + attention(x, x, x, need_weights=False)[0])
        return x


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(8, 64, 128)
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
