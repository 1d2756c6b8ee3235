"""Workers of a Dask cluster: one that runs somewhere, or as many processes as there are cores here.

The scheduler needs no Kinetoscope: what it sees are bytes.
"""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from kinetoscope.engines.cluster import PATIENCE, Cluster, DiedError, Question, Reply, shared
from kinetoscope.engines.worker import Files
from kinetoscope.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from distributed import Future as AnyFuture

    Asked = AnyFuture[Any]

TIMEOUT: Final = 30
"""Seconds for a scheduler to answer, each time, and at first for a worker to be there."""

LISTENING: Final = 8
"""Seconds for something to listen at the address: a scheduler may be on its way up."""

_AGAIN: Final = 0.5
"""Seconds between two attempts."""

_LEAVE: Final = 5
"""Seconds to say good-bye to a scheduler that does not answer."""

_GLANCE: Final = 0.2
"""Seconds after which it is looked again whether there is a worker."""

_SPARE: Final = 1
"""Ranks beyond its threads that a worker is given, so that it never waits for the next."""


def engine(
    files: Files, *, address: str | None, jobs: int, keep: int | None = None, progress: Callable[[int], None] | None
) -> Cluster:
    """The engine.

    Args:
        files: how files are read.
        address: of the scheduler, or the file that it wrote that into. Without: the client that this process has
            already, else `jobs` worker processes on this machine.
        jobs: how many.
        keep: bytes of memory of each worker, of which a part is for traces that it keeps; by default its limit.
        progress: told how many more bytes have been read.

    Raises:
        MissingExtraError: Dask is not installed.
        InputError: no scheduler answers, no worker comes, or theirs is another Python.
    """
    workers = shared(("dask", address, keep), lambda: _Workers(address, jobs, keep))
    return Cluster(files, workers, progress)


