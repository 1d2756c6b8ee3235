"""A loop of Accelerate that writes its state to disk in each step; the twin does it at the end."""

import sys
import tempfile

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "Accelerate, `save_state` in each step",
    "needs": ("accelerate",),
    "step": "an optimizer step",
    "steps": 20,
    "slow": "`accelerator.save_state` writes model and optimizer in each step",
    "rules": ("HOST008",),
    "true": "Saving the state takes most of a step, and nothing is computed meanwhile; save it now and then.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 16))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    loader = DataLoader(TensorDataset(torch.randn(20 * 64, 256), torch.randint(16, (20 * 64,))), batch_size=64)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with tempfile.TemporaryDirectory() as folder:
        for inputs, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(model(inputs), labels))
            optimizer.step()
            if "--fixed" not in sys.argv:
                accelerator.save_state(folder)
        accelerator.save_state(folder)
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
