"""Ranges of the bytes of a file that are texts or messages, as columns; equal ones are found without making objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s, UInt8s
from kinetoscope.algorithms.compiled import compiled, frozen
from kinetoscope.algorithms.grouping import group


@dataclass(frozen=True, slots=True)
class ByteRanges:
    """Ranges of bytes; the start is −1 where there is none."""

    start: Int64s
    end: Int64s

    def __len__(self) -> int:
        return len(self.start)

    @property
    def there(self) -> Bools:
        """Bool: is there one?"""
        return np.asarray(self.start >= 0)

    def at(self, places: Int64s | Bools) -> ByteRanges:
        """Some of them."""
        return ByteRanges(self.start[places], self.end[places])

    def or_else(self, other: ByteRanges) -> ByteRanges:
        """These, and the other where there is none."""
        return ByteRanges(np.where(self.there, self.start, other.start), np.where(self.there, self.end, other.end))


@compiled
def _hashes(data, starts, ends, hashes):  # type: ignore[no-untyped-def]
    for each in range(starts.size):
        mixed = np.uint64(14695981039346656037)
        for place in range(starts[each], ends[each]):
            mixed = (mixed ^ np.uint64(data[place])) * np.uint64(1099511628211)
        hashes[each] = np.int64(mixed)


@compiled
def _differing(data, starts, ends, codes, representatives):  # type: ignore[no-untyped-def]
    """How many ranges are not the same bytes as that which stands for them."""
    count = 0
    for each in range(starts.size):
        other = representatives[codes[each]]
        size = ends[each] - starts[each]
        if ends[other] - starts[other] != size:
            count += 1
            continue
        for offset in range(size):
            if data[starts[each] + offset] != data[starts[other] + offset]:
                count += 1
                break
    return count


def distinct(data: UInt8s, ranges: ByteRanges) -> tuple[Int64s, list[bytes]]:
    """The bytes of ranges, each content once, and which of them each range has; none is empty bytes."""
    data, starts, ends = frozen(data, np.uint8), frozen(ranges.start, np.int64), frozen(ranges.end, np.int64)
    hashes = np.empty(len(starts), np.int64)
    _hashes(data, starts, ends, hashes)
    codes, representatives = group(hashes, ends - starts)
    if _differing(data, starts, ends, frozen(codes, np.int32), frozen(representatives, np.int32)):
        places: dict[bytes, int] = {}
        raw = [data[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.array([places.setdefault(each, len(places)) for each in raw], np.int64), [*places]
    pairs = zip(starts[representatives].tolist(), ends[representatives].tolist(), strict=True)
    return codes.astype(np.int64), [data[start:end].tobytes() if start >= 0 else b"" for start, end in pairs]


@dataclass(frozen=True)
class Texts:
    """A column of texts as bytes; not one object each.

    Attributes:
        data: uint8, the bytes of all.
        ranges: where each stands.
    """

    data: UInt8s
    ranges: ByteRanges

    @classmethod
    def of(cls, values: Sequence[str] | Sequence[bytes]) -> Self:
        """The column of some texts or bytes."""
        contents = [each.encode("utf-8", "replace") if isinstance(each, str) else each for each in values]
        ends = np.cumsum(np.fromiter(map(len, contents), np.int64, len(contents)))
        starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(contents)]
        return cls(np.frombuffer(b"".join(contents), np.uint8), ByteRanges(starts, ends))

    @classmethod
    def empty(cls, count: int) -> Self:
        """So many empty ones."""
        return cls(np.zeros(0, np.uint8), ByteRanges(*np.zeros((2, count), np.int64)))

    def __len__(self) -> int:
        return len(self.ranges)

    def at(self, places: Int64s | Bools) -> Texts:
        """Some of them."""
        return Texts(self.data, self.ranges.at(places))

    @property
    def sizes(self) -> Int64s:
        """Bytes of each."""
        return self.ranges.end - self.ranges.start

    def begins_with(self, word: bytes) -> Bools:
        """Texts that begin with a word."""
        result = self.sizes >= len(word)
        for place, byte in enumerate(word):
            chosen = np.flatnonzero(result)
            result[chosen] = self.data[self.ranges.start[chosen] + place] == byte
        return result

    def listed(self) -> list[str]:
        """Each as Python has it."""
        return [content.decode("utf-8", "replace") for content in self.contents()]

    def contents(self) -> list[bytes]:
        """The bytes of each."""
        bounds = zip(self.ranges.start.tolist(), self.ranges.end.tolist(), strict=True)
        return [self.data[start:end].tobytes() for start, end in bounds]

    def distinct(self) -> tuple[Int64s, list[str]]:
        """Each text once, and which of them each is."""
        codes, contents = distinct(self.data, self.ranges)
        return codes, [content.decode("utf-8", "replace") for content in contents]

    def or_else(self, other: Texts) -> Texts:
        """These, and the others in place of empty ones."""
        is_empty, shift = self.sizes == 0, len(self.data)
        if not is_empty.any() or not other.sizes.any():
            return self
        moved = ByteRanges(other.ranges.start + shift, other.ranges.end + shift)
        bounds = zip((moved.start, moved.end), (self.ranges.start, self.ranges.end), strict=True)
        return Texts(
            np.concatenate([self.data, other.data]), ByteRanges(*(np.where(is_empty, *pair) for pair in bounds))
        )
