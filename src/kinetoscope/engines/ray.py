"""Workers of a Ray cluster: an actor for each free CPU, which keeps the traces that it read.

The actors hold their CPUs until the engine is closed. Ray itself listens on all network addresses of a machine.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from kinetoscope.engines.cluster import Cluster, DiedError, Reply, WorkerRequest, shared, worker_program
from kinetoscope.engines.worker import Files
from kinetoscope.errors import InputError, MissingExtraError

RANKS_PER_ACTOR: Final = 2
"""Ranks that an actor is given: one to work on, and one so that it never waits for the next."""

TIMEOUT_S: Final = 5
"""Seconds for the address to take a connection, and for a cluster to answer there."""

_TOKENS: Final = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_TOKEN_FILE: Final = Path(".ray", "auth_token")
_REFUSED: Final = "AuthenticationError"

_PROBE: Final = """\
import sys
import ray
from ray._raylet import GcsClient
address = sys.argv[1]
print("imported", flush=True)
try:
    if address.startswith("ray://"):
        ray.init(address, logging_level="critical", log_to_driver=False)
    else:
        GcsClient(address=address)
except BaseException as error:
    refused = "Unauthenticated" in str(error) or "AuthToken" in str(error)
    sys.exit(f"\\n{'AuthenticationError' if refused else type(error).__name__}: {str(error) or 'no reason'}")
"""
"""Asks for the cluster in a process of its own: Ray itself tries for up to a minute, and prints what its core logs."""


def engine(
    files: Files, *, address: str | None, jobs: int, ranks: int, progress: Callable[[int], None] | None
) -> Cluster:
    """See `EngineMaker`. The address is `host:6379`, `ray://host:10001` or `auto`."""
    return Cluster(files, shared(("ray", address), lambda: _RayActors(address, min(jobs, ranks))), progress)


class _RayActors:
    """See `Actors`."""

    def __init__(self, address: str | None, jobs: int) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("engine 'ray'", "ray")
        loaded: Any = sys.modules.get("ray")
        if address is not None and not (loaded and loaded.is_initialized()):
            _require_cluster(address)  # before Ray is imported: it looks for tokens only then
        import ray as module

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
    try:
        ray.init(address=address or "local", **options)
    except (OSError, ValueError, RuntimeError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str | None, reason: object) -> InputError:
    first = next(iter(str(reason).splitlines()), "")
    versions = f"Python {sys.version_info[0]}.{sys.version_info[1]} and Ray {metadata.version('ray')}"
    return InputError(f"no Ray cluster answers at {address} from {versions}: {first}")


def _require_cluster(address: str) -> None:
    """See that a cluster answers, with the token that it wants: that of this machine is used where it wants one.

    Raises:
        InputError: none answers, or it wants another token.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():  # such as `auto`: Ray knows where
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error
    has_token = any(map(os.environ.get, _TOKENS)) or (Path.home() / _TOKEN_FILE).is_file()
    if os.environ.get("RAY_AUTH_MODE") == "token" and not has_token:
        raise InputError("RAY_AUTH_MODE is token, and there is none: set RAY_AUTH_TOKEN to that of the Ray cluster")
    wrong = _probed(address)
    is_unasked = has_token and "RAY_AUTH_MODE" not in os.environ
    if wrong.startswith(_REFUSED) and is_unasked and "ray" not in sys.modules:
        os.environ["RAY_AUTH_MODE"] = "token"
        wrong = _probed(address)
    if wrong.startswith(_REFUSED):
        hint = (
            "refuses the token of this machine: set RAY_AUTH_TOKEN to the one that it was started with"
            if has_token and "RAY_AUTH_MODE" in os.environ
            else "wants a token: set RAY_AUTH_MODE=token and the RAY_AUTH_TOKEN that it was started with"
        )
        raise InputError(f"the Ray cluster at {address} {hint}")
    if wrong:
        raise _no_cluster(address, wrong)


def _probed(address: str) -> str:
    """What is wrong with a cluster: the kind of error and its words; "" where it answers."""
    paths = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-c", _PROBE, address],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        if process.stdout is not None:
            process.stdout.readline()  # what it takes to import Ray is not the cluster's fault
        try:
            _, logged = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"it has not answered for {TIMEOUT_S} s"
    lines = [line for line in logged.splitlines() if re.match(r"\w+: ", line)]
    return "" if not process.returncode else lines[-1] if lines else "Ray cannot be started here"
