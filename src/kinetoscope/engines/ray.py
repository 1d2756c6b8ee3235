"""Workers of a Ray cluster: an actor for each free CPU, which keeps the traces that it read.

The actors hold their CPUs until the engine is closed. Ray itself listens on all network addresses of a machine.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final

from kinetoscope.engines.cluster import Cluster, DiedError, Reply, WorkerRequest, shared, worker_program
from kinetoscope.engines.worker import Files
from kinetoscope.errors import InputError, MissingExtraError

RANKS_PER_ACTOR: Final = 2
"""Ranks that an actor is given: one to work on, and one so that it never waits for the next."""

TIMEOUT_S: Final = 10
"""Seconds for the address to answer."""

_TOKEN_HINT: Final = "; if the cluster was started with RAY_AUTH_MODE=token, set that and its RAY_AUTH_TOKEN here, too"


def engine(
    files: Files, *, address: str | None, jobs: int, ranks: int, progress: Callable[[int], None] | None
) -> Cluster:
    """See `EngineMaker`. The address is `host:6379`, `ray://host:10001` or `auto`."""
    return Cluster(files, shared(("ray", address), lambda: _RayActors(address, min(jobs, ranks))), progress)


class _RayActors:
    """See `Actors`."""

    def __init__(self, address: str | None, jobs: int) -> None:
        try:
            import ray as module
        except ImportError as error:
            raise MissingExtraError("engine 'ray'", "ray") from error
        ray: Any = module
        self.cloudpickle: Any = ray.cloudpickle
        self.name = f"Ray at {address}" if address else "Ray on this machine"
        self.users: set[int] = set()
        self._ray = ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(ray, address, jobs)
        self._actor_class = _actor_class(ray)
        self._actors: dict[str, Any] = {}
        self._starting: dict[Future[Any], str] = {}
        self._references: dict[Future[Any], Any] = {}
        self._count = 0
        while len(self._actors) < max(1, int(ray.cluster_resources().get("CPU", 1))):
            self._start()

    @property
    def alive(self) -> bool:
        """See `Actors`."""
        return bool(self._ray.is_initialized())

    def capacity(self) -> Mapping[str, int]:
        """See `Actors`. An actor that died before it was ready is replaced."""
        for future in [each for each in self._starting if each.done()]:
            name = self._starting.pop(future)
            try:
                future.result()
            except self._ray.exceptions.RayActorError:
                self._replace(name)
        starting = set(self._starting.values())
        return {name: RANKS_PER_ACTOR for name in self._actors if name not in starting}

    def ask(self, worker: str, request: WorkerRequest) -> Future[Any]:
        """See `Actors`."""
        reference = self._actors[worker].ask.remote(*request)
        future: Future[Any] = reference.future()
        self._references[future] = reference
        return future

    def reply(self, future: Future[Any], worker: str) -> Reply:
        """See `Actors`."""
        del self._references[future]
        try:
            return Reply(*future.result())
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError) as error:
            self._replace(worker)
            raise DiedError from error
        except self._ray.exceptions.RayTaskError as error:  # what the question raised, wrapped
            raise error.cause from error

    def cancel(self, futures: Collection[Future[Any]]) -> None:
        """See `Actors`; an actor ends what it has begun."""
        for future in futures:
            self._ray.cancel(self._references.pop(future), recursive=False)

    def close(self) -> None:
        """See `Actors`."""
        if not self.alive:
            return
        for actor in self._actors.values():
            self._ray.kill(actor)
        if self._is_ours:
            self._ray.shutdown()

    def _start(self) -> None:
        """One actor more; it is ready when there is a CPU for it."""
        name = f"actor {self._count}"
        self._count += 1
        self._actors[name] = self._actor_class.remote()
        self._starting[self._actors[name].ready.remote().future()] = name

    def _replace(self, name: str) -> None:
        """An actor died: another comes, perhaps elsewhere."""
        if self._actors.pop(name, None) is not None:
            self._start()


def _actor_class(ray: Any) -> Any:
    """The actor. It is sent as code because it stands in a function."""
    program = worker_program()

    class RankReader:
        def ready(self) -> None:
            """Answers when the actor is ready."""

        def ask(self, version: str, question: bytes, sources: bytes) -> tuple[str, bytes]:
            return program(version, question, sources, 0)

    return ray.remote(num_cpus=1, max_restarts=0)(RankReader)


def _connect(ray: Any, address: str | None, jobs: int) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address is None:
        options |= {"num_cpus": jobs, "include_dashboard": False}
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    hint = ""
    try:
        if colon and port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S).close()
            hint = _TOKEN_HINT
        ray.init(address=address or "local", **options)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"no Ray cluster answers at {address} from Python {sys.version_info[0]}.{sys.version_info[1]} and Ray"
            f" {ray.__version__}: {reason}{hint}"
        ) from error
