"""Data parallel on two ranks; the second does a slow thing before each step. The twin does not."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ABOUT = {
    "what": "DDP on gloo, two ranks, one late",
    "needs": (),
    "ranks": 2,
    "step": "an optimizer step of all ranks",
    "steps": 16,
    "slow": "rank 1 sleeps 30 ms before each step, so that rank 0 waits in the all-reduce",
    "rules": ("RANKS005", "RANKS008"),
    "true": "Rank 0 waits about 30 ms of each step for rank 1, whose host does something else before its step.",
}


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), 1e-2, fused=True)
    for _ in range(16):
        if rank == 1 and "--fixed" not in sys.argv:
            time.sleep(0.03)
        optimizer.zero_grad()
        wrapped(torch.randn(32, 128)).square().mean().backward()
        optimizer.step()
    if rank == 0:
        print("digest", sum(p.double().sum().item() for p in model.parameters()))
    dist.barrier()
    time.sleep(0.5)  # meanwhile threads of gloo drop what they hold, for which they need the interpreter
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
