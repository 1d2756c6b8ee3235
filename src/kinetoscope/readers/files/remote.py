"""Remote files, by fsspec: object stores, HTTP, HDFS, whatever it has a file system for.

A file is read once, from front to back, in ranges of which a few are under way at a time (HTTP: as one stream). A
broken transfer is resumed after a while, from the byte where it broke. A copy goes into the cache as it is read.
Credentials are those that s3fs, gcsfs, adlfs and the others find by themselves; each error is one line.
"""

from __future__ import annotations

import importlib
import logging
import os
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import MethodType
from typing import IO, Any, Final

from kinetoscope.errors import KinetoscopeError, NotFoundError
from kinetoscope.readers.files.cache import Cache, PartialCopy, name_of
from kinetoscope.readers.files.remote_errors import as_our_error, is_passing, is_refused

FIRST_RANGE_BYTES: Final = 1 << 18
"""Bytes of the first range: enough to tell what a file is."""

RANGE_BYTES: Final = 8 << 20
"""Bytes of the others."""

RANGES_AHEAD: Final = 3
"""Ranges under way at a time."""

WAITS_S: Final = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try, give or take a half. Whoever gets bytes begins anew."""

_MAX_UNANSWERED_TRIES: Final = 2
"""Further tries of a web server that never answered."""

_GOOGLE_PROTOCOLS: Final = ("gs", "gcs")
_GOOGLE_TRIES: Final = 3
_AZURE_RETRIES: Final = {"total_retries": 2, "initial_backoff": 1, "increment_base": 1, "random_jitter_range": 0.5}

_HTTP_PROTOCOLS: Final = ("http", "https")
_NO_LISTINGS_PROTOCOLS: Final = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "http", "https"}
_LOGGERS: Final = ("gcsfs", "s3fs", "adlfs", "aiobotocore", "azure", "google", "fsspec")
_SILENCE: Final = logging.NullHandler()
_VERSION_KEYS: Final = ("ETag", "etag", "md5Hash", "content_md5", "checksum")
_TIME_KEYS: Final = ("LastModified", "last_modified", "updated", "mtime", "Last-Modified", "created")


@dataclass(frozen=True, slots=True)
class RemoteLocation:
    """A file or folder in a file system of fsspec.

    Attributes:
        url: what the user calls it.
        system: the file system.
        path: what the file system calls it.
    """

    url: str
    system: Any
    path: str

    @property
    def is_http(self) -> bool:
        """Whether it is read as a stream: that a web server ignores ranges shows only in its answer."""
        return protocol_of(self.url) in _HTTP_PROTOCOLS


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of a file in a store.

    Attributes:
        size: bytes; None where it does not say.
        version: changes when the content does; "" where nothing tells.
    """

    size: int | None
    version: str


def protocol_of(url: str) -> str:
    """The protocol before `://`, the last of several that are chained with `::`."""
    return url.partition("://")[0].rpartition("::")[2].lower()


@contextmanager
def one_line_errors(url: str) -> Iterator[None]:
    """Errors of the libraries become one line that names the file. Each has its own, not all OSErrors."""
    try:
        yield
    except KinetoscopeError:
        raise
    except Exception as error:
        if is_refused(error):
            _forget(url)
        raise as_our_error(url, error) from error


def _forget(url: str) -> None:
    """Let the next one find its credentials anew: by then they may be there."""
    import fsspec

    _has_no_account.cache_clear()
    with suppress(ImportError, ValueError):  # what is not installed remembers nothing
        fsspec.get_filesystem_class(protocol_of(url)).clear_instance_cache()


def locate(url: str) -> RemoteLocation:
    """Where a URL leads.

    Raises:
        MissingExtraError: what reads it is not installed.
        NotFoundError: there is nothing that reads it.
    """
    import fsspec

    # Gcsfs would ask another service, over gRPC, which kind of bucket it is; without an answer it waits for a minute.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    for library in _LOGGERS:
        logging.getLogger(library).addHandler(_SILENCE)  # else what they log while they try again is printed
    with one_line_errors(url):
        # Lists of folders are not kept: what is asked again is to be seen as it is by then.
        options: dict[str, Any] = {}
        if "::" not in url:
            options = {"use_listings_cache": False} if protocol_of(url) in _NO_LISTINGS_PROTOCOLS else {}
            options |= (
                {"token": "anon"} if protocol_of(url) in _GOOGLE_PROTOCOLS and _is_nobody(fsspec.config.conf) else {}
            )
        system, path = fsspec.core.url_to_fs(url, **options)
        _shorten_retries(system)
    return RemoteLocation(url, system, str(path))


