"""Workers of a Dask cluster: one that runs somewhere, or as many processes as there are cores here.

The scheduler needs no Kinetoscope: what it sees are bytes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from kinetoscope.engines.cluster import POLL_S, Cluster, DiedError, Reply, WorkerRequest, shared, worker_program
from kinetoscope.engines.worker import Files
from kinetoscope.errors import InputError, MissingExtraError

TIMEOUT_S: Final = 30
"""Seconds for a scheduler to answer, each time, and at first for a worker to be there."""

CONNECT_S: Final = 5
"""Seconds for a scheduler to take the connection and to answer: it may be on its way up."""

_LEAVING_S: Final = 5
"""Seconds to say good-bye to a scheduler that does not answer."""

_CAPACITY_AGE_S: Final = 1.0
"""Seconds for which the answer of the scheduler which workers there are is good."""

_SPARE_RANKS: Final = 1
"""Ranks beyond its threads that a worker is given, so that it never waits for the next."""


def engine(
    files: Files, *, address: str | None, jobs: int, ranks: int, progress: Callable[[int], None] | None
) -> Cluster:
    """See `EngineMaker`. The address is that of the scheduler, or the file that it wrote that into."""
    return Cluster(files, shared(("dask", address), lambda: _DaskWorkers(address, min(jobs, ranks))), progress)


class _DaskWorkers:
    """See `Actors`."""

    def __init__(self, address: str | None, jobs: int) -> None:
        try:
            import cloudpickle
            import distributed
        except ImportError as error:
            raise MissingExtraError("engine 'dask'", "dask") from error
        self.cloudpickle: Any = cloudpickle
        self.client: Any
        self.client, self._close = _connected(distributed, address, jobs)
        self.name = f"Dask at {self.client.scheduler.address if self.client.scheduler else address}"
        self.users: set[int] = set()
        self._lost = False
        self._program = _on_a_worker(worker_program())
        self._tasks: dict[Future[Any], Any] = {}  # Dask's futures
        self._capacity: Mapping[str, int] = {}
        self._capacity_time = -_CAPACITY_AGE_S
        try:
            self._require_workers()
        except InputError:
            self.close()
            raise

    @property
    def alive(self) -> bool:
        """See `Actors`."""
        return bool(self.client.status == "running") and not self._lost

    def capacity(self) -> Mapping[str, int]:
        """See `Actors`.

        Raises:
            InputError: the scheduler is gone, or does not answer.
        """
        if time.monotonic() - self._capacity_time >= _CAPACITY_AGE_S:
            threads: Mapping[str, int] = self._from_scheduler(self.client.nthreads)
            self._capacity = {worker: count + _SPARE_RANKS for worker, count in threads.items()}
            self._capacity_time = time.monotonic()
        return self._capacity

    def ask(self, worker: str, request: WorkerRequest) -> Future[Any]:
        """See `Actors`.

        What is asked of a worker that is gone is asked anew by us: Dask forgets about it where, for a moment, there is
        no other one (seen in 2026.8), even if it may take any.
        """
        task = self.client.submit(
            self._program,
            *request,
            key=f"kinetoscope-{id(self)}-{time.monotonic_ns()}",
            workers=[worker],
            pure=False,
        )
        future: Future[Any] = Future()
        self._tasks[future] = task
        task.add_done_callback(future.set_result)
        return future

    def reply(self, future: Future[Any], worker: str) -> Reply:
        """See `Actors`."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm.core import CommClosedError

        task = self._tasks.pop(future)
        try:
            while worker in self.capacity():
                if task.status in ("cancelled", "lost"):
                    raise self._gone()
                with suppress(TimeoutError):  # the answer is lost if its worker dies before it is fetched
                    return Reply(*task.result(None if task.status == "error" else _CAPACITY_AGE_S))
        except (CancelledError, CommClosedError) as error:  # cancelled while we waited: the connection was lost
            raise self._gone() from error
        except KilledWorker as error:  # it was started again at the same address, and died again
            raise DiedError from error
        finally:
            task.release()
        self.client.cancel([task], reason="its worker is gone")
        raise DiedError

    def cancel(self, futures: Collection[Future[Any]]) -> None:
        """See `Actors`."""
        if tasks := [self._tasks.pop(future) for future in futures]:
            self.client.cancel(tasks, reason="nobody wants the answer any more")

    def close(self) -> None:
        """See `Actors`."""
        with suppress(TimeoutError):
            self._close(_LEAVING_S if self._lost else 2 * TIMEOUT_S)

    def _from_scheduler(self, ask: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The answer of the scheduler."""
        try:
            return ask(*args, **kwargs, callback_timeout=TIMEOUT_S)
        except TimeoutError as error:  # an OSError, too
            self._lost = True
            raise InputError(f"{self.name}: the scheduler has not answered for {TIMEOUT_S} s") from error
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> InputError:
        """The error to raise when the scheduler is no more."""
        self._lost = True
        return InputError(f"{self.name}: the scheduler is gone; what was asked last is lost with it")

    def _require_workers(self) -> None:
        """Wait for one, and see that all have our Python: code is sent, which another one cannot run."""
        begin = time.monotonic()
        while not self._from_scheduler(self.client.nthreads):
            if time.monotonic() - begin > TIMEOUT_S:
                raise InputError(f"{self.name} has no workers; start some with `dask worker ADDRESS`")
            time.sleep(POLL_S)
        message = {"op": "versions", "packages": []}
        versions = self._from_scheduler(
            self.client.sync, self.client.scheduler.broadcast, msg=message, on_error="ignore"
        )
        ours = ".".join(map(str, sys.version_info[:2]))
        for worker, version in versions.items():
            theirs = ".".join(version["host"]["python"].split(".")[:2])
            if theirs != ours:
                raise InputError(
                    f"{self.name}, worker {worker} has Python {theirs}, and this is {ours}: they must be equal"
                )


def _on_a_worker(program: Callable[..., tuple[str, bytes]]) -> Callable[..., tuple[str, bytes]]:
    """The program with the memory of the worker that runs it; sent as code, too."""

    def run(version: str, question: bytes, sources: bytes) -> tuple[str, bytes]:
        from distributed import get_worker

        worker: Any = get_worker()
        return program(version, question, sources, worker.memory_manager.memory_limit or 0)

    return run


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
    try:
        if address.endswith(".json"):
            address = str(json.loads(Path(address).read_text())["address"])
        _within(CONNECT_S, partial(_greet, distributed, address))
        client = distributed.Client(address, timeout=TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, KeyError, TypeError, MemoryError) as error:  # another protocol's bytes as a length
        raise InputError(
            f"no Dask scheduler answers at {address}; start one with `dask scheduler`, whose address it prints"
        ) from error
    return client, client.close


def _greet(distributed: Any, address: str) -> None:
    """Exchange greetings with a scheduler, and leave: a Client would wait for longer, and in vain at its end, too."""

    async def greet() -> None:
        security = distributed.Security()
        comm = await distributed.comm.connect(
            distributed.core.coerce_to_address(address),
            timeout=CONNECT_S,
            **security.get_connection_args("client"),
        )
        comm.abort()

    asyncio.run(greet())


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Do `work` in a thread, as a loop of events may run in this one.

    Raises:
        TimeoutError: it takes longer.
    """
    result: Future[None] = Future()

    def run() -> None:
        try:
            work()
            result.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            result.set_exception(error)

    threading.Thread(target=run, name="kinetoscope-dask", daemon=True).start()
    result.result(seconds + 1)


def _closed(client: Any, cluster: Any, seconds: float) -> None:
    try:
        client.close(seconds)
    finally:
        cluster.close(seconds)
