"""The memory of a simulated program: a caching allocator that never fragments unless it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field

_CHUNK = 2 << 20
"""Bytes that the pool grows by, or a multiple of them."""


@dataclass
class Pool:
    """What is allocated and what is reserved.

    Attributes:
        allocated, reserved: bytes.
        unusable: bytes of what is reserved that no request fits into: fragments.
    """

    allocated: int = 0
    reserved: int = 0
    unusable: int = 0
    _sizes: dict[int, int] = field(default_factory=dict)
    _next: int = 0x7F0000000000

    def take(self, size: int) -> tuple[int, int]:
        """An address, and how many bytes the pool has to grow by first."""
        missing = self.allocated + self.unusable + size - self.reserved
        grow = -(-missing // _CHUNK) * _CHUNK if missing > 0 else 0
        self.reserved += grow
        self.allocated += size
        address, self._next = self._next, self._next + max(size, 512)
        self._sizes[address] = size
        return address, grow

    def give(self, address: int) -> int:
        """Its size."""
        size = self._sizes.pop(address)
        self.allocated -= size
        return size
