"""Recordings that do not tell what they could."""

from __future__ import annotations

from typing import Any, Final

from tests.faults.case import Case, drawing, planted
from tests.faults.healthy import training, transformer
from tests.faults.host import Body
from tests.faults.network import Network
from tests.faults.program import Program


def _new_kernels(loading: float) -> Body:
    """A step that launches a kernel which no step before it has, whose code is loaded in so many us."""
    body = training(_layers)

    def step(p: Program, n: int) -> None:
        body(p, n)
        usual, p.launch_us = p.launch_us, loading or p.launch_us
        with p.op("aten::special_i0", 3):
            p.kernel(f"special_i0_kernel_{n}", 20.0)
        p.launch_us = usual

    return step


def _layers(net: Network) -> None:
    transformer(net, layers=4)


_BODY: Final = training(_layers)
_GPU: Final[list[dict[str, Any]]] = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": int(80e9)}]
_FIXED: Final = drawing(_BODY, seed=71, steps=8)

CASES = (
    Case("RECORDING001", "two steps", drawing(_BODY, seed=71, steps=2), _FIXED, timed=False),
    Case(
        "RECORDING001", "ended early",
        drawing(_BODY, seed=72, steps=8, top={"kinetoscope": {"truncated": "the buffer was full"}}), _FIXED,
        timed=False,
    ),
    Case("RECORDING002", "no shapes", drawing(_BODY, seed=73, steps=8, shapes=False), _FIXED, timed=False),
    Case(
        "RECORDING002", "no device work, though there is a device",
        drawing(training(_layers, precision="fp32"), seed=74, steps=8, device=None, top={"deviceProperties": _GPU}),
        _FIXED, timed=False,
    ),
    planted("RECORDING003", "kernels whose code is loaded", _new_kernels(40_000), _new_kernels(0), steps=8, seed=75),
)  # fmt: skip
