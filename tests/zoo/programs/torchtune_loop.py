# mypy: ignore-errors
"""LoRA as torchtune's recipe trains it: frozen weights, padded token batches, accumulation, a logged loss and rate."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader

ABOUT = {
    "what": "torchtune-like LoRA recipe",
    "needs": (),
    "step": "an optimizer step: two batches and an update",
    "steps": 14,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: the products of the frozen layers take most of a step.",
}
WIDTH, HEADS, RANK, ACCUMULATE = 128, 4, 8, 2


class LoRALinear(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) * inner**-0.5, requires_grad=False)
        self.lora_a, self.lora_b = nn.Linear(inner, RANK, bias=False), nn.Linear(RANK, outer, bias=False)
        nn.init.zeros_(self.lora_b.weight)
        self.dropout = nn.Dropout(0.05)

    def forward(self, x):
        return nn.functional.linear(x, self.weight) + 2.0 * self.lora_b(self.lora_a(self.dropout(x)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.sa_norm, self.mlp_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (LoRALinear(WIDTH, WIDTH) for _ in range(4))
        self.w1, self.w3 = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.w2 = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        h = self.sa_norm(x)
        q, k, v = (
            each(h).view(batch, length, HEADS, -1).transpose(1, 2) for each in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = (
            nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(batch, length, WIDTH)
        )
        x = x + self.output_proj(y)
        h = self.mlp_norm(x)
        return x + self.w2(nn.functional.silu(self.w1(h)) * self.w3(h))


class Model(nn.Module):
    def __init__(self, vocabulary=512):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(3))
        self.norm, self.output = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def collate(samples):
    tokens = nn.utils.rnn.pad_sequence(samples, batch_first=True)
    return {"tokens": tokens, "labels": tokens.masked_fill(tokens == 0, -100)}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = [
        torch.randint(1, 512, (int(length),)) for length in torch.randint(60, 65, (4 * ACCUMULATE * ABOUT["steps"],))
    ]
    loader = DataLoader(dataset, batch_size=4, shuffle=True, collate_fn=collate)
    model = Model()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora" in name)
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-4, fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, ABOUT["steps"])
    running_loss, num_tokens, t0 = 0.0, 0, time.perf_counter()
    for index, batch in enumerate(loader):
        labels = batch.pop("labels")
        tokens = (labels != -100).sum()
        num_tokens += tokens
        logits = model(**batch)
        loss = nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 512), labels[:, 1:].reshape(-1)) * tokens
        running_loss += loss.detach()
        loss.backward()
        if (index + 1) % ACCUMULATE == 0:
            for parameter in trained:
                parameter.grad /= num_tokens
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
            _log = {
                "loss": running_loss.item() / num_tokens,
                "lr": scheduler.get_last_lr(),
                "s": time.perf_counter() - t0,
            }
            running_loss, num_tokens, t0 = 0.0, 0, time.perf_counter()
    print("digest", sum(p.double().sum().item() for p in trained))


if __name__ == "__main__":
    main()
