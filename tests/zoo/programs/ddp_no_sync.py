"""Data parallel that accumulates four batches and reduces gradients after each; the twin uses `no_sync`."""

import contextlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ABOUT = {
    "what": "DDP on gloo, two ranks, gradients reduced after each accumulated batch",
    "needs": (),
    "ranks": 2,
    "step": "an optimizer step of all ranks: four batches",
    "steps": 14,
    "slow": "gradients are all-reduced four times a step, once would do",
    "rules": ("RANKS003", "RANKS004"),
    "true": "Three of four all-reduces of a step are needless; without them a step is shorter by most of their time.",
}


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8))
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), 1e-2, fused=True)
    for _ in range(14):
        optimizer.zero_grad()
        for batch in range(4):
            waits = "--fixed" in sys.argv and batch < 3
            with wrapped.no_sync() if waits else contextlib.nullcontext():
                (wrapped(torch.randn(16, 128)).square().mean() / 4).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print("digest", sum(p.double().sum().item() for p in model.parameters()))
    dist.barrier()
    time.sleep(0.5)  # meanwhile threads of gloo drop what they hold, for which they need the interpreter
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
