"""Facts of a run beside its trace: the sidecar `<trace>.meta.json`.

Facts from users go here and nowhere else: torch copies metadata into a trace without escaping it. Nothing is executed
to collect them (git would run hooks of its folder); values that look like secrets are left out.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.session.options import RankIdentity, RecordOptions

FORMAT: Final = "kinetoscope.meta/1"
_MAX_CHARACTERS: Final = 4096
_MAX_ITEMS: Final = 1000
_MAX_DEPTH: Final = 6
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}\Z")
_SECRET: Final = re.compile(r"(?i)(token|secret|passw|api[-_]?key|access[-_]?key|credential)")
_PACKAGES: Final = ("accelerate", "deepspeed", "lightning", "pytorch_lightning", "torchvision", "transformers")


def clocks() -> dict[str, int]:
    """The same moment on the clock of the calendar and on the monotonic one, ns."""
    before = time.monotonic_ns()
    unix = time.time_ns()
    return {"unix_ns": unix, "monotonic_ns": (before + time.monotonic_ns()) // 2}


def sidecar(options: RecordOptions, identity: RankIdentity, trace: str, /, **facts: Any) -> dict[str, Any]:
    """The sidecar of a trace: facts of the run, and of its window. Takes milliseconds; off the training thread."""
    about = {
        "format": FORMAT,
        "run": plain(options.run),
        "host": identity.host,
        "pid": identity.pid,
        "rank": identity.rank,
        "world": identity.world,
        "local_rank": identity.local_rank,
        **_program(_working_folder()),
        "devices": devices(),
        "cpu": cpu(identity.world),
        "about": plain(options.about),
        "trace": trace,
        **{name: plain(value) if isinstance(value, str) else value for name, value in facts.items()},
        "export": "torch",
    }
    if len(json.dumps(about, allow_nan=False)) > 4 << 20:
        about["about"] = {"left_out": "more than 4 MB"}
    return about


def _working_folder() -> str:
    """The folder where the program works; "" if it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


@cache
def _program(folder: str) -> dict[str, Any]:
    """The program, as it was started and in the folder where it works."""
    return {"command": command(), "git": git(Path(folder)) if folder else {}, "versions": versions()}


def recorded(options: RecordOptions) -> dict[str, Any]:
    """The options that shape the trace."""
    names = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "all_threads")
    return {name: bool(getattr(options, name)) for name in names}


def command() -> list[str]:
    """The command line, without values that look like secrets."""
    words: list[str] = []
    hide = False
    for word in sys.orig_argv[:_MAX_ITEMS]:
        if hide and not word.startswith("-"):
            word, hide = "…", False
        elif _SECRET.search(word.partition("=")[0]) and word.startswith("-"):
            name, equals, _ = word.partition("=")
            word, hide = (f"{name}=…", False) if equals else (word, True)
        else:
            hide = False
        words.append(word[:_MAX_CHARACTERS])
    return words


