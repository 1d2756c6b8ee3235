# mypy: ignore-errors
"""A character model as nanoGPT trains it: AdamW, decayed groups, accumulation, clipping, a cosine schedule."""

import math

import torch
from torch import nn

ABOUT = {
    "what": "nanoGPT-like loop, accumulation over four batches",
    "needs": (),
    "step": "an optimizer step: four batches and an update",
    "steps": 16,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: the products take most of a step, attention and optimizer are fused.",
}
WIDTH, HEADS, LENGTH, BATCH, ACCUMULATE, STEPS = 96, 4, 64, 4, 4, ABOUT["steps"]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, width = x.shape
        heads = (
            each.view(batch, length, HEADS, -1).transpose(1, 2) for each in self.c_attn(self.ln_1(x)).split(width, 2)
        )
        y = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=65, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def get_batch(data):
    places = torch.randint(len(data) - LENGTH, (BATCH,))
    x = torch.stack([data[i : i + LENGTH] for i in places])
    return x, torch.stack([data[i + 1 : i + 1 + LENGTH] for i in places])


def main():
    torch.manual_seed(1337)
    torch.set_num_threads(1)
    data = torch.randint(65, (10_000,))
    model = GPT()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": [p for p in model.parameters() if p.dim() < 2]}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    x, y = get_batch(data)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 1e-4 + 0.5 * (1 + math.cos(math.pi * step / STEPS)) * 9e-4
        for _ in range(ACCUMULATE):
            loss = model(x, y) / ACCUMULATE
            x, y = get_batch(data)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 5 == 0:
            print(f"iter {step}: loss {loss.item() * ACCUMULATE:.4f}")
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
