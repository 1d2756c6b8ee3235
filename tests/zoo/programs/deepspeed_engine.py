"""DeepSpeed's engine on a CPU, ZeRO stage 0, gradients of two batches accumulated."""

import logging
import os
import sys

import torch
from torch import nn

os.environ.setdefault("DS_ACCELERATOR", "cpu")
for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}.items():
    os.environ.setdefault(name, value)

import deepspeed

ABOUT = {
    "what": "DeepSpeed engine on a CPU, gradients of 2 batches accumulated",
    "needs": ("deepspeed",),
    "step": "a step of the engine's optimizer: two batches",
    "steps": 16,
    "slow": None,
    "rules": (),
    "true": "A step is two forward and backward passes and an update; products take most of it.",
}


def main():
    logging.disable(logging.WARNING)
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # it would compile an extension for minutes
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with __import__("socket").socket() as found:
        found.bind(("127.0.0.1", 0))
        os.environ.setdefault("MASTER_PORT", str(found.getsockname()[1]))
    deepspeed.init_distributed("gloo", verbose=False)
    model = nn.Sequential(nn.Linear(256, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, 16))
    config = {"train_micro_batch_size_per_gpu": 32, "gradient_accumulation_steps": 2}
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for _ in range(32):
        loss = nn.functional.cross_entropy(engine(torch.randn(32, 256)), torch.randint(16, (32,)))
        engine.backward(loss)
        engine.step()
    print("digest", sum(p.double().sum().item() for p in model.parameters()))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
