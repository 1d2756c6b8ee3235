"""The text of torch's OutOfMemoryError, of all versions, and what it says of the request that failed.

`CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of …`: c10/cuda/CUDACachingAllocator.cpp,
also of HIP and XPU. Sizes have two decimals, so that those in GiB are exact to 5 MiB.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kinetoscope.model.memory.failed_requests import FailedRequest, Verdict

_UNITS: Final = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE: Final = r"(\d{1,12}(?:\.\d{1,3})?) (bytes|KiB|MiB|GiB)"
_MAX_TEXT: Final = 1 << 16
"""Characters of a text that are looked at: the message is at the end of a traceback."""

_REQUESTED: Final = re.compile(rf"out of memory\. Tried to allocate {_SIZE}")
_DEVICE: Final = re.compile(r"GPU (\d{1,4})\b")
_FACTS: Final = {
    "total": (rf"total capac?i?ty of {_SIZE}", rf"{_SIZE} total capacity"),
    "free": (rf"of which {_SIZE} is free", rf"{_SIZE} free"),
    "limit": (rf"{_SIZE} allowed",),
    "allocated": (rf"{_SIZE} is allocated by PyTorch", rf"{_SIZE} already allocated"),
    "in_private_pools": (rf"with {_SIZE} allocated in private pools",),
    "unused": (rf"{_SIZE} is reserved by PyTorch but unallocated",),
    "reserved": (rf"{_SIZE} reserved in total by PyTorch",),
}


@dataclass(frozen=True)
class OutOfMemoryText:
    """The numbers of such a text, in bytes; None where it does not have them.

    Attributes:
        device: number of the device; −1 where there is none.
        requested: what was asked of the device: the size of a segment.
        total, free: of the device.
        limit: what the process was allowed to reserve.
        allocated: what was in use of the allocator's.
        in_private_pools: what of that was in pools of CUDA graphs or `MemPool`s.
        reserved: bytes of segments.
        processes: what other processes, and the parts of this one past the allocator, held, as far as it says.
    """

    device: int
    requested: int
    total: int | None
    free: int | None
    limit: int | None
    allocated: int | None
    in_private_pools: int | None
    reserved: int | None
    processes: tuple[tuple[int, int], ...]


def out_of_memory_text(text: str) -> OutOfMemoryText | None:
    """The last such message in a text, a whole traceback perhaps; None where there is none."""
    text = text[-_MAX_TEXT:]
    matches = list(_REQUESTED.finditer(text))
    if not matches:
        return None
    message = text[matches[-1].start() :]
    facts = {name: _first(message, patterns) for name, patterns in _FACTS.items()}
    unused, allocated = facts.pop("unused"), facts["allocated"]
    if facts["reserved"] is None and unused is not None and allocated is not None:
        facts["reserved"] = allocated + unused
    device = _DEVICE.search(message)
    processes = re.findall(rf"Process (\d{{1,10}}) has {_SIZE} memory in use", message)
    return OutOfMemoryText(
        device=int(device[1]) if device else -1,
        requested=_bytes(*matches[-1].groups()),
        processes=tuple((int(process), _bytes(*size)) for process, *size in processes),
        **facts,
    )


def request_of(text: OutOfMemoryText) -> FailedRequest:
    """The failed request that a text is about.

    What it says was requested is what was asked of the device. What free blocks of private pools have counts as
    allocated there, and of what is reserved and unallocated it does not say to which stream it belongs.
    """
    held, live = text.in_private_pools or 0, text.allocated
    parts: dict[Verdict, int] = {"graph pool": held}
    if text.reserved is not None and text.allocated is not None:
        parts["fragmentation"] = max(text.reserved - text.allocated, 0)
    return FailedRequest(
        requested=text.requested,
        needed=text.requested,
        free=text.free,
        total=text.total,
        reserved=text.reserved,
        live=None if live is None else max(live - held, 0),
        limit=text.limit,
        parts=parts,
        is_divided=False,
    )


def _first(message: str, patterns: tuple[str, ...]) -> int | None:
    for pattern in patterns:
        if match := re.search(pattern, message):
            return _bytes(match[1], match[2])
    return None


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])
