# mypy: ignore-errors
"""An LSTM is written as a loop over cells; the twin calls `nn.LSTM`."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "a loop over LSTM cells",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": "48 calls of LSTMCell and as many backward passes of small operators, in place of one nn.LSTM",
    "rules": ("HOST003",),
    "true": "An LSTM runs cell by cell; one nn.LSTM in its place computes the same in half of the time.",
}


class Tagger(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.whole = whole
        self.cell = nn.LSTM(64, 128) if whole else nn.LSTMCell(64, 128)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        if self.whole:
            return self.head(self.cell(x)[0])
        state, outputs = None, []
        for each in x:
            state = self.cell(each, state)
            outputs.append(state[0])
        return self.head(torch.stack(outputs))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Tagger("--fixed" in sys.argv)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(48, 16, 64), torch.randint(10, (48, 16))
    for _ in range(ABOUT["steps"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
