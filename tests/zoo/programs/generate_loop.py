# mypy: ignore-errors
"""Tokens are generated one by one; each runs the model over the whole sequence, the twin over the new token alone."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "own generation without a cache of keys and values",
    "needs": (),
    "step": "a token",
    "steps": None,
    "slow": "each token computes all tokens before it again",
    "rules": (),
    "true": "Products over the whole sequence take the time; with a cache a token takes a tenth.",
}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(128), nn.Linear(128, 384), nn.Linear(128, 128)
        self.mlp = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))

    def forward(self, x, cache):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, 32).permute(2, 0, 3, 1, 4)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, 128))
        return x + self.mlp(x)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    embedding, layers, head = nn.Embedding(256, 128), nn.ModuleList(Layer() for _ in range(4)), nn.Linear(128, 256)
    tokens = torch.randint(256, (1, 128))
    caches = [[] if "--fixed" in sys.argv else None for _ in layers]
    with torch.inference_mode():
        given = tokens
        for _ in range(48):
            x = embedding(given)
            for layer, cache in zip(layers, caches, strict=True):
                x = layer(x, cache)
            new = head(x[:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, new], 1)
            given = new if "--fixed" in sys.argv else tokens
    print("digest", tokens.sum().item())


if __name__ == "__main__":
    main()
