"""The daemon that a job asks for work when it was started with KINETO_USE_DAEMON=1: no line of the job changes.

Kineto, the recorder inside torch, sends datagrams to the abstract Unix socket `dynolog`, one every five seconds or so,
and does what the answer says. A datagram is a header (the length of what follows, and a word of 32 bytes) and

    req     what kind of work it would take (2: recordings), how many process numbers follow, the number of the job, and
            the process with its ancestors. The answer is text: lines of KEY=VALUE, or nothing.
    ctxt    a device, a process, a job: it introduces itself. The answer is a number.

Such a recording knows less than ours: no allocations, no steps, no ranks unless NCCL is used. Linux only. Imports
nothing but the standard library; torch is in the other process.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kinetoscope.errors import InputError
from kinetoscope.record.output.leftovers import is_alive

_ADDRESS: Final = "\0dynolog\0"
_DIRECTORY: Final = "KINETO_IPC_SOCKET_DIR"
_HEADER: Final = struct.Struct("=Q32s")
_REQUEST: Final = struct.Struct("=iiq")
_CREDENTIALS: Final = struct.Struct("=iII")
_RECORDING_KIND: Final = 2
_MAX_DATAGRAM_BYTES: Final = 1 << 16


@dataclass(frozen=True, kw_only=True)
class RecordingOrder:
    """An order to a job to record.

    Attributes:
        steps: iterations, counted by the steps of optimizers, at least: Kineto checks now and then only, so that quick
            ones become more. 0 for a time instead.
        milliseconds: of time, where `steps` is 0.
        roundup: begin at a multiple of so many iterations: the same for all ranks, unless one passes while they ask.
        record_shapes, with_stack: as torch.profiler's.
    """

    steps: int = 3
    milliseconds: int = 1000
    roundup: int = 1
    record_shapes: bool = True
    with_stack: bool = False

    def text(self, file: Path) -> str:
        """In Kineto's words, with the file that the trace goes to."""
        lines = [f"ACTIVITIES_LOG_FILE={file}"]
        if self.steps:
            lines += ["PROFILE_START_ITERATION=0", f"PROFILE_START_ITERATION_ROUNDUP={self.roundup}"]
            lines += [f"ACTIVITIES_ITERATIONS={self.steps}"]
        else:
            lines += ["PROFILE_START_TIME=0", f"ACTIVITIES_DURATION_MSECS={self.milliseconds}"]
        lines += [f"PROFILE_REPORT_INPUT_SHAPES={str(self.record_shapes).lower()}"]
        lines += [f"PROFILE_WITH_STACK={str(self.with_stack).lower()}"]
        return "\n".join([*lines, ""])


