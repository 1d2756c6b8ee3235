"""Sequences of very different lengths: padded to the longest of all, or sorted into buckets."""

import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

ABOUT = {
    "what": "sequences padded to one length, no buckets",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": "Lengths are drawn from 8 to 128, and every batch is padded to 128: most positions are padding.",
    "rules": ("DATA008",),
    "true": "Some two thirds of all positions are padding, by the lengths in the source; sorted batches have few.",
}

STEPS, BATCH, LONGEST = 16, 12, 128


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64, padding_idx=0)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 5)

    def forward(self, tokens):
        hidden = self.encoder(self.embedding(tokens), src_key_padding_mask=tokens == 0)
        return self.head(hidden[:, 0])


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    lengths = (8 + 120 * torch.rand(STEPS * BATCH) ** 3).long()
    if "--fixed" in sys.argv:
        lengths = lengths.sort().values.view(STEPS, BATCH)[torch.randperm(STEPS)].flatten()
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for chosen in lengths.split(BATCH):
        tokens = pad_sequence([torch.randint(1, 1000, (length,)) for length in chosen.tolist()], batch_first=True)
        if "--fixed" not in sys.argv:
            tokens = nn.functional.pad(tokens, (0, LONGEST - tokens.shape[1]))
        loss = nn.functional.cross_entropy(model(tokens), torch.randint(5, (BATCH,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
