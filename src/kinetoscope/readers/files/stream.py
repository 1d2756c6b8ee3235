"""The text of a file, decompressed, in blocks, ahead of whoever reads them.

Gzip (one member or many), Zstandard and plain text are recognised by their first bytes, never by the name. A thread
of its own inflates while the tokenizer works (both leave the GIL); two blocks are ready at most, so that memory does
not hold the text. What is cut or corrupt ends the stream early, and `TextBlocks.fault` says how.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Final, Protocol

from kinetoscope.errors import LimitError, NotFoundError
from kinetoscope.model.trace.source import DEFAULT_MAX_SIZE, Source, SourceOptions
from kinetoscope.readers.files.cache import Cache, cache_at
from kinetoscope.readers.files.decompress import (
    MAX_PIECE_BYTES,
    STORED_BYTES,
    CorruptError,
    EndsEarlyError,
    GoesOnError,
    decompressor,
    inflated,
    salvaged,
)

if TYPE_CHECKING:
    from kinetoscope.readers.files.remote import RemoteFile

MAX_BLOCK_BYTES: Final = MAX_PIECE_BYTES
"""Bytes of text in a block at most."""

MAX_RATIO: Final = 200
"""Bytes of text from one byte of compressed data that nothing but a bomb exceeds: traces have 8 to 30."""

UNSUSPICIOUS_BYTES: Final = 1 << 28
"""Bytes of text up to which the ratio does not matter."""

_LOCAL_PROTOCOLS: Final = ("file://", "local://", "memory://")

ProgressCallback = Callable[[int], None]
"""Called with the bytes of the file, as stored, that have been read since the last call."""


class Text(Protocol):
    """A text that comes in blocks.

    Attributes:
        path: what to call it in messages.
        fault: what was wrong with it, one phrase each; complete when the iteration has ended.
        goes_on: something that does not belong to it follows where it is stored.
        unread: share of what is stored that could not be read; 0 where that is nothing, or nobody can tell.
        length: bytes handed out so far.
    """

    path: str
    fault: list[str]
    goes_on: bool
    unread: float
    length: int

    def __iter__(self) -> Iterator[bytes]: ...

    def __next__(self) -> bytes: ...


class TextBlocks:
    """The text of a file as an iterator of blocks; a context manager, which closes the file.

    Blocks are read ahead in a thread of their own, unless `ahead` is false: where as many files are read at once as
    there are cores, such a thread would only take time from the others.

    Attributes: see `Text`; and stored: the size of the file, None where it is not known.

    Raises:
        NotFoundError: there is no such file, or it cannot be read (when made, or during the iteration).
        LimitError: it holds more than `max_size` bytes of text, or so much more than is stored that it must be a bomb
            (during the iteration). A limit that the user has set is the only one that counts.
    """

    def __init__(
        self,
        path: str,
        *,
        max_size: int = DEFAULT_MAX_SIZE,
        progress: ProgressCallback | None = None,
        cache: Cache | None = None,
        ahead: bool = True,
    ) -> None:
        self.path = path
        self.fault: list[str] = []
        self.goes_on = False
        self.unread = 0.0
        self.length = 0
        self._max_size = max_size
        self._progress: ProgressCallback = progress or (lambda _: None)
        self._cache = cache
        self._file, self.stored = open_file(path, cache)
        self._taken = 0
        self._peeked: bytes | None = None
        self._ready: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=2)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kinetoscope-inflate", daemon=True)
        self._here = None if ahead else self._blocks()
        if ahead:
            self._thread.start()

    def __enter__(self) -> TextBlocks:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        while self._thread.is_alive():
            try:  # the thread may be waiting for a free place
                self._ready.get(timeout=0.01)
            except queue.Empty:
                continue
        if self._here is None:
            self._thread.join()
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        block = self._take() if self._peeked is None else self._peeked
        self._peeked = None
        if not block:
            raise StopIteration
        self.length += len(block)
        return block

    def peek(self) -> bytes:
        """The next block, which the iteration will give again; empty at the end."""
        if self._peeked is None:
            self._peeked = self._take()
        return self._peeked

    def _take(self) -> bytes:
        if self._stop.is_set():
            return b""
        if self._here is not None:
            return next(self._here, b"")
        block = self._ready.get()
        if isinstance(block, bytes):
            return block
        self._stop.set()
        if block is None:
            return b""
        raise block

    def _work(self) -> None:
        outcome: BaseException | None = None
        try:
            for block in self._blocks():
                self._ready.put(block)
                if self._stop.is_set():
                    break
        except BaseException as error:  # noqa: BLE001 - it is raised again by whoever reads
            outcome = error
        self._ready.put(outcome)

    def _blocks(self) -> Iterator[bytes]:
        return _gathered(self._guarded(self._pieces()))

    def _read(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            raise NotFoundError(f"{self.path}: cannot be read: {_reason(error)}") from error
        self._taken += len(data)
        self._progress(len(data))
        return data

    def _pieces(self) -> Iterator[bytes]:
        head = self._read(STORED_BYTES)
        if decompressor(head) is None:
            yield head
            while data := self._read(MAX_BLOCK_BYTES):
                yield data
            return
        rest = iter((head,))
        done = 0
        try:
            for text in inflated(lambda size: next(rest, b"") or self._read(size)):
                done += len(text)
                yield text
        except EndsEarlyError:
            self.fault.append("the compressed data ends early")
        except GoesOnError:
            self.goes_on = True
        except CorruptError as error:
            self.fault.append(f"the compressed data is corrupt ({error})")
            self.unread = max(0.0, 1 - error.at / self.stored) if self.stored else 0.0
            again, _ = open_file(self.path, self._cache)
            with again:
                yield from salvaged(again.read, error.at, done)

    def _guarded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        length = 0
        for piece in pieces:
            length += len(piece)
            if length > self._max_size:
                raise LimitError(
                    f"{self.path}: more than {self._max_size:,} bytes of text; if the file is genuine, raise the "
                    "limit with --max-size"
                )
            if length > max(UNSUSPICIOUS_BYTES, MAX_RATIO * self._taken) and self._max_size == DEFAULT_MAX_SIZE:
                raise LimitError(
                    f"{self.path}: {self._taken:,} bytes of compressed data hold more than {length:,} bytes of text, "
                    "which no trace does; if the file is genuine, set your own limit with --max-size"
                )
            yield piece


def is_url(path: str) -> bool:
    """Whether this names something that fsspec opens, rather than a local file."""
    return "://" in path


def cache_for(path: str, options: SourceOptions) -> Cache | None:
    """Where a copy of a remote file is kept, as the options and the environment say; None for what is here."""
    is_remote = is_url(path) and not path.startswith(_LOCAL_PROTOCOLS)
    return cache_at(options.cache, options.cache_size) if is_remote else None


def opened(
    source: Source, *, url: str = "", progress: ProgressCallback | None = None, ahead: bool = True
) -> TextBlocks:
    """The text of a source's file, or of another one that is read with its options: see `TextBlocks`."""
    file, options = url or source.url, source.options
    cache = cache_for(file, options)
    return TextBlocks(file, max_size=options.max_size, progress=progress, cache=cache, ahead=ahead)


def open_file(path: str, cache: Cache | None = None) -> tuple[IO[bytes] | RemoteFile, int | None]:
    """The file at a local path or an fsspec URL, and its size in bytes where that is known.

    cache: where a copy of a remote file is looked for and kept.

    Raises:
        NotFoundError: there is no such file, or it cannot be read.
        MissingExtraError: what reads the URL is not installed.
    """
    if is_url(path):
        from kinetoscope.readers.files import remote

        return remote.opened(path, cache)
    try:
        file: IO[bytes] = open(path, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
        return file, os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise NotFoundError(f"{path}: this is a folder; name a file in it") from error
    except (OSError, ValueError) as error:
        raise NotFoundError(f"{path}: cannot be read: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """The message of an error, without the number and the path that an OSError repeats."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same text, small pieces put together: files of many small gzip members would cost a call for each."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= STORED_BYTES:
            yield piece if len(waiting) == 1 else b"".join(waiting)
            waiting.clear()
            size = 0
    if size:
        yield b"".join(waiting)