def _is_nobody(settings: Mapping[str, Any]) -> bool:
    """Whether there is no account at Google here. Gcsfs would ask the same, and the machine's again, for 15 seconds."""
    is_configured = any("token" in settings.get(protocol, {}) for protocol in _GOOGLE_PROTOCOLS)
    if is_configured or Path("~/.gcs_tokens").expanduser().exists():
        return False
    return _has_no_account(os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", ""))


@cache
def _has_no_account(_: str) -> bool:
    """Without one it takes seconds to know; and it is asked for each file."""
    try:
        import google.auth
    except ImportError:
        return False
    try:
        google.auth.default()
    except (google.auth.exceptions.GoogleAuthError, ValueError):
        return True
    return False


def _shorten_retries(system: Any) -> None:
    """Let the clients of Google and Azure give up a request within ten seconds, where they would try for a minute.

    Neither has an option for it. Where what is set here is not there they take their time, and nothing else changes.
    """
    request: Any = getattr(type(system), "_request", None)
    if type(system).__module__.startswith("gcsfs") and hasattr(request, "__wrapped__"):
        retry: Any = importlib.import_module("gcsfs.retry")
        if "_request" not in vars(system):
            system._request = MethodType(retry.retry_request(request.__wrapped__, retries=_GOOGLE_TRIES), system)
    policy = getattr(getattr(getattr(system, "service_client", None), "_config", None), "retry_policy", None)
    for name, value in _AZURE_RETRIES.items():
        if hasattr(policy, name):
            setattr(policy, name, value)


def facts_of(info: dict[str, Any]) -> FileFacts:
    """Size and version from what `info` or `find` of a file system answer."""
    size = info.get("size")
    size = size if isinstance(size, int) and size >= 0 else None
    tag = next((str(info[key]) for key in _VERSION_KEYS if info.get(key)), "")
    time_ = next((str(info[key]) for key in _TIME_KEYS if info.get(key)), "")
    return FileFacts(size, f"{tag}|{size}" if tag else f"{time_}|{size}" if time_ and size is not None else "")


def copied(url: str, facts: FileFacts, cache: Cache | None) -> IO[bytes] | None:
    """The copy in the cache, if there is one."""
    return cache.open(name_of(url, facts.version)) if cache and facts.version else None


def opened(url: str, cache: Cache | None = None) -> tuple[IO[bytes] | RemoteFile, int | None]:
    """A file and its size, from the cache where that has it.

    Raises:
        MissingExtraError, NotFoundError: as `locate`; or the file cannot be read.
    """
    where = locate(url)
    with one_line_errors(url):
        facts = facts_of(where.system.info(where.path))
    return copied(url, facts, cache) or RemoteFile(where, facts, cache), facts.size


def head(where: RemoteLocation, size: int, known: int | None) -> bytes:
    """The first `size` bytes of a file that has `known` of them; of a stream what comes first."""
    with one_line_errors(where.url):
        if known == 0:
            return b""
        if where.is_http or known is None:
            with RemoteFile(where, FileFacts(known, ""), None) as file:
                return file.read_fully(size)
        return _patiently(lambda: _exactly(where, 0, min(size, known)))


def tail(where: RemoteLocation, size: int, known: int) -> bytes:
    """The last `size` bytes of a file that has `known` of them; nothing of a stream."""
    with one_line_errors(where.url):
        return b"" if where.is_http else _patiently(lambda: _exactly(where, max(0, known - size), known))


class RemoteFile:
    """A remote file, to be read from front to back; its copy is in the cache once it was read to its end.

    Raises NotFoundError where reading fails for good.
    """

    def __init__(self, where: RemoteLocation, facts: FileFacts, cache: Cache | None) -> None:
        self.size = facts.size
        self._where = where
        ranged = not where.is_http and facts.size is not None
        self._source = _ranges(where, facts) if ranged else _stream(where, facts)
        self._waiting = memoryview(b"")
        self._keeping = _Keeping(cache, name_of(where.url, facts.version), facts) if facts.version and cache else None

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; all that are left for −1; none at the end."""
        if size < 0:
            return self.read_fully(None)
        if not self._waiting:
            self._waiting = memoryview(self._next())
        data, self._waiting = self._waiting[:size], self._waiting[size:]
        return bytes(data)

    def read_fully(self, size: int | None) -> bytes:
        """Exactly `size` bytes, unless there are fewer; all for None."""
        parts = []
        wanted = size
        while (wanted is None or wanted > 0) and (part := self.read(RANGE_BYTES if wanted is None else wanted)):
            parts.append(part)
            wanted = None if wanted is None else wanted - len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Stop reading; a copy that is not complete is dropped."""
        self._source.close()
        if self._keeping:
            self._keeping.close()

    def _next(self) -> bytes:
        with one_line_errors(self._where.url):
            piece = next(self._source, b"")
        if self._keeping:
            self._keeping.take(piece)
        return piece


class _Keeping:
    """A copy in the making. It takes no room before a second piece is asked for: many files are only looked into."""

    def __init__(self, cache: Cache, name: str, facts: FileFacts) -> None:
        self._cache = cache
        self._name = name
        self._size = facts.size
        self._first = b""
        self._part: PartialCopy | None = None

    def take(self, piece: bytes) -> None:
        """The next piece; none at the end."""
        if self._part is None and not self._first:
            self._first = piece
            if len(piece) != self._size:
                return
            piece = b""
        if self._part is None and self._first and self._size is not None:
            self._part = self._cache.begin(self._name, self._size)
            self._write(self._first)
        if piece:
            self._write(piece)
        elif self._part is not None:
            self._part.keep()
            self._part = self._size = None

    def close(self) -> None:
        if self._part is not None:
            self._part.drop()
            self._part = None

    def _write(self, data: bytes) -> None:
        if self._part is None or not self._part.write(data):
            self._part = self._size = None  # no room: read on without


def _exactly(where: RemoteLocation, begin: int, end: int) -> bytes:
    data: bytes = where.system.cat_file(where.path, start=begin, end=end)
    if len(data) != end - begin:
        raise ConnectionResetError(f"{len(data):,} of {end - begin:,} bytes came")
    return data


def _patiently(fetch: Callable[[], bytes]) -> bytes:
    """The result of `fetch`, retried while its errors may pass."""
    for wait in WAITS_S:
        try:
            return fetch()
        except Exception as error:  # each library has errors of its own
            if not is_passing(error):
                raise
            _pause(wait)
    return fetch()


def _pause(seconds: float) -> None:
    time.sleep(seconds * random.uniform(0.5, 1.5))  # many ranks are not to come back all at once


def _ranges(where: RemoteLocation, facts: FileFacts) -> Generator[bytes, None, None]:
    """The content in pieces, the next few of them already under way."""
    size = facts.size or 0
    if not size:
        return
    yield _patiently(lambda: _exactly(where, 0, min(FIRST_RANGE_BYTES, size)))
    if size <= FIRST_RANGE_BYTES:
        return
    begins = iter(range(FIRST_RANGE_BYTES, size, RANGE_BYTES))
    running: deque[Future[bytes]] = deque()
    with ThreadPoolExecutor(RANGES_AHEAD, "kinetoscope-range") as pool:

        def start(count: int) -> None:
            for begin in islice(begins, count):
                end = min(begin + RANGE_BYTES, size)
                running.append(pool.submit(_patiently, partial(_exactly, where, begin, end)))

        start(RANGES_AHEAD)
        try:
            while running:
                piece = running.popleft().result()
                start(1)
                yield piece
        finally:
            for future in running:
                future.cancel()
    if facts.version and facts_of(where.system.info(where.path)).version != facts.version:
        raise NotFoundError(f"{where.url}: it changed while it was read; ask again")


def _stream(where: RemoteLocation, facts: FileFacts) -> Generator[bytes, None, None]:
    """The content as it comes, in one request as long as that lasts."""
    position = failures = 0
    while True:
        try:
            for piece in _from(where, position, facts):
                position += len(piece)
                failures = 0
                yield piece
            if facts.size is not None and position < facts.size:
                raise ConnectionResetError(f"{position:,} of {facts.size:,} bytes came")
            return
        except Exception as error:  # each library has errors of its own
            if failures == (len(WAITS_S) if position else _MAX_UNANSWERED_TRIES) or not is_passing(error):
                raise
            _pause(WAITS_S[failures])
            failures += 1


def _from(where: RemoteLocation, position: int, facts: FileFacts) -> Iterator[bytes]:
    """The content behind the first `position` bytes."""
    options: dict[str, Any] = {}
    if where.is_http:
        headers = {"Accept-Encoding": "identity"}  # else what comes has another size
        if position:
            headers["Range"] = f"bytes={position}-"
        options = {"size": facts.size or 1, "headers": headers}  # with a size it does not ask for one
    with where.system.open(where.path, "rb", block_size=0 if where.is_http else RANGE_BYTES, **options) as file:
        skip = position
        if where.is_http and position:
            answer = file.r
            tag = answer.headers.get("ETag") or answer.headers.get("Last-Modified", "")
            if facts.version and tag and tag not in facts.version:
                raise NotFoundError(f"{where.url}: it changed while it was read; ask again")
            skip = 0 if answer.status == 206 else position  # a server that knows no ranges begins anew
        while skip and (data := file.read(min(skip, RANGE_BYTES))):
            skip -= len(data)
        while data := file.read(FIRST_RANGE_BYTES):
            yield data
