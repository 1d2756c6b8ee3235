"""How long kernels take on devices: tiles and waves of products, traffic through memory and cache, start and end.

The law is not that of `kinetoscope.model.roofline`. A product is cut into tiles that multiprocessors work off wave by
wave; it shares its time with its traffic, neither hides the other wholly; and what a device reaches of its peaks is
drawn for each program within the ranges that cuBLAS, FlashAttention and plain copies are measured at.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from random import Random
from typing import Any, Final, NamedTuple

BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp8": 1}


@dataclass(frozen=True)
class Chip:
    """A device.

    Attributes:
        program: what `Program` says of it in the trace.
        tera: peak by precision, 10¹² operations a second; fp32 is that of the plain units.
        bandwidth, link: bytes a ns, of its memory and to its neighbours in one direction.
        cache: bytes of its last cache.
        processors: how many.
        reaches: range of the share of the peak that large products reach.
    """

    program: dict[str, Any]
    tera: dict[str, float]
    bandwidth: float
    link: float
    cache: float
    processors: int
    reaches: tuple[float, float]


CHIPS: Final = {
    "H100": Chip(
        {"device": "NVIDIA H100 80GB HBM3", "capability": (9, 0), "memory": 85.0e9},
        {"bf16": 989, "fp16": 989, "tf32": 495, "fp32": 67, "fp8": 1979}, 3350, 450, 50e6, 132, (0.62, 0.80),
    ),
    "A100": Chip(
        {"device": "NVIDIA A100-SXM4-80GB", "capability": (8, 0), "memory": 85.0e9},
        {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5}, 2039, 300, 40e6, 108, (0.75, 0.90),
    ),
    "V100": Chip(
        {"device": "Tesla V100-SXM2-16GB", "capability": (7, 0), "memory": 16.9e9},
        {"fp16": 125, "fp32": 15.7}, 900, 150, 6e6, 80, (0.65, 0.85),
    ),
    "MI300X": Chip(
        {"device": "AMD Instinct MI300X", "capability": (9, 4), "memory": 206e9},
        {"bf16": 1307, "fp16": 1307, "tf32": 653, "fp32": 163, "fp8": 2614}, 5300, 448, 256e6, 304, (0.45, 0.65),
    ),
}  # fmt: skip

_TILES: Final = ((256, 128, 1.0), (128, 128, 0.93), (128, 64, 0.8), (64, 64, 0.6), (16, 128, 0.35))
"""Rows and columns of a tile, and what such tiles reach of what the largest do."""

_SPLITS: Final = (1, 2, 4, 8, 16)
_MIN_INNER: Final = 256
"""Parts that the inner dimension is cut into, and how long one must be at least."""

_TILE_US: Final = 0.5
"""What a wave takes besides its multiplications."""

_UNALIGNED: Final = {8: (1.0, 1.0), 4: (0.7, 0.9), 2: (0.5, 0.75), 1: (0.35, 0.6)}
"""Range of the rate at which rows are loaded that begin at multiples of so many elements."""

_HIDING: Final = 4
"""Arithmetic and traffic together take the norm of this order of the two."""


class Timed(NamedTuple):
    """What a kernel takes, and in how many blocks."""

    us: float
    grid: tuple[int, int, int]


class Silicon:
    """A device as one program meets it."""

    def __init__(self, chip: Chip, seed: int) -> None:
        drawn = Random(seed * 7919 + 17)
        self.chip = chip
        self.matrix = drawn.uniform(*chip.reaches)
        self.plain = drawn.uniform(0.7, 0.92)
        self.stream = drawn.uniform(0.80, 0.93)
        self.cached = drawn.uniform(1.5, 2.5)
        self.ramp = drawn.uniform(1.5, 2.6)
        self.attending = drawn.uniform(0.55, 0.85), drawn.uniform(0.45, 0.7)
        self.sending = drawn.uniform(0.75, 0.9)
        self.unaligned = {power: drawn.uniform(*rates) for power, rates in _UNALIGNED.items()}

    def traffic(self, size: float, flop: float = 0.0) -> Timed:
        """A kernel that moves so many bytes, and computes little."""
        faster = self.cached if size < 0.4 * self.chip.cache else 1.0
        moving = size / (self.chip.bandwidth * self.stream * faster) / 1000
        return Timed(self._together(flop / (self.chip.tera["fp32"] * 0.5e6), moving), (max(int(size) // 4096, 1), 1, 1))

    def product(self, m: int, n: int, k: int, precision: str, *, batch: int = 1, inputs: str = "") -> Timed:
        """`batch` products of an m × k and a k × n matrix; the second has elements of `inputs`, if they differ."""
        width, second = BYTES[precision], BYTES[inputs or precision]
        rate = self.chip.tera[precision] * 1e6 / self.chip.processors
        rate *= self.plain if precision == "fp32" else self.matrix
        if precision != "fp32":
            rate *= self.unaligned[min(each & -each for each in (n, k, 8))]
        best = Timed(float("inf"), (1, 1, 1))
        for rows, columns, share in _TILES:
            for split in _SPLITS:
                inner = ceil(k / split)
                if split > 1 and inner < _MIN_INNER:
                    continue
                tiles = ceil(m / rows), ceil(n / columns), batch * split
                waves = ceil(tiles[0] * tiles[1] * tiles[2] / self.chip.processors)
                takes = waves * (2.0 * rows * columns * inner / (rate * share) + _TILE_US)
                if split > 1:
                    takes += 4.0 * batch * m * n * (split + 1) / (self.chip.bandwidth * self.stream) / 1000 + self.ramp
                best = min(best, Timed(takes, tiles))
        size = float(batch * (m * k * width + k * n * second + m * n * width))
        return Timed(self._together(best.us, size / (self.chip.bandwidth * self.stream) / 1000), best.grid)

    def attention(
        self, batch: int, heads: int, rows: int, length: int, width: int, precision: str, *, causal: bool, back: bool
    ) -> Timed:
        """A fused kernel, of the forward or the backward pass."""
        pairs = rows * length * (0.5 if causal and rows == length else 1.0)
        flop = 4.0 * batch * heads * pairs * width * (2.5 if back else 1.0)
        size = float(BYTES[precision] * batch * heads * width) * (2 * rows + 2 * length) * (2 if back else 1)
        size += 8.0 * batch * heads * rows * width if back else 0.0
        rate = self.chip.tera[precision] * 1e6 * self.matrix * self.attending[back]
        blocks = ceil(rows / 128) * heads * batch * (max(length // 512, 1) if rows == 1 else 1)
        rate *= min(1.0, blocks / self.chip.processors)
        moving = size / (self.chip.bandwidth * self.stream) / 1000
        return Timed(self._together(flop / rate, moving), (ceil(rows / 128), heads, batch))

    def reduction(self, size: float, ranks: int, share: float = 1.0) -> float:
        """us of an all-reduce of so many bytes in a ring over `share` of the link."""
        return 2 * (ranks - 1) / ranks * size / (self.chip.link * self.sending * share) / 1000 + 8.0 + ranks

    def _together(self, arithmetic: float, traffic: float) -> float:
        return float((arithmetic**_HIDING + traffic**_HIDING) ** (1 / _HIDING)) + self.ramp
