"""Bytes of a file, decompressed, in blocks, ahead of whoever reads them.

Gzip (one member or many), Zstandard and plain text are told apart by their first bytes, never by the name. A thread
of its own inflates while the tokenizer works (both leave the GIL); two blocks are ready at most, so that memory does
not hold the text. What is cut or corrupt ends the stream early, and `Blocks.fault` says how.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any, Final, Protocol, cast

from kinetoscope.errors import LimitError, NotFoundError

BLOCK: Final = 4 << 20
"""Bytes of text in a block. Larger ones leave the cache and cost page faults; smaller ones cost calls."""

_COMPRESSED: Final = 1 << 18

Progress = Callable[[int], None]
"""Told how many bytes of the file (as stored) have been read since it was last told."""


class _Decompressor(Protocol):
    """What isal's and Zstandard's incremental decompressors share (the shape of `bz2.BZ2Decompressor`)."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _gzip_member() -> _Decompressor:
    from isal import igzip_lib

    return cast(_Decompressor, igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP))


def _zstd_frame() -> _Decompressor:
    try:
        from compression import zstd
    except ImportError:  # before Python 3.14
        from backports import zstd
    return cast(_Decompressor, zstd.ZstdDecompressor())


_MAGIC: Final[dict[bytes, Callable[[], _Decompressor]]] = {b"\x1f\x8b": _gzip_member, b"\x28\xb5\x2f\xfd": _zstd_frame}


def is_url(path: str) -> bool:
    """Does this name something that fsspec opens, rather than a local file?"""
    return "://" in path


def open_file(path: str) -> tuple[IO[bytes], int | None]:
    """The file at a local path or an fsspec URL, and its size in bytes where that is known.

    Raises:
        NotFoundError: there is no such file, or it cannot be read.
    """
    try:
        if not is_url(path):
            file: IO[bytes] = open(path, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
            return file, os.fstat(file.fileno()).st_size
        import fsspec

        remote = fsspec.open(path, "rb").open()
        return cast(IO[bytes], remote), getattr(remote, "size", None)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path}: no such file") from error
    except (OSError, ValueError, ImportError) as error:
        raise NotFoundError(f"{path}: cannot be read: {error}") from error


def _inflate(
    file: IO[bytes], head: bytes, create: Callable[[], _Decompressor], fault: list[str], progress: Progress
) -> Iterator[bytes]:
    """The text of all members (gzip) or frames (Zstandard) of a file, in pieces of up to BLOCK bytes."""
    magic = next(magic for magic, known in _MAGIC.items() if known is create)
    machine = create()
    data = head
    while True:
        try:
            text = machine.decompress(data, BLOCK)
        except Exception as error:  # noqa: BLE001 - each library has its own error type, and all mean corrupt data
            fault.append(f"the compressed data is corrupt ({str(error) or type(error).__name__})")
            return
        if text:
            yield text
        data = b""
        if machine.eof:
            data = machine.unused_data or file.read(_COMPRESSED)
            if not data.rstrip(b"\0"):  # the end, or padding after it
                return
            if not data.startswith(magic[: len(data)]):
                fault.append("bytes after the compressed data were ignored")
                return
            machine = create()
        elif machine.needs_input:
            data = file.read(_COMPRESSED)
            progress(len(data))
            if not data:
                fault.append("the compressed data ends early")
                return


def _plain(file: IO[bytes], head: bytes, progress: Progress) -> Iterator[bytes]:
    yield head
    while data := file.read(BLOCK):
        progress(len(data))
        yield data


class Blocks:
    """The text of a file as an iterator of blocks, read ahead in a thread; a context manager, for the thread's sake.

    Attributes:
        fault: what was wrong with the stream, one phrase each; complete when the iteration has ended.
        length: bytes of text handed out so far.
    """

    def __init__(self, path: str, *, max_size: int, progress: Progress | None = None) -> None:
        self.path = path
        self.fault: list[str] = []
        self.length = 0
        self._max_size = max_size
        self._progress: Progress = progress or (lambda _: None)
        self._file, self.stored = open_file(path)
        self._ready: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=2)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="kinetoscope-inflate", daemon=True)
        self._thread.start()

    def __enter__(self) -> Blocks:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        while self._thread.is_alive():
            try:  # the thread may be waiting for a free place
                self._ready.get(timeout=0.01)
            except queue.Empty:
                continue
        self._thread.join()
        self._file.close()

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
        try:
            head = self._file.read(_COMPRESSED)
        except OSError as error:
            raise NotFoundError(f"{self.path}: cannot be read: {error}") from error
        self._progress(len(head))
        for magic, create in _MAGIC.items():
            if head.startswith(magic):
                return _inflate(self._file, head, create, self.fault, self._progress)
        return _plain(self._file, head, self._progress)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._stop.is_set():
            raise StopIteration
        block = self._ready.get()
        if block is None:
            self._stop.set()
            raise StopIteration
        if isinstance(block, BaseException):
            self._stop.set()
            raise block
        self.length += len(block)
        if self.length > self._max_size:
            raise LimitError(
                f"{self.path}: more than {self._max_size:,} bytes of text; if that is no accident, raise the limit "
                "with --max-size"
            )
        return block


def is_binary(head: Any) -> bool:
    """Do the first bytes of decompressed content hold what no JSON text does?"""
    return b"\0" in bytes(head[:4096])
