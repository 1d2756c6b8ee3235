"""Workers of a Ray cluster: an actor for each free CPU, which keeps the traces that it read.

The actors hold their CPUs until the engine is closed. Ray itself listens on all network addresses of a machine.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kinetoscope.engines.cluster import Cluster, DiedError, Question, Reply, shared
from kinetoscope.engines.worker import Files
from kinetoscope.errors import InputError, MissingExtraError

AT_ONCE: Final = 2
"""Ranks that an actor is given: one to work on, and one so that it never waits for the next."""


def engine(
    files: Files, *, address: str | None, jobs: int, keep: int | None = None, progress: Callable[[int], None] | None
) -> Cluster:
    """The engine.

    Args:
        files: how files are read.
        address: of the cluster: `host:6379`, `ray://host:10001`, `auto`. Without: the one that this process is
            connected to, else a Ray of our own on this machine with `jobs` CPUs.
        jobs: how many.
        keep: bytes of memory of each actor, of which a part is for traces that it keeps; by default a machine's memory
            by its CPUs.
        progress: told how many more bytes have been read.

    Raises:
        MissingExtraError: Ray is not installed.
        InputError: no cluster answers, or it is of another version.
    """
    workers = shared(("ray", address, keep), lambda: _Workers(address, jobs, keep))
    return Cluster(files, workers, progress)


TIMEOUT: Final = 10
"""Seconds for the address to answer."""


_TOKEN: Final = "; if the cluster was started with RAY_AUTH_MODE=token, set that and its RAY_AUTH_TOKEN here, too"


class _Workers:
    """See `Workers`."""

    def __init__(self, address: str | None, jobs: int, keep: int | None) -> None:
        try:
            import ray as module
        except ImportError as error:
            raise MissingExtraError("engine 'ray'", "ray") from error
        ray: Any = module
        self.cloudpickle: Any = ray.cloudpickle
        self.name = f"Ray at {address}" if address else "Ray on this machine"
        ours = not ray.is_initialized()
        if ours:
            _connect(ray, address, jobs)
        self._ray: Any = ray
        self._keep = keep
        self._actor = _sent_as_code(ray)
        self._actors: dict[str, Any] = {}
        self._coming: dict[Any, str] = {}  # by what is there when the actor is
        self._ours = ours
        self.users: set[int] = set()
        self._count = 0
        while len(self._actors) < max(1, int(ray.cluster_resources().get("CPU", 1))):
            self._begin()

    @property
    def alive(self) -> bool:
        """See `Workers`."""
        return bool(self._ray.is_initialized())

    def close(self) -> None:
        """See `Workers`."""
        if not self.alive:
            return
        for actor in self._actors.values():
            self._ray.kill(actor)
        if self._ours:
            self._ray.shutdown()

    @contextmanager
    def question(self, question: bytes, version: str) -> Iterator[Question]:
        """See `Workers`."""
        asked = _Question(self, (version, question))
        try:
            yield asked
        finally:
            asked.cancel()

    def _begin(self) -> None:
        """An actor more; it comes when there is a CPU for it."""
        name = f"actor {self._count}"
        self._count += 1
        self._actors[name] = self._actor.remote(name, self._keep)
        self._coming[self._actors[name].there.remote()] = name

    def there(self) -> list[str]:
        """The actors that are ready. One that died before it was is replaced."""
        ready, _ = (
            self._ray.wait([*self._coming], num_returns=len(self._coming), timeout=0) if self._coming else ([], 0)
        )
        for each in ready:
            name = self._coming.pop(each)
            try:
                self._ray.get(each)
            except self._ray.exceptions.RayActorError:
                self.replace(name)
        coming = set(self._coming.values())
        return [name for name in self._actors if name not in coming]

    def replace(self, name: str) -> None:
        """An actor died: another comes, perhaps elsewhere."""
        if self._actors.pop(name, None) is not None:
            self._begin()

    def wait(self, references: list[Any], seconds: float) -> list[Any]:
        """Those of the references that have come; also returns when an actor has."""
        everything = [*references, *self._coming]
        if not everything:
            return []
        ready, _ = self._ray.wait(everything, num_returns=1, timeout=seconds)
        if ready:
            ready, _ = self._ray.wait(everything, num_returns=len(everything), timeout=0)
        return [each for each in ready if each not in self._coming]

    def ask(self, name: str, question: tuple[str, bytes], sources: bytes) -> Any:
        """Ask an actor."""
        return self._actors[name].ask.remote(*question, sources)

    def get(self, reference: Any, name: str) -> Reply:
        """What came back from the actor.

        Raises:
            DiedError: it died.
        """
        try:
            return Reply(*self._ray.get(reference))
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError) as error:
            self.replace(name)
            raise DiedError from error
        except self._ray.exceptions.RayTaskError as error:  # what the question raised, wrapped
            raise error.cause from error

    def forget(self, reference: Any) -> None:
        """Nobody wants the answer."""
        self._ray.cancel(reference, recursive=False)


class _Question:
    """See `Question`."""

    def __init__(self, workers: _Workers, question: tuple[str, bytes]) -> None:
        self._workers = workers
        self._question = question
        self._running: dict[Any, str] = {}

    def workers(self) -> Mapping[str, int]:
        """See `Question`."""
        return dict.fromkeys(self._workers.there(), AT_ONCE)

    def ask(self, worker: str, sources: bytes) -> Hashable:
        """See `Question`."""
        reference = self._workers.ask(worker, self._question, sources)
        self._running[reference] = worker
        return reference  # type: ignore[no-any-return]

    def finished(self, seconds: float) -> Collection[Hashable]:
        """See `Question`."""
        return self._workers.wait([*self._running], seconds)

    def reply(self, handle: Hashable) -> Reply:
        """See `Question`."""
        return self._workers.get(handle, self._running.pop(handle))

    def cancel(self) -> None:
        """Give up what is running; an actor ends what it has begun."""
        for reference in self._running:
            self._workers.forget(reference)
        self._running.clear()


def _sent_as_code(ray: Any) -> Any:
    """The actor. It is sent as code because it stands in a function: so it can say that something is missing."""

    class Reader:
        def __init__(self, name: str, keep: int | None) -> None:
            self.name = name
            self.keep = keep

        def there(self) -> None:
            """Answers when the actor is ready."""

        def ask(self, version: str, question: bytes, sources: bytes) -> tuple[str, str, bytes]:
            import importlib
            import os

            try:
                theirs = importlib.import_module("kinetoscope").__version__
            except ImportError:
                return self.name, "Kinetoscope is not installed there", b""
            if theirs != version:
                return self.name, f"there Kinetoscope has version {theirs}", b""
            from kinetoscope.engines.worker import answered, memory_of_this_machine

            memory = self.keep or memory_of_this_machine() // (os.cpu_count() or 1)
            return self.name, "", answered(question, sources, memory)

    return ray.remote(num_cpus=1, max_restarts=0)(Reader)


def _connect(ray: Any, address: str | None, jobs: int) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}
    if address is None:
        options |= {"num_cpus": jobs, "include_dashboard": False}
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    hint = ""
    try:
        if colon and port.isdecimal():  # Ray itself would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()
            hint = _TOKEN
        ray.init(address=address or "local", **options)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"no Ray cluster answers at {address} from Python {sys.version_info[0]}.{sys.version_info[1]} and Ray"
            f" {ray.__version__}: {reason}{hint}"
        ) from error
