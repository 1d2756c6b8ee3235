"""The devices of a run, as the file describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Device:
    """A device; facts that the file does not have are None.

    Attributes:
        number: as device work refers to it.
        name: the vendor's name.
        memory: bytes of global memory.
        multiprocessors: streaming multiprocessors (CUDA), compute units (ROCm, XPU).
        capability: major and minor compute capability.
        properties: all that the file says.
    """

    number: int
    name: str
    memory: int | None
    multiprocessors: int | None
    capability: tuple[int, int] | None
    properties: dict[str, Any]


@derived
def devices(trace: Trace) -> tuple[Device, ...]:
    """The devices that the file lists, used or not, in its order."""
    listed = trace.metadata.get("deviceProperties")
    return tuple(
        _device(place, entry) for place, entry in enumerate(listed if isinstance(listed, list) else [])
        if isinstance(entry, dict)
    )  # fmt: skip


def names_of_used_devices(trace: Trace) -> list[str]:
    """The names of the devices that ran any work, each once, in order."""
    used = set(np.unique(device_work(trace).device).tolist())
    return sorted({device.name for device in devices(trace) if device.number in used and device.name})


def _device(place: int, entry: dict[str, Any]) -> Device:
    number, name = _integer(entry, "id"), entry.get("name")
    major, minor = _integer(entry, "computeMajor"), _integer(entry, "computeMinor")
    return Device(
        number=place if number is None else number,
        name=name if isinstance(name, str) else "",
        memory=_integer(entry, "totalGlobalMem"),
        multiprocessors=_integer(entry, "numSms", "maxComputeUnits"),
        capability=None if major is None else (major, minor or 0),
        properties=entry,
    )


def _integer(entry: dict[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = entry.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


@derived
def is_host_only(trace: Trace) -> bool:
    """Did the process use no device at all, so that what it computed the host did within the call?"""
    return not (len(device_work(trace)) or devices(trace) or (trace.kind == EventKind.RUNTIME).any())
