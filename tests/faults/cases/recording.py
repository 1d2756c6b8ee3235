"""Recordings that do not tell what they could."""

from __future__ import annotations

from typing import Any, Final

from tests.faults.case import Case, drawing
from tests.faults.healthy import training, transformer
from tests.faults.network import Network


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
)  # fmt: skip
