"""A metric is computed in each step from scores copied to the host, by plain Python."""

import sys

import numpy as np
import torch
from torch import nn

ABOUT = {
    "what": "a metric is computed with `.cpu()` in each step",
    "needs": (),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "Average precision of all classes is computed on the host in each step; once in ten steps would do.",
    "rules": ("HOST008", "HOST015", "HOST002"),
    "true": "A large part of each step is numpy's work on the metric, which no gradient needs.",
}

STEPS, BATCH, CLASSES = 20, 128, 100


def average_precision(scores, wanted):
    """The mean over the classes; float [rows, classes], bool [rows, classes]."""
    found = []
    for column in range(scores.shape[1]):
        order = np.argsort(-scores[:, column])
        hits = wanted[order, column]
        if hits.any():
            precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
            found.append(precision[hits].mean())
    return float(np.mean(found))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    every = 10 if "--fixed" in sys.argv else 1
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, STEPS + 1):
        inputs, labels = torch.randn(BATCH, 256), torch.rand(BATCH, CLASSES) < 0.1
        logits = model(inputs)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            metric = average_precision(logits.detach().cpu().numpy(), labels.cpu().numpy())
    print(f"result {metric:.5f}")


if __name__ == "__main__":
    main()
