"""The part of a text that is in memory: what has been read and not yet been understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import UInt8s
from kinetoscope.errors import LimitError
from kinetoscope.readers.files.decompress import STORED_BYTES
from kinetoscope.readers.files.stream import MAX_BLOCK_BYTES, Text
from kinetoscope.readers.json.tokenizer import PADDING

_SPACE: Final = b" \n\r\t"
_QUOTES: Final = b'"' * PADDING
_FIRST_KEY: Final = re.compile(rb'\s*\{\s*("[^"\\]{1,64}")\s*:')


class TextWindow:
    """A buffer over a text that moves forward.

    Attributes:
        data: the buffer, with PADDING quotation marks after `limit`; replaced when it grows.
        array: the same as uint8.
        position: where what is not understood yet begins.
        limit: where it ends.
        offset: place in the whole text of `data[0]`.
        ended: nothing more will come.
    """

    def __init__(self, text: Text, *, max_event: int) -> None:
        self.data = bytearray()
        self.array: UInt8s = np.empty(0, np.uint8)
        self.position = self.limit = self.offset = 0
        self.ended = False
        self._text = text
        self._max_event = max_event

    @property
    def place(self) -> int:
        """Offset of `position` in the whole text."""
        return self.offset + self.position

    def rest(self, size: int | None = None) -> bytes:
        """The first `size` bytes of what is not understood yet (all of it if None), as a copy."""
        end = self.limit if size is None else min(self.position + size, self.limit)
        return bytes(memoryview(self.data)[self.position : end])

    def fill(self) -> bool:
        """Add the next block, or as many as there are bytes waiting; false at the end of the text.

        To call it again and again until one value has ended costs two scans of each byte on average.

        Raises:
            LimitError: more than `max_event` bytes are waiting already.
        """
        waiting = self.limit - self.position
        if waiting > self._max_event:
            raise LimitError(
                f"{self._text.path}: the event or value at byte {self.place:,} is longer than {self._max_event:,} "
                "bytes; if the file is genuine, raise the limit with --max-event"
            )
        added = 0
        while not added or (added < waiting and waiting + added <= self._max_event):
            block = next(self._text, None)
            if block is None:
                self.ended = True
                break
            added += len(block)
            self._append(block)
        return added > 0

    def mark(self) -> bytes:
        """The first key of the event at the position, by which `pieces` can tell where others begin."""
        key = _FIRST_KEY.match(self.data, self.position, self.limit)
        return key.group(1) if key else b'"ph"'

    def pieces(self, mark: bytes) -> Iterator[tuple[bytearray, int, int]]:
        """Cut the text into pieces that begin at a likely event: (text with padding, limit, place).

        They are for several threads. A likely event is `{`, white space, `mark`. It may be a mistake (such text can
        stand inside an argument), so whoever parses a piece must see that the piece before ended exactly where this one
        begins. The iteration ends when the text does or no such place is found in the next block; what is left is then
        in the window.
        """
        while not self.ended and (block := next(self._text, None)) is not None:
            piece = bytearray(b"").join((memoryview(self.data)[self.position : self.limit], block, _QUOTES))
            place, limit = self.place, len(piece) - PADDING
            seam = max(_last_event(piece, mark), 0)
            self.position = self.limit = 0
            self.offset = place + seam
            self._append(memoryview(piece)[seam:limit])
            if seam == 0:
                return
            piece[seam : seam + PADDING] = _QUOTES
            yield piece, seam, place
        self.ended = True

    def unread(self, texts: list[memoryview], offset: int) -> None:
        """Take back what was handed out by `pieces`, ahead of what is here; `offset` is where it begins."""
        waiting = self.rest()
        self.position = self.limit = 0
        self.offset = offset
        for text in texts:
            self._append(text)
        self._append(waiting)

    def _append(self, text: bytes | memoryview) -> None:
        waiting = self.limit - self.position
        end = waiting + len(text)
        if end + PADDING > len(self.data):
            doubled = min(2 * len(self.data), self._max_event + MAX_BLOCK_BYTES)
            larger = bytearray(max(end, doubled, STORED_BYTES) + PADDING)
            larger[:waiting] = memoryview(self.data)[self.position : self.limit]
            self.data = larger
            self.array = np.frombuffer(larger, np.uint8)
        elif self.position:
            self.array[:waiting] = self.array[self.position : self.limit]
        self.offset += self.position
        self.position, self.limit = 0, end
        self.array[waiting:end] = np.frombuffer(text, np.uint8)
        self.array[end : end + PADDING] = ord('"')


def _last_event(text: bytearray, mark: bytes) -> int:
    """Offset of the last `{`, white space, `mark` in a text; −1 if there is none."""
    at = len(text)
    while (at := text.rfind(mark, 0, at)) > 0:
        start = at - 1
        while start > 0 and text[start] in _SPACE:
            start -= 1
        if text[start] == ord("{"):
            return start
    return -1
