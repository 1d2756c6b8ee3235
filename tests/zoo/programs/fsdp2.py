"""FSDP2 (`fully_shard`) on gloo with two ranks, a small transformer, an optimizer as it comes; the twin's is fused."""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

ABOUT = {
    "what": "FSDP2 on gloo, two ranks",
    "needs": (),
    "ranks": 2,
    "step": "an optimizer step of all ranks",
    "steps": 14,
    "slow": "AdamW goes through the sharded parameters one by one, each time through the Python of DTensor",
    "rules": ("HOST004",),
    "true": "The update of sharded parameters, one by one, takes a good part of a step; fused it takes a tenth of that.",
}


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(*(nn.TransformerEncoderLayer(128, 4, 256, 0.0, batch_first=True) for _ in range(3)))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused="--fixed" in sys.argv)
    for _ in range(14):
        optimizer.zero_grad()
        model(torch.randn(4, 64, 128)).square().mean().backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print("digest", sum(p.to_local().double().sum().item() for p in model.parameters()))
    dist.barrier()
    time.sleep(0.5)  # meanwhile threads of gloo drop what they hold, for which they need the interpreter
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