@dataclass
class Daemon:
    """Answers the jobs of this user on this machine.

    Attributes:
        folder: where traces go.
        seen: processes that asked, with the time of their last word.
    """

    folder: Path
    seen: dict[int, float] = field(default_factory=dict)
    _orders: dict[int, RecordingOrder] = field(default_factory=dict)
    _waiting: dict[int, Path] = field(default_factory=dict)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hold the socket.

        Raises:
            InputError: someone else holds it, or there are no such sockets here.
        """
        if not hasattr(socket, "SO_PASSCRED"):
            raise InputError("the daemon needs Linux; `kinetoscope record --idle` records on demand anywhere")
        directory = os.environ.get(_DIRECTORY)
        address = str(Path(directory) / "dynolog") if directory else _ADDRESS
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            try:
                channel.bind(address)
            except OSError as error:
                raise InputError(
                    f"another daemon, dynolog perhaps, answers on this machine ({error.strerror}); stop it first"
                ) from error
            self._channel = channel
            try:
                yield
            finally:
                if directory:
                    with contextlib.suppress(OSError):
                        Path(address).unlink()

    def order(self, process: int, order: RecordingOrder) -> None:
        """Let this process record when it asks next."""
        self._orders[process] = order

    def serve(self, seconds: float) -> None:
        """Answer what comes within this time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._channel.settimeout(left)
            try:
                datagram, extra, _, sender = self._channel.recvmsg(
                    _MAX_DATAGRAM_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
            except TimeoutError:
                return
            process, user = _who(extra)
            if user != os.getuid() or not sender:
                continue
            answer = self._answer(process, datagram)
            if answer is not None:
                with contextlib.suppress(OSError):  # it has gone, or does not listen
                    self._channel.sendto(answer, sender)

    def _answer(self, process: int, datagram: bytes) -> bytes | None:
        if len(datagram) < _HEADER.size:
            return None
        word = _HEADER.unpack_from(datagram)[1]
        kind, body = word.rstrip(b"\0"), datagram[_HEADER.size :]
        if kind == b"ctxt":
            self.seen.setdefault(process, time.time())
            return _HEADER.pack(4, word) + struct.pack("=i", len(self.seen))
        if kind != b"req" or len(body) < _REQUEST.size:
            return None
        self.seen[process] = time.time()
        text = self._work(process) if _REQUEST.unpack_from(body)[0] & _RECORDING_KIND else ""
        return _HEADER.pack(len(text), word) + text.encode("ascii", "replace")

    def _work(self, process: int) -> str:
        order = self._orders.pop(process, None)
        if order is None:
            return ""
        file = self.folder.absolute() / f".ordered-{time.time_ns()}.json"
        self._waiting[process] = file.with_name(f"{file.stem}_{process}.json")  # so Kineto names it
        return order.text(file)

    def arrived(self) -> Iterator[Path]:
        """Traces that are there now, under their final names."""
        for process, file in list(self._waiting.items()):
            if file.exists():
                del self._waiting[process]
                yield _filed(file, self.folder, process)

    def gone(self) -> list[int]:
        """Processes that were ordered to record, and ended without a trace."""
        gone = [process for process in [*self._waiting, *self._orders] if not is_alive(process)]
        for process in gone:
            self._waiting.pop(process, None)
            self._orders.pop(process, None)
        return gone

    @property
    def busy(self) -> bool:
        """True if a recording is ordered or under way."""
        return bool(self._orders or self._waiting)


def _who(extra: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    """Process and user that a datagram comes from, as the kernel says; −1 where it does not."""
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            process, user, _ = _CREDENTIALS.unpack_from(data)
            return process, user
    return -1, -1


def _filed(file: Path, folder: Path, process: int) -> Path:
    """Compress a trace, and name it as ours are named: with host, process, rank and time."""
    rank, world = rank_of(process)
    name = f"{socket.gethostname()}_{process}.rank{rank}of{world}.{time.time_ns()}.pt.trace.json.gz"
    part = folder / f".{name}.part"
    with file.open("rb") as source, gzip.open(part, "wb", compresslevel=1) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    file.unlink()
    return part.replace(folder / name)


def rank_of(process: int) -> tuple[int, int]:
    """Rank and world of a process that torchrun started; 0 and 1 where it did not."""
    given = environment_of(process)

    def number(name: str, otherwise: int) -> int:
        text = given.get(name, "")
        return int(text) if text.isdecimal() else otherwise

    return number("RANK", 0), number("WORLD_SIZE", 1)


# --- other processes of this machine, as /proc shows them


def environment_of(process: int) -> dict[str, str]:
    """The variables that a process was started with; empty where we may not know."""
    try:
        text = Path(f"/proc/{process}/environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return {}
    return dict(each.split("=", 1) for each in text.split("\0") if "=" in each)


def descendants(process: int) -> Iterator[int]:
    """A process and all that it started, the nearest first."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for each in Path("/proc").iterdir():
            if each.name.isdecimal() and (parent := _parent_of(each)) is not None:
                children.setdefault(parent, []).append(int(each.name))
    queue = [process]
    for one in queue:
        yield one
        queue.extend(sorted(children.get(one, ())))


def _parent_of(folder: Path) -> int | None:
    try:
        after_name = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(after_name[1])
    except (OSError, ValueError, IndexError):
        return None
