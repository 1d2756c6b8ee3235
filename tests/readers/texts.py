"""Texts in memory, read as files are: in blocks of any size, by any number of tokenizers, with tables of any size."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.json.columns import SIZES, Sizes
from kinetoscope.readers.json.kineto import read

TINY: Final = Sizes(rows=2, values=2, strings=2, arena=16, shapes=2, items=256, tracks=2)
"""Tables that are too small for anything, so that each of them has to grow."""


class InBlocks:
    """A text in blocks of the given sizes, the last of which goes on to the end: a `Text`, as `TextBlocks` is."""

    def __init__(self, content: bytes, sizes: Iterable[int]) -> None:
        self.path = "memory.json"
        self.fault: list[str] = []
        self.goes_on = False
        self.unread = 0.0
        self.length = 0
        self._content = content
        self._sizes = iter(sizes)
        self._size = len(content)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self.length >= len(self._content):
            raise StopIteration
        self._size = max(next(self._sizes, self._size), 1)
        block = self._content[self.length : self.length + self._size]
        self.length += len(block)
        return block


def read_text(
    content: bytes | str,
    *,
    block: int | Iterable[int] = 1 << 22,
    threads: int = 1,
    sizes: Sizes = SIZES,
    options: SourceOptions | None = None,
) -> Trace:
    """The trace in a text; `block` is the size of each block, or the sizes of the first ones."""
    data = content.encode() if isinstance(content, str) else content
    steps = itertools.repeat(block) if isinstance(block, int) else block
    source = Source("memory.json", options=options or SourceOptions(threads=threads))
    return read(source, InBlocks(data, steps), sizes=sizes)
