"""Distillation: a student learns from a teacher, whose gradients nobody needs."""

import contextlib
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div

ABOUT = {
    "what": "several models: a student learns from a teacher that builds a graph",
    "needs": (),
    "step": "an optimizer step",
    "steps": 16,
    "slow": "The teacher runs with gradients on and its output is not detached: it has a backward pass, too.",
    "rules": (),
    "true": "A backward pass through the teacher computes gradients that no optimizer has; `no_grad` spares it. No rule says so.",
}

STEPS, BATCH = 16, 64


def network(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    teacher, student = network(1024).eval(), network(128)
    optimizer = torch.optim.Adam(student.parameters(), fused=True)
    for _ in range(STEPS):
        inputs, labels = torch.randn(BATCH, 128), torch.randint(10, (BATCH,))
        with torch.no_grad() if "--fixed" in sys.argv else contextlib.nullcontext():
            wanted = teacher(inputs).log_softmax(-1)
        logits = student(inputs)
        loss = cross_entropy(logits, labels) + kl_div(
            logits.log_softmax(-1), wanted, reduction="batchmean", log_target=True
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in student.parameters()):.6f}")


if __name__ == "__main__":
    main()
