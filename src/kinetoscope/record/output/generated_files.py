"""Copies of what Inductor generated in this process, beside the traces: cache folders are cleared, hosts go away.

`compile/rankN` of the run's folder receives each generated file under its own name, which is a hash of its text, and
`linemaps.json`: of each file the first lines of stretches and the stack trace that torch keeps with each.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

MAX_BYTES: Final = 64 << 20
"""Bytes of generated files of one process that are kept."""

PROVENANCE: Final = {"INDUCTOR_PROVENANCE": "1", "TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"}
"""Variables of torch's: the stack traces of each kernel's nodes are kept, and calls of C++ kernels are recorded."""

_kept: dict[str, int] = {}
"""Of each folder how many modules had been generated when it was last looked after."""


def track_provenance() -> None:
    """Have Inductor keep track of what it fuses, in what this process compiles from now on.

    Both settings belong to the keys of Inductor's caches: each graph is compiled anew once.
    """
    for name, value in PROVENANCE.items():
        os.environ.setdefault(name, value)
    config: Any = sys.modules.get("torch._inductor.config")
    if config is not None:  # it read the variables when it was imported
        if getattr(config.trace, "provenance_tracking_level", None) == 0:
            config.trace.provenance_tracking_level = 1
        config.cpp.enable_kernel_profile = True


def keep_generated_files(folder: str, rank: int) -> None:
    """Copy what was generated since the last time; for any thread.

    Args:
        folder: of the run; nothing is copied to a store.
        rank: of this process.

    Raises:
        OSError: the folder cannot be written to.
    """
    cache: Any = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    modules = getattr(cache, "modules", None) or getattr(cache, "cache", None)  # until torch 2.6 a dictionary
    if "://" in folder or not modules or _kept.get(folder) == len(modules):
        return
    _kept[folder] = len(modules)
    target = Path(folder) / "compile" / f"rank{rank}"
    target.mkdir(parents=True, exist_ok=True)
    known = {each.name for each in target.iterdir()}
    room = MAX_BYTES - sum(each.stat().st_size for each in target.iterdir())
    tables: dict[str, list[tuple[int, str]]] = {}
    for module in list(modules.values() if isinstance(modules, dict) else modules):
        file = Path(getattr(module, "__file__", None) or "")
        if not hasattr(module, "call") or not file.is_file():
            continue
        if file.name not in known:
            if (room := room - file.stat().st_size) < 0:
                break
            _in_one_step(target / file.name, partial(shutil.copyfile, file))
        if rows := _stretches(getattr(cache, "linemaps", {}).get(str(file))):
            tables[file.name] = rows
    if tables:
        table = target / "linemaps.json"
        before = json.loads(table.read_text()) if table.is_file() else {}
        _in_one_step(table, lambda part: part.write_text(json.dumps({**before, **tables})))


def _stretches(lines: Any) -> list[tuple[int, str]]:
    """First lines and stack traces, of what torch keeps: two lists, the second of texts, or until 2.4 of nodes."""
    if not isinstance(lines, (list, tuple)) or len(lines) != 2:
        return []
    texts = (each if isinstance(each, str) else getattr(each, "stack_trace", None) for each in lines[1])
    return [(line, text) for line, text in zip(lines[0], texts, strict=True) if isinstance(text, str)]


def _in_one_step(target: Path, write: Callable[[Path], object]) -> None:
    """Ranks of several processes may share a folder, and a reader may look at it."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        write(part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
