"""The part of a text that is in memory: what has been read and not yet been understood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kinetoscope.errors import LimitError
from kinetoscope.readers.stream import BLOCK, Blocks
from kinetoscope.readers.tokenizer import PADDING

_MARK = b'"ph"'
_SPACE = b" \n\r\t"


class Window:
    """A buffer over `Blocks` that moves forward.

    Attributes:
        data: the buffer, with PADDING quotation marks after `limit`; replaced when it grows.
        position: where what is not understood yet begins.
        limit: where it ends.
        offset: place in the whole text of `data[0]`.
        ended: nothing more will come.
    """

    def __init__(self, blocks: Blocks, *, max_event: int) -> None:
        self.data = bytearray(2 * BLOCK + PADDING)
        self.array = np.frombuffer(self.data, np.uint8)
        self.position = self.limit = self.offset = 0
        self.ended = False
        self._blocks = blocks
        self._max_event = max_event
        self._pad()

    @property
    def rest(self) -> bytes:
        """What is not understood yet, as a copy."""
        return bytes(self.data[self.position : self.limit])

    @property
    def place(self) -> int:
        """Offset of `position` in the whole text."""
        return self.offset + self.position

    def fill(self) -> bool:
        """Add the next block; false at the end of the text.

        Raises:
            LimitError: more than `max_event` bytes are waiting to be understood.
        """
        block = next(self._blocks, None)
        if block is None:
            self.ended = True
            return False
        self._append(block)
        if self.limit - self.position > self._max_event:
            raise LimitError(
                f"{self._blocks.path}: the event at byte {self.place:,} is longer than {self._max_event:,} bytes; "
                "if that is no accident, raise the limit with --max-event"
            )
        return True

    def unread(self, texts: list[bytes | bytearray], offset: int) -> None:
        """Take back what was handed out by `pieces`, ahead of what is here; `offset` is where it begins."""
        waiting = self.rest
        self.position = self.limit = 0
        self.offset = offset
        for text in (*texts, waiting):
            self._append(text)

    def pieces(self) -> Iterator[tuple[bytearray, int, int]]:
        """Cut the text into pieces that begin at a likely event, for several threads: (text with padding, limit, place).

        A likely event is `{`, white space, `"ph"`. It may be a mistake (such text can stand inside an argument), so
        whoever parses a piece must see that the piece before ended exactly where this one begins. The iteration ends
        when the text does or no such place is found in the next block; what is left is then in the window.
        """
        while True:
            piece = self.data[self.position : self.limit]
            place = self.place
            self.position = self.limit = 0
            block = next(self._blocks, None)
            piece += block or b""
            seam = _last_event(piece) if block is not None else len(piece)
            self.offset = place + max(seam, 0)
            self._append(piece[max(seam, 0) :])
            self.ended = block is None
            if seam <= 0:
                return
            del piece[seam:]
            piece += b'"' * PADDING
            yield piece, seam, place
            if block is None:
                return

    def _append(self, text: bytes | bytearray) -> None:
        waiting = self.limit - self.position
        needed = waiting + len(text) + PADDING
        if needed > len(self.data):
            larger = bytearray(max(needed, 2 * len(self.data)))
            larger[:waiting] = self.data[self.position : self.limit]
            self.data = larger
            self.array: NDArray[np.uint8] = np.frombuffer(self.data, np.uint8)
        elif self.position:
            self.array[:waiting] = self.array[self.position : self.limit]
        self.offset += self.position
        self.position = 0
        self.limit = waiting + len(text)
        self.array[waiting : self.limit] = np.frombuffer(text, np.uint8)
        self._pad()

    def _pad(self) -> None:
        self.array[self.limit : self.limit + PADDING] = ord('"')


def _last_event(text: bytearray) -> int:
    """Offset of the last `{`, white space, `"ph"` in a text; −1 if there is none."""
    mark = len(text)
    while (mark := text.rfind(_MARK, 0, mark)) > 0:
        start = mark - 1
        while start > 0 and text[start] in _SPACE:
            start -= 1
        if text[start] == ord("{"):
            return start
    return -1