class _Workers:
    """See `Workers`."""

    def __init__(self, address: str | None, jobs: int, keep: int | None) -> None:
        try:
            import cloudpickle
            import distributed
        except ImportError as error:
            raise MissingExtraError("engine 'dask'", "dask") from error
        self.cloudpickle: Any = cloudpickle
        self._keep = keep
        self.client: Any
        self.client, close = _connected(distributed, address, jobs)
        self.name = f"Dask at {self.client.scheduler.address if self.client.scheduler else address}"
        self._close = close
        self._lost = False
        self.users: set[int] = set()
        try:
            self._require_workers()
        except InputError:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """See `Workers`."""
        return bool(self.client.status == "running") and not self._lost

    def close(self) -> None:
        """See `Workers`."""
        with suppress(TimeoutError):
            self._close(_LEAVE if self._lost else 2 * TIMEOUT)

    @contextmanager
    def question(self, question: bytes, version: str) -> Iterator[Question]:
        """See `Workers`."""
        asked = _Question(self, (version, question), self._keep)
        try:
            yield asked
        finally:
            if self.alive:
                asked.cancel()

    def there(self) -> Mapping[str, int]:
        """The workers, and how many threads each has.

        Raises:
            InputError: the scheduler is gone, or does not answer.
        """
        return cast(Mapping[str, int], self._told(self.client.nthreads))

    def _told(self, ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What the scheduler answers."""
        try:
            return ask(*args, **kwargs, callback_timeout=TIMEOUT)
        except TimeoutError as error:  # an OSError, too
            self._lost = True
            raise InputError(f"{self.name}: the scheduler has not answered for {TIMEOUT} s") from error
        except OSError as error:
            raise self.gone() from error

    def gone(self) -> InputError:
        """The error to raise when the scheduler is no more."""
        self._lost = True
        return InputError(f"{self.name}: the scheduler is gone; what was asked last is lost with it")

    def _require_workers(self) -> None:
        begun = time.monotonic()
        while not self.there():
            if time.monotonic() - begun > TIMEOUT:
                raise InputError(f"{self.name} has no workers; start some with `dask worker ADDRESS`")
            time.sleep(_GLANCE)
        here = sys.version_info[:2]
        asked = {"op": "versions", "packages": []}
        found = self._told(self.client.sync, self.client.scheduler.broadcast, msg=asked, on_error="ignore")
        for worker, versions in found.items():  # code is sent, which another Python cannot run
            theirs = versions["host"]["python"].split(".")
            if tuple(map(int, theirs[:2])) != here:
                they, we = ".".join(theirs[:2]), ".".join(map(str, here))
                raise InputError(
                    f"{self.name}, worker {worker} has Python {they}, and this is {we}: they must be equal"
                )


class _Question:
    """See `Question`."""

    def __init__(self, cluster: _Workers, question: tuple[str, bytes], keep: int | None) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._question = question
        self._keep = keep
        self._answer = _sent_as_code()
        self._done: queue.SimpleQueue[Asked] = queue.SimpleQueue()
        self._running: dict[Asked, str] = {}  # by the worker that was asked
        self._workers: Mapping[str, int] = {}
        self._looked = -PATIENCE

    def workers(self) -> Mapping[str, int]:
        """See `Question`."""
        if time.monotonic() - self._looked >= PATIENCE:
            self._workers = {worker: threads + _SPARE for worker, threads in self._cluster.there().items()}
            self._looked = time.monotonic()
        return self._workers

    def ask(self, worker: str, sources: bytes) -> Asked:
        """See `Question`.

        What is asked of a worker that is gone is asked anew by us: Dask forgets about it where, for a moment, there is
        no other one (seen in 2026.8), even if it may take any.
        """
        future: Asked = self._client.submit(
            self._answer,
            *(*self._question, sources, self._keep),
            key=f"kinetoscope-{id(self)}-{time.monotonic_ns()}",
            workers=[worker],
            pure=False,
        )
        self._running[future] = worker
        cast(Any, future).add_done_callback(self._done.put)
        return future

    def finished(self, seconds: float) -> Collection[Asked]:
        """See `Question`."""
        found = []
        with suppress(queue.Empty):
            found.append(self._done.get(timeout=seconds))
            while True:
                found.append(self._done.get_nowait())
        there = self.workers()
        gone = [future for future, worker in self._running.items() if worker not in there]
        return dict.fromkeys(future for future in (*found, *gone) if future in self._running)

    def reply(self, handle: Any) -> Reply:
        """See `Question`."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        worker = self._running.pop(handle)
        try:
            while worker in self.workers():
                if handle.status in ("cancelled", "lost"):
                    raise self._cluster.gone()
                with suppress(TimeoutError):  # the answer is lost if its worker dies before it is fetched
                    return Reply(*handle.result(None if handle.status == "error" else PATIENCE))
        except (CancelledError, CommClosedError) as error:  # cancelled while we waited: the connection was lost
            raise self._cluster.gone() from error
        except KilledWorker as error:  # it was started again at the same address, and died again
            raise DiedError from error
        finally:
            handle.release()
        self._client.cancel([handle], reason="its worker is gone")
        raise DiedError

    def cancel(self) -> None:
        """Give up what is running."""
        if self._running:
            self._client.cancel([*self._running], reason="nobody wants the answer any more")
            self._running.clear()


def _sent_as_code() -> Callable[..., tuple[str, str, bytes]]:
    """What a worker runs. It is sent as code because it stands in a function: so it can say what is missing."""

    def answer(version: str, question: bytes, sources: bytes, keep: int | None) -> tuple[str, str, bytes]:
        import importlib

        from distributed import get_worker

        worker: Any = get_worker()
        try:
            theirs = importlib.import_module("kinetoscope").__version__
        except ImportError:
            return worker.address, "Kinetoscope is not installed there", b""
        if theirs != version:
            return worker.address, f"there Kinetoscope has version {theirs}", b""
        from kinetoscope.engines.worker import answered, memory_of_this_machine

        memory = keep or worker.memory_manager.memory_limit or memory_of_this_machine()
        return worker.address, "", answered(question, sources, memory)

    return answer


def _connected(distributed: Any, address: str | None, jobs: int) -> tuple[Any, Callable[[float], None]]:
    """A client, and what ends the connection within so many seconds, and the cluster if it is ours."""
    if address is None:
        with suppress(ValueError):  # there is no client yet
            return distributed.default_client(), lambda _: None
        cluster = distributed.LocalCluster(
            n_workers=jobs, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        client = distributed.Client(cluster)
        return client, partial(_closed, client, cluster)
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        if "scheduler_file" in where and not Path(address).is_file():
            raise FileNotFoundError(address)  # Dask would wait for it
        _await_listener(address)
        client = _within(TIMEOUT, partial(distributed.Client, **where, timeout=TIMEOUT, set_as_default=False))
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}; start one with `dask scheduler`, whose address it prints"
        ) from error
    return client, client.close


def _await_listener(address: str) -> None:
    """Return when something takes connections there, or if that cannot be told from here.

    Raises:
        OSError: nothing does; Dask itself would go on trying for as long as a scheduler may take to answer.
    """
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or not parts.port:
        return
    end = time.monotonic() + LISTENING
    while True:
        try:
            socket.create_connection((parts.hostname, parts.port), LISTENING).close()
            return
        except OSError:
            if time.monotonic() + _AGAIN > end:
                raise
        time.sleep(_AGAIN)


def _within(seconds: float, connect: Callable[[], Any]) -> Any:
    """What it gives. Dask waits for ever where something takes the connection and says nothing (2026.8)."""
    found: Future[Any] = Future()

    def work() -> None:
        try:
            found.set_result(connect())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            found.set_exception(error)

    threading.Thread(target=work, name="kinetoscope-dask", daemon=True).start()
    return found.result(seconds + _LEAVE)


def _closed(client: Any, cluster: Any, seconds: float) -> None:
    try:
        client.close(seconds)
    finally:
        cluster.close(seconds)