def versions() -> dict[str, str]:
    """Versions of Python, of this package, of torch and its toolkits, of frameworks that are in use."""
    from importlib import metadata

    packages = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("kinetoscope", "torch", *(name for name in _PACKAGES if name in sys.modules)):
        try:
            packages[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    version = getattr(sys.modules.get("torch"), "version", None)
    for name in ("cuda", "hip"):
        if getattr(version, name, None):
            packages[name] = str(getattr(version, name))
    return packages


def devices() -> list[dict[str, Any]]:
    """Name and memory of each device of this process; none are brought up by asking."""
    torch = sys.modules.get("torch")
    devices: list[dict[str, Any]] = []
    for kind in ("cuda", "xpu"):
        module: Any = getattr(torch, kind, None)
        if module is None or not module.is_initialized():
            continue
        for number in range(module.device_count()):
            facts = module.get_device_properties(number)
            devices.append({"kind": kind, "number": number, "name": str(facts.name), "memory": int(facts.total_memory)})
    return devices


def cpu(world: int) -> dict[str, int]:
    """Cores that this process may use, threads of torch, workers of its loaders, ranks beside it on the machine.

    What is not known is left out.
    """
    torch = sys.modules.get("torch")
    facts = {"cores": usable_cores(), "workers": _loader_workers()}
    if torch is not None:
        facts["threads"] = int(torch.get_num_threads())
    local = os.environ.get("LOCAL_WORLD_SIZE", "1" if world == 1 else "")
    return {**facts, "local_ranks": int(local)} if local.isdecimal() else facts


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores that the affinity of this process allows, or fewer if its control group gets less time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        limit, period = quota.read_text().split()
        return max(min(cores, -(-int(limit) // int(period))), 1)
    except (OSError, ValueError, ZeroDivisionError):
        return cores


def _loader_workers() -> int:
    """Child processes that torch named as workers of a loader (Linux only; 0 elsewhere)."""
    count = 0
    for children in Path("/proc/self/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                count += Path("/proc", child, "comm").read_text().startswith("pt_data_worker")
        except OSError:  # the thread or the child has just ended
            continue
    return count


def device_memory() -> dict[str, int]:
    """Bytes of the current device that are allocated, reserved, and were at most; empty where there is none in use."""
    torch = sys.modules.get("torch")
    for kind in ("cuda", "xpu"):
        module: Any = getattr(torch, kind, None)
        if module is not None and module.is_initialized():
            return {
                "allocated": module.memory_allocated(),
                "reserved": module.memory_reserved(),
                "peak": module.max_memory_allocated(),
            }
    return {}


def git(folder: Path) -> dict[str, str]:
    """Commit and branch of the checkout that a folder lies in, read from its files; empty if there is none."""
    for parent in (folder, *folder.parents):
        try:
            git_folder = _git_folder(parent / ".git")
            if git_folder is not None:
                return _head(git_folder)
        except (OSError, UnicodeDecodeError):
            return {}
    return {}


def _git_folder(path: Path) -> Path | None:
    if path.is_dir():
        return path
    if not path.is_file():
        return None
    text = _short(path)  # a worktree or a submodule says where its own lies
    return (path.parent / text.removeprefix("gitdir:").strip()) if text.startswith("gitdir:") else None


def _head(folder: Path) -> dict[str, str]:
    text = _short(folder / "HEAD")
    if not text.startswith("ref:"):
        return {"commit": text} if _COMMIT.match(text) else {}
    name = text.removeprefix("ref:").strip()
    if ".." in name or name.startswith("/"):
        return {}
    common = folder / _short(folder / "commondir") if (folder / "commondir").is_file() else folder
    known = {"branch": name.removeprefix("refs/heads/")[:_MAX_CHARACTERS]}
    for each in (folder / name, common / name):
        if each.is_file() and _COMMIT.match(_short(each)):
            return {"commit": _short(each), **known}
    packed = common / "packed-refs"
    if packed.is_file():
        for line in packed.read_text(encoding="utf-8").splitlines():
            commit, _, reference = line.partition(" ")
            if reference == name and _COMMIT.match(commit):
                return {"commit": commit, **known}
    return known


def _short(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(_MAX_CHARACTERS).strip()


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON can hold it: cut where it is long or deep, in words where it is of another kind."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return float(value) if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return value[:_MAX_CHARACTERS].encode(errors="replace").decode()
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        items = list(value.items())[:_MAX_ITEMS]
        return {str(key)[:200]: plain(each, depth + 1) for key, each in items if not _SECRET.search(str(key))}
    if (
        depth < _MAX_DEPTH
        and isinstance(value, Sequence | set | frozenset)
        and not isinstance(value, bytes | bytearray)
    ):
        return [plain(each, depth + 1) for each in list(value)[:_MAX_ITEMS]]
    try:
        return str(value)[:_MAX_CHARACTERS].encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - a user's own class may do anything
        return type(value).__name__


def sidecar_name(trace: str) -> str:
    """Name of the sidecar of a trace."""
    for ending in (".gz", ".json", ".trace", ".pt"):
        trace = trace.removesuffix(ending)
    return trace + ".meta.json"


def environment() -> dict[str, str]:
    """The environment of a process of our own: nothing that would make it record, trace or import what is the job's."""
    drop = ("PYTHON", "KINETO", "LD_PRELOAD", "COVERAGE", "TORCH")
    return {name: value for name, value in os.environ.items() if not name.startswith(drop)}
