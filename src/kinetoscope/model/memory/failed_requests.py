"""Why a request for memory of a device failed: what was free, why it did not serve, and what would have made it fit.

What is known of a failed request comes from a memory snapshot, from the text of torch's OutOfMemoryError, or from
Kineto's `[OutOfMemory]`; the same judgement is passed on all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Verdict = Literal[
    "live data",
    "fragmentation",
    "other pool",
    "graph pool",
    "pending free",
    "outside of the allocator",
    "limit",
    "request too large",
    "cannot be told",
]

Confidence = Literal["high", "medium", "low"]

_USUAL_OUTSIDE_BYTES: Final = 1 << 30
_USUAL_OUTSIDE_SHARE: Final = 0.04
"""What the CUDA context and the libraries of a process take anyway: the larger of so many bytes and of that share of
the device's memory."""

_NEARLY_FULL: Final = 0.02
"""Share of the memory: where no more would be left with the best use of all of it, it is full of live data."""


@dataclass(frozen=True, kw_only=True)
class FailedRequest:
    """Facts of a request that failed, in bytes; None where the record does not say.

    Attributes:
        requested: bytes of the request.
        needed: what the device had to allocate for it.
        free: what was free on the device.
        total: memory of the device.
        reserved, live: bytes of segments; what of that was in use, its blocks as rounded.
        limit: what the allocator was allowed to reserve (`set_per_process_memory_fraction`).
        parts: what was reserved and not in use, by the verdict that it stands for; without a part
            where the record does not tell it. `cannot be told` are bytes that are one of those, nobody knows which.
        fits: size of a free block of the right kind that is large enough, 0 if there is none.
        most_reserved: least memory that the device must have, as this process had reserved it, or it was free, at
            another time.
        is_divided: whether the record tells which of the parts are which; else their verdict is a guess.
        is_exact: whether nothing in the record contradicts the rest.
    """

    requested: int
    needed: int
    free: int | None
    total: int | None
    reserved: int | None
    live: int | None
    limit: int | None = None
    parts: Mapping[Verdict, int] = field(default_factory=dict)
    fits: int = 0
    most_reserved: int = 0
    is_divided: bool = True
    is_exact: bool = True

    @property
    def outside(self) -> int | None:
        """Bytes of the device that neither this allocator held nor were free."""
        if self.total is None or self.free is None or self.reserved is None:
            return None
        return max(self.total - self.free - self.reserved, 0)

    @property
    def needless_outside(self) -> int:
        """The bytes beyond what each process takes; where the device is not known, what surely is or was available."""
        if self.free is None or self.reserved is None:
            return 0
        if (outside := self.outside) is None or self.total is None:
            return max(self.most_reserved - self.free - self.reserved, 0)
        return max(outside - int(max(_USUAL_OUTSIDE_BYTES, _USUAL_OUTSIDE_SHARE * self.total)), 0)

    @property
    def is_limited(self) -> bool:
        """True if the device had what was needed, so that only a limit of the process can have refused it."""
        return self.free is not None and self.free >= self.needed


@dataclass(frozen=True)
class Judgement:
    """Why a request failed.

    Attributes:
        verdict: the reason.
        confidence: high only where the record excludes the other reasons.
        part: bytes that the verdict is about: what would have been available without it.
        short: bytes that were missing on the device; None where that cannot be told.
    """

    verdict: Verdict
    confidence: Confidence
    part: int
    short: int | None


def judgement_of(request: FailedRequest) -> Judgement:
    """The verdict on a failed request.

    Too much live data, or the limit of the process: not even all parts together, with what was free, would have been
    enough, or they would have left less than 2 % of the memory. Else the largest of the parts that alone would have
    been enough; else the largest of them.
    """
    room = _room(request)
    short = None if room is None else max(request.needed - room, 0)
    if request.total is not None and request.needed > request.total:
        return Judgement("request too large", "high", request.requested, short)
    if request.reserved is None or request.live is None or request.fits:
        return Judgement("cannot be told", "low", request.fits, short)
    limited = request.is_limited or request.limit is not None
    parts = {verdict: size for verdict, size in request.parts.items() if size > 0}
    if request.needless_outside and not limited:
        parts["outside of the allocator"] = request.needless_outside
    left = sum(parts.values()) + (room or 0) - request.needed
    if not parts or left < _NEARLY_FULL * (request.reserved + (room or 0) + parts.get("outside of the allocator", 0)):
        surely = left < 0 and request.is_exact
        if limited:
            return Judgement("limit", "high" if surely and room is not None else "medium", request.free or 0, short)
        surely &= request.outside is not None
        return Judgement("live data", "high" if surely else "medium", request.live, short)
    largest = max(parts, key=lambda each: parts[each])
    enough = [verdict for verdict, size in parts.items() if size + (room or 0) >= request.needed]
    surely = enough == [largest] and (request.is_divided or largest == "outside of the allocator") and request.is_exact
    return Judgement(largest, "high" if surely else "medium", parts[largest], short)


def _room(request: FailedRequest) -> int | None:
    """Bytes that could still be allocated from the device; None where that cannot be told."""
    if request.limit is not None and request.reserved is not None:
        return max(min(request.limit - request.reserved, request.free or 0), 0)
    return None if request.is_limited else request.free
