"""Workers of a Dask cluster: one that runs somewhere, or as many processes as there are cores here.

The scheduler needs no Kinetoscope: what it sees are bytes.
"""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from kinetoscope.engines.cluster import PATIENCE, Cluster, DiedError, Question, Reply, shared
from kinetoscope.engines.worker import Files
from kinetoscope.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from distributed import Future as AnyFuture

    Future = AnyFuture[Any]

TIMEOUT: Final = 30
"""Seconds for a scheduler to answer, and then for a first worker to be there."""

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
        self.users: set[int] = set()
        try:
            _require_workers(self.client, self.name)
        except InputError:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """See `Workers`."""
        return bool(self.client.status == "running")

    def close(self) -> None:
        """See `Workers`."""
        self._close()

    @contextmanager
    def question(self, question: bytes, version: str) -> Iterator[Question]:
        """See `Workers`."""
        asked = _Question(self.client, self.name, (version, question), self._keep)
        try:
            yield asked
        finally:
            asked.cancel()


class _Question:
    """See `Question`."""

    def __init__(self, client: Any, name: str, question: tuple[str, bytes], keep: int | None) -> None:
        self._client = client
        self._name = name
        self._question = question
        self._keep = keep
        self._answer = _sent_as_code()
        self._done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        self._running: dict[Future, str] = {}  # by the worker that was asked
        self._workers: Mapping[str, int] = {}
        self._looked = -PATIENCE

    def workers(self) -> Mapping[str, int]:
        """See `Question`."""
        if time.monotonic() - self._looked >= PATIENCE:
            self._workers = {worker: threads + _SPARE for worker, threads in _there(self._client, self._name).items()}
            self._looked = time.monotonic()
        return self._workers

    def ask(self, worker: str, sources: bytes) -> Future:
        """See `Question`.

        What is asked of a worker that is gone is asked anew by us: Dask forgets about it where, for a moment, there is
        no other one (seen in 2026.8), even if it may take any.
        """
        future: Future = self._client.submit(
            self._answer,
            *(*self._question, sources, self._keep),
            key=f"kinetoscope-{id(self)}-{time.monotonic_ns()}",
            workers=[worker],
            pure=False,
        )
        self._running[future] = worker
        cast(Any, future).add_done_callback(self._done.put)
        return future

    def finished(self, seconds: float) -> Collection[Future]:
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
        from distributed import KilledWorker

        worker = self._running.pop(handle)
        try:
            while worker in self.workers():
                if handle.status in ("cancelled", "lost"):
                    raise InputError(f"{self._name}: the scheduler is gone; what was asked last is lost with it")
                with suppress(TimeoutError):  # the answer is lost if its worker dies before it is fetched
                    return Reply(*handle.result(None if handle.status == "error" else PATIENCE))
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


def _connected(distributed: Any, address: str | None, jobs: int) -> tuple[Any, Callable[[], None]]:
    """A client, and what ends the connection, and the cluster if it is ours."""
    if address is None:
        with suppress(ValueError):  # there is no client yet
            return distributed.default_client(), lambda: None
        cluster = distributed.LocalCluster(
            n_workers=jobs, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        client = distributed.Client(cluster)
        return client, lambda: _close(client, cluster)
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    try:
        if "scheduler_file" in where and not Path(address).is_file():
            raise FileNotFoundError(address)  # Dask would wait for it
        client = distributed.Client(**where, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}; start one with `dask scheduler`, whose address it prints"
        ) from error
    return client, lambda: _close(client)


def _close(*parts: Any) -> None:
    for part in parts:
        part.close()


def _require_workers(client: Any, name: str) -> None:
    try:
        client.wait_for_workers(1, timeout=TIMEOUT)
    except TimeoutError as error:
        raise InputError(f"{name} has no workers; start some with `dask worker ADDRESS`") from error
    here = sys.version_info[:2]
    # Code is sent, which another Python cannot run.
    for worker, versions in client.get_versions()["workers"].items():
        theirs = versions["host"]["python"].split(".")
        if tuple(map(int, theirs[:2])) != here:
            they, we = ".".join(theirs[:2]), ".".join(map(str, here))
            raise InputError(f"{name}, worker {worker} has Python {they}, and this is {we}: they must be equal")


def _there(client: Any, name: str) -> Mapping[str, int]:
    try:
        return cast(Mapping[str, int], client.nthreads())
    except OSError as error:
        raise InputError(f"{name}: the scheduler is gone") from error
