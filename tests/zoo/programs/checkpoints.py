"""The state of model and optimizer is saved after every step."""

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

ABOUT = {
    "what": "a checkpoint is saved in every step",
    "needs": (),
    "step": "an optimizer step",
    "steps": 24,
    "slow": "torch.save writes the weights and Adam's state in each step, though one in twelve would do.",
    "rules": ("HOST008",),
    "true": "Saving takes a large part of each step; every twelfth step it would be a twelfth of that.",
}

STEPS, BATCH = 24, 64


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    every = 12 if "--fixed" in sys.argv else 1
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, STEPS + 1):
            loss = nn.functional.cross_entropy(model(torch.randn(BATCH, 256)), torch.randint(10, (BATCH,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % every == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, Path(folder) / "last.pt")
    print(f"digest {sum(weight.detach().double().abs().sum().item() for weight in model.parameters()):.6f}")


if __name__ == "__main__":
    main()
