# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Two ranks of DistributedDataParallel over gloo, measured and recorded together."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.faults.programs.running import RECORDINGS, TWINS, Measured, keep, mean, record

RANKS = 2


def launch(module: str, folder: Path, rounds: int, steps: int) -> Measured:
    """Run `train(rank, fixed)` of a module on all ranks; the measured steps are those of rank 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from tests.faults.programs.ddp import rank; rank({module!r}, {str(folder)!r}, {rounds}, {steps})"
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS)}
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code], env={**shared, "RANK": str(k)}, stdout=subprocess.PIPE
        )
        for k in range(RANKS)
    ]
    said = [process.communicate(timeout=180)[0] for process in running]
    return Measured(json.loads(said[0].decode().splitlines()[-1]))


def rank(name: str, folder: str, rounds: int, steps: int) -> None:
    """What one rank does: as `running.together`, in step with the others."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    module = importlib.import_module(name)
    steps = steps or module.STEPS
    step: dict[str, Callable[[], object]] = {twin: module.train(dist.get_rank(), twin == "fixed") for twin in TWINS}
    plain: dict[str, list[float]] = {twin: [] for twin in TWINS}
    recorded: dict[str, list[float]] = {twin: [] for twin in TWINS}
    for _ in range(rounds):
        for twin in TWINS:
            dist.barrier()
            plain[twin].append(mean(step[twin], steps))
    for turn in range(RECORDINGS):
        for twin in TWINS:
            dist.barrier()
            recorded[twin].append(record(step[twin], steps, Path(folder) / f"{twin}-{turn}", rank=dist.get_rank()))
    dist.barrier()
    if dist.get_rank() == 0:
        for twin in TWINS:
            keep(Path(folder), twin, recorded[twin])
        print(json.dumps({"code": module.CODE, "name": module.NAME, "plain": plain, "recorded": recorded}))
    dist.destroy_process_group()


def stepping(
    model: nn.Module, batch: int, width: int, *, buckets: float = 25.0, accumulate: int = 1, sync_each: bool = True
) -> Callable[[], None]:
    """A step of so many batches; gradients are reduced after each of them, or after the last one alone."""
    parallel = DistributedDataParallel(model, bucket_cap_mb=buckets)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(batch, width)

    def step() -> None:
        optimizer.zero_grad()
        for k in range(accumulate):
            if sync_each or k == accumulate - 1:
                parallel(inputs).square().mean().backward()
            else:
                with parallel.no_sync():
                    parallel(inputs).square().mean().backward()
        optimizer.step()

    return step
