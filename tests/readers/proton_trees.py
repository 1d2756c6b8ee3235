"""Trees with kernels as Triton's Proton writes them, drawn after the source of its writer."""

from __future__ import annotations

from typing import Any


def frame(name: str, *children: dict[str, Any] | None, **metrics: object) -> dict[str, Any]:
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": [*children]}


def kernel(name: str, calls: int, time: int, device: int = 0, **more: object) -> dict[str, Any]:
    facts = {"count": calls, "time (ns)": time, "device_id": str(device), "device_type": "CUDA", **more}
    return frame(name, **facts)


TREE = [
    frame(
        "ROOT",
        frame(
            "step",
            frame("attention", kernel("mm_kernel", 3, 100_000, flops16=6e9, bytes=3e6), kernel("softmax", 2, 40_001)),
            kernel("copy_kernel", 1, 7, device=1),
        ),
        **{"count": 0, "time (ns)": 0},
    ),
    {"CUDA": {"0": {"arch": "90", "num_sms": 132}, "1": {"arch": "90", "num_sms": 132}}},
]
