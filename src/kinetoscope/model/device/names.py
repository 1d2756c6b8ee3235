"""Names of the devices of a run."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.model.device.hardware import Device, device_of, devices
from kinetoscope.model.device.peaks import peak_of
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace.trace import Trace

NAMELESS: Final = "a device without a name"
"""What stands for a device of which the file does not tell what it is."""


def device_name(device: Device | None) -> str:
    """The vendor's name; where the file has none, the product that its other facts prove; "" if they do not."""
    if device is None or device.name:
        return "" if device is None else device.name
    known = peak_of(device).peak
    return "" if known is None else known.product


def names_of_used_devices(trace: Trace) -> list[str]:
    """The names of the devices that the process used, each once, in order; empty if it ran on the host alone.

    Where kernels were launched and none was recorded, these are the listed devices, of which it used one or more.
    """
    used = np.unique(device_work(trace).device).tolist()
    chosen = [device_of(trace, number) for number in used]
    if not used and np.isin(runtime_call_kinds(trace), (RuntimeCallKind.LAUNCH, RuntimeCallKind.GRAPH_LAUNCH)).any():
        chosen = list(devices(trace)) or [None]
    return sorted({device_name(device) or NAMELESS for device in chosen})
