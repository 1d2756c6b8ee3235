"""The devices of a run, as the file describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace import arguments
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


def device_of(trace: Trace, number: int) -> Device | None:
    """Facts in the file of the device that work of this number ran on; None where it does not tell.

    CUDA numbers work and listed devices alike. ROCm lists devices as the process counts them, from 0, and numbers work
    as the machine counts its agents, processors among them: there, and where a number is not listed, the answer is
    known if all listed devices are alike.
    """
    listed = devices(trace)
    if not is_rocm(trace):
        same = next((device for device in listed if device.number == number), None)
        if same is not None:
            return same
    return listed[0] if len({_facts(device) for device in listed}) == 1 else None


def ordinal_of(trace: Trace, number: int) -> int | None:
    """How torch numbers the device that work of this number ran on (`cuda:0`); None where the file does not tell.

    On ROCm, see `device_of`, it tells where one device is listed, or where one is used and one reports its memory.
    """
    listed = [device.number for device in devices(trace)]
    if not is_rocm(trace) and (number in listed or not listed):
        return number
    if len(listed) == 1:
        return listed[0]
    rows = trace.rows(EventKind.MEMORY)
    numbers = arguments.integers(trace, "memory_device", rows)
    reporting = np.unique(numbers[numbers >= 0]).tolist()
    used = np.unique(device_work(trace).device).tolist()
    return int(reporting[0]) if used == [number] and len(reporting) == 1 else None


@derived
def is_rocm(trace: Trace) -> bool:
    """Was it recorded on AMD's devices?"""
    listed = any("AMD" in device.name or "Radeon" in device.name for device in devices(trace))
    return listed or any(key in trace.metadata for key in _ROCM)


_ROCM: Final = ("roctracer_version", "rocprofiler_version", "hip_runtime_version", "hip_driver_version")
"""What Kineto writes into the head of a file on ROCm."""


def _facts(device: Device) -> tuple[object, ...]:
    """Facts by which devices are the same model."""
    return device.name, device.memory, device.multiprocessors, device.capability


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
