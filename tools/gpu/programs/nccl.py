# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""NCCL on all devices there are, one among them: all-reduces of several sizes, and DistributedDataParallel."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import kinetoscope
from tools.gpu.programs.asked import asked

_SIZES = (1 << 12, 1 << 20, 1 << 26)
"""Elements of an all-reduce."""

_CALLS = 10


def rank(number: int, world: int, port: int, out: str) -> None:
    """What each rank does; the first one tells what it measured."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE=str(world))
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=world)
    seconds = reduced(Path(out))
    trained(Path(out))
    if not number:
        measured: dict[str, Any] = {"world": world, "seconds": seconds}
        (Path(out) / "measured.json").write_text(json.dumps(measured), "utf-8")
    dist.destroy_process_group()


def reduced(out: Path) -> dict[int, float]:
    """Seconds of an all-reduce by its bytes, as events of the device measure them; recorded after that."""
    buffers = [torch.ones(size, device="cuda") for size in _SIZES]
    seconds = {}
    for buffer in buffers:
        dist.all_reduce(buffer)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(_CALLS):
            dist.all_reduce(buffer)
        end.record()
        torch.cuda.synchronize()
        seconds[buffer.nbytes] = begin.elapsed_time(end) / 1e3 / _CALLS
    with kinetoscope.profile(out / "all_reduce", wait=0, warmup=1, active=3) as prof:
        for _ in range(4):
            for buffer in buffers:
                dist.all_reduce(buffer)
            torch.cuda.synchronize()
            prof.step()
    return seconds


def trained(out: Path) -> None:
    """A few steps of DistributedDataParallel."""
    model = DistributedDataParallel(nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(8))).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(1024, 2048, device="cuda")
    with kinetoscope.profile(out / "ddp", wait=1, warmup=1, active=3) as prof:
        for _ in range(6):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            prof.step()


def main() -> None:
    """A process for each device."""
    told = asked()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = torch.cuda.device_count()
    torch.multiprocessing.spawn(rank, (world, port, str(told.out)), nprocs=world)


if __name__ == "__main__":
    main()
