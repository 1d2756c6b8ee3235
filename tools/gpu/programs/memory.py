# mypy: disable-error-code="import-not-found, no-untyped-call, misc, untyped-decorator, unused-ignore"
"""Snapshots of the allocator beside a training, and one where memory runs out."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import kinetoscope
from tools.gpu.programs.asked import Asked, asked

_ROOM = 1 << 30
"""Bytes that the process may have before memory runs out."""


def training(told: Asked) -> dict[str, Any]:
    """Six steps, three of them recorded; what torch counts at the end of the window."""
    width = 256 if told.small else 2048
    with kinetoscope.profile(told.out / "training", wait=1, warmup=1, active=3, memory_snapshot=True) as prof:
        model = nn.Sequential(*(nn.Linear(width, width) for _ in range(8))).to(told.device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for _ in range(6):
            batch = torch.randn(512, width, device=told.device)
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            prof.step()
    stats = torch.cuda.memory_stats()
    return {name: stats[f"{name}_bytes.all.peak"] for name in ("allocated", "reserved")}


def running_out(told: Asked) -> dict[str, Any]:
    """Activations are kept from step to step until there is no room."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(told.device).total_memory
    used = torch.cuda.memory_reserved()
    torch.cuda.set_per_process_memory_fraction(min(1.0, (used + _ROOM) / total))
    kept = []
    try:
        with kinetoscope.profile(told.out / "out_of_memory", wait=0, warmup=1, active=50, memory_snapshot=True) as prof:
            model = nn.Linear(1024, 1024).to(told.device)
            for _ in range(200):
                kept.append(model(torch.randn(8192, 1024, device=told.device)).relu())
                prof.step()
    except torch.OutOfMemoryError as error:
        return {"steps": len(kept), "allocated": torch.cuda.memory_allocated(), "said": str(error)[:300]}
    return {"problem": "memory did not run out"}


def main() -> None:
    """Both; what torch counted goes to `measured.json`."""
    told = asked()
    measured = {"training": training(told)}
    told.tell(**measured)
    told.tell(**measured, out_of_memory=running_out(told))


if __name__ == "__main__":
    main()
