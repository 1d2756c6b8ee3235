# mypy: ignore-errors
"""The loss is read and printed in each step, which costs nothing where the host computes."""

import torch
from torch import nn

ABOUT = {
    "what": "loss.item() in each step, on a CPU",
    "needs": (),
    "step": "an optimizer step",
    "steps": 24,
    "slow": None,
    "rules": (),
    "true": "Nothing is to be mended: on a CPU nobody waits for `item`.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    inputs, targets = torch.randn(64, 256), torch.randint(10, (64,))
    for step in range(ABOUT["steps"]):
        optimizer.zero_grad()
        output = model(inputs)
        loss = nn.functional.cross_entropy(output, targets)
        loss.backward()
        optimizer.step()
        accuracy = (output.argmax(1) == targets).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} accuracy {accuracy:.3f}")
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
