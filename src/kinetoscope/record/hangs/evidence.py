"""The files that a rank writes about itself when it hangs, is asked to, or ends badly.

    stacks_rank_3.txt      the Python stacks of all threads, as `faulthandler` writes them
    note_rank_3.txt        who, when, why, at which step, and the process groups
    nccl_trace_rank_3      torch's Flight Recorder of NCCL; fr_trace_rank_3 that of gloo

The notes are JSON, but not named so: in a folder of a run that is what traces are. Each appears whole or not at all; a
later one replaces it. The stacks come first, which need nothing of torch; then the dump without stacks of the calls,
and in its place the one with them, should that one never come to an end.
"""

from __future__ import annotations

import contextlib
import faulthandler
import linecache
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.output.guards import described
from kinetoscope.record.session.options import RankIdentity

FOLDER: Final = "hang"
"""The folder of a run that these files are in; that of the second restart of its ranks is `hang-2`."""

LATE_FOLDER: Final = "late"
"""The folder for files of steps that took much too long, but ended."""

ASKED_FOLDER: Final = "asked"
"""The folder for files that `kinetoscope trigger` asked for, once the program has ended well."""

STACKS, NOTE, EXIT = "stacks_rank_{}.txt", "note_rank_{}.txt", "exit_rank_{}.txt"

OF_RANK: Final = re.compile(r"\w*_rank_(\d{1,9})(?:\.txt)?")
"""Names of the files of a rank."""

_DUMPS: Final = re.compile(r"_dump_(fr|nccl|xccl)_trace")
_BACKENDS: Final = {"fr": "gloo", "nccl": "nccl", "xccl": "xccl"}

Groups = list[dict[str, Any]]


def folder_of(run: str, attempt: int = 0) -> Path:
    """The folder of the files of a run at this restart of its ranks."""
    return Path(run) / (f"{FOLDER}-{attempt}" if attempt else FOLDER)


def restarts(environment: Mapping[str, str] = os.environ) -> int:
    """How often torchrun has started the ranks again, by what it puts into their environment."""
    text = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0


def initialized() -> Any:
    """The module torch.distributed if it runs in this process, else None."""
    distributed: Any = sys.modules.get("torch.distributed")
    try:
        return distributed if distributed.is_available() and distributed.is_initialized() else None
    except AttributeError:  # it is not imported, or not to its end
        return None


def groups_now(known: Groups) -> Groups:
    """The process groups of this process: name, description, backend, ranks, timeout in seconds.

    Those that are known stay as long as there are as many, and once torch has destroyed them all.
    """
    if initialized() is None:
        return known
    world: Any = sys.modules["torch.distributed.distributed_c10d"]._world
    if len(world.pg_map) == len(known):
        return known
    groups = []
    for group, (backend, _) in list(world.pg_map.items()):
        ranks = world.pg_group_ranks.get(group, {})
        groups.append(
            {
                "name": str(world.pg_names.get(group, "")),
                "desc": str(getattr(group, "group_desc", "") or ""),
                "backend": str(backend),
                "ranks": sorted(ranks),
                "timeout": _timeout(group),
            }
        )
    return groups


def _timeout(group: Any) -> float:
    """The seconds after which a group's collectives fail; 0 where torch does not say."""
    with contextlib.suppress(AttributeError, RuntimeError, TypeError, IndexError):
        backend = group._get_backend(group._device_types[0])
        return float(backend.options._timeout.total_seconds())
    return 0.0


def write_stacks(path: Path, tail: str = "") -> None:
    """Write the stacks of all threads; `tail`: what is written instead, of a thread that has ended."""
    with _replaced(path) as part, part.open("w", encoding="utf-8") as file:
        if tail:
            file.write(tail)
        else:
            faulthandler.dump_traceback(file, all_threads=True)


def stack_of(error: BaseException | None) -> str:
    """The stack of an exception that nobody caught, as `faulthandler` would have written it; "" for none."""
    if error is None or error.__traceback__ is None:
        return ""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    lines = [f'  File "{frame.filename}", line {frame.lineno or 0} in {frame.name}\n' for frame in frames]
    return f"Thread 0x{threading.main_thread().ident or 0:016x} (most recent call first):\n{''.join(lines)}"


def code_of(error: BaseException | None) -> str:
    """The source of the line that the main thread is in, or was when this was raised: calls into C have no frame."""
    is_ours = threading.current_thread() is threading.main_thread()
    frame: Any = None if is_ours else sys._current_frames().get(threading.main_thread().ident or 0)
    line = getattr(frame, "f_lineno", 0)
    if error is not None and error.__traceback__ is not None:
        frame, line = [*traceback.walk_tb(error.__traceback__)][-1]
    return linecache.getline(frame.f_code.co_filename, line).strip()[:200] if frame is not None else ""


def failure(error: BaseException) -> dict[str, str]:
    """The exception that ended the program, for its note, and which collective raised it, if one did."""
    frames = traceback.extract_tb(error.__traceback__) if error.__traceback__ is not None else ()
    calls = [frame.name for frame in frames if frame.filename.endswith("distributed_c10d.py")]
    return {"exception": described(error), "failed_call": calls[0] if calls else ""}


def write_dumps(folder: Path, rank: int, groups: Groups) -> list[str]:
    """Write the ring buffers of the backends that are in use; names of the files."""
    bindings: Any = sys.modules.get("torch._C._distributed_c10d")
    used = " ".join(str(group["backend"]) for group in groups)
    names = []
    for function in filter(None, map(_DUMPS.fullmatch, dir(bindings))):
        if _BACKENDS[function[1]] in used:
            names.append(f"{function[1]}_trace_rank_{rank}")
            _dump(folder / names[-1], getattr(bindings, function[0]))
    return names


def _dump(path: Path, dump: Callable[..., bytes]) -> None:
    for with_stacks in (False, True):
        content = dump(includeCollectives=True, includeStackTraces=with_stacks, onlyActive=False)
        with _replaced(path) as part:
            part.write_bytes(content)


@contextlib.contextmanager
def _replaced(path: Path) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def note_of(here: RankIdentity, why: str, groups: Groups, more: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of this process now."""
    torch: Any = sys.modules.get("torch")
    return {
        "rank": here.rank,
        "world": here.world,
        "pid": here.pid,
        "host": here.host,
        "attempt": restarts(),
        "torch": str(getattr(torch, "__version__", "")),
        "written": time.time_ns(),
        "why": why,
        "main_thread": f"0x{threading.main_thread().ident or 0:016x}",
        "threads": {f"0x{each.ident or 0:016x}": each.name for each in threading.enumerate()},
        "groups": groups,
        **more,
    }


def files_of(folder: Path, rank: int) -> list[Path]:
    """The files of a rank in a folder."""
    names = ((file, OF_RANK.fullmatch(file.name)) for file in folder.iterdir())
    return [file for file, match in names if match and int(match[1]) == rank]


def put_to(name: str, folder: Path, rank: int) -> None:
    """Move the files of a rank to a folder of this name: they are of a time of which nobody waits for it."""
    place = folder.with_name(folder.name.replace(FOLDER, name, 1))
    place.mkdir(exist_ok=True)
    for file in files_of(folder, rank):
        file.replace(place / file.name)


def leave_note(folder: Path, note: Mapping[str, Any]) -> Path:
    """Write the note of a rank."""
    path = folder / NOTE.format(note["rank"])
    mailbox.leave(path, note)
    return path
