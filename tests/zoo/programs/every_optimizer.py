# mypy: ignore-errors
"""One small model, trained with the optimizer that the command line names (AdamW); the twin has its best form."""

import sys

import torch
from torch import nn

ABOUT = {
    "what": "each optimizer of torch.optim, by name",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "where the optimizer has another form: it updates 50 parameters one by one",
    "rules": ("HOST004",),
    "true": "Fused or `foreach` forms save calls where torch has them; LBFGS, Muon and SparseAdam have none.",
}
FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
NO_OTHER_FORM = ("LBFGS", "Muon", "SparseAdam")
NAMES = (*FUSED, "Adamax", "NAdam", "RAdam", "Adadelta", "ASGD", "RMSprop", "Rprop", "Adafactor", *NO_OTHER_FORM)


def optimizer_of(name, fixed, trained):
    arguments = {}
    if fixed and name not in NO_OTHER_FORM:
        arguments = {"fused": True} if name in FUSED else {"foreach": True}
    return getattr(torch.optim, name)(trained, **arguments)


def train(name, fixed, steps, stepped=lambda: None):
    bias, sparse = name != "Muon", name == "SparseAdam"
    layers = [nn.Linear(64, 64, bias=bias) for _ in range(24)]
    model = nn.Sequential(*(each for layer in layers for each in (layer, nn.ReLU())), nn.Linear(64, 10, bias=bias))
    embeddings = [nn.EmbeddingBag(10_000, 64, sparse=True) for _ in range(8 * sparse)]
    trained = [each.weight for each in embeddings] if sparse else list(model.parameters())
    optimizer = optimizer_of(name, fixed, trained)
    inputs, targets = torch.randn(64, 64), torch.randint(10, (64,))
    words = torch.randint(10_000, (64, 20))

    def closure():
        optimizer.zero_grad()
        given = sum(each(words) for each in embeddings) if sparse else inputs
        loss = nn.functional.cross_entropy(model(given), targets)
        loss.backward()
        return loss

    for _ in range(steps):
        if name == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
        stepped()
    return sum(p.double().sum().item() for p in trained)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    name = next((each for each in sys.argv[1:] if each in NAMES), "AdamW")
    print("digest", train(name, "--fixed" in sys.argv, ABOUT["steps"]))


if __name__ == "__main__":
    main()
