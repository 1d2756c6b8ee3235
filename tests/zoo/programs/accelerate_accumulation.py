"""Accelerate, gradients of four batches accumulated."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ABOUT = {
    "what": "Accelerate, gradients of 4 batches accumulated",
    "needs": ("accelerate",),
    "step": "an optimizer step: four batches",
    "steps": 14,
    "slow": None,
    "rules": (),
    "true": "A step is four forward and backward passes and one fused update; products take the time, batches made in the process a little of it.",
}


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = nn.Sequential(nn.Linear(256, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 16))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    count = 14 * 4 * 32
    loader = DataLoader(TensorDataset(torch.randn(count, 256), torch.randint(16, (count,))), batch_size=32)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for inputs, labels in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))


if __name__ == "__main__":
    main()
