"""Options of recording and its limits, and which rank this process is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """How a recorder records.

    Attributes:
        activities: as for `torch.profiler.profile`, or their names ("cpu", "cuda"); None records all that there are.
        record_shapes: shapes and types of the operators' inputs.
        profile_memory: each allocation.
        with_stack: Python's calls; by far the dearest option.
        with_flops: as for torch; nothing of it is in the trace.
        with_modules: as for torch.
        with_provenance: Inductor keeps track of the lines that each kernel is made from, and calls of its C++ kernels
            are recorded; it then compiles anew, once, what its caches hold.
        all_threads: threads that Python started, too; torch then records no memory.
        experimental_config: as for torch.
        execution_trace_observer: as for torch.
        memory_snapshot: keep the history of CUDA's allocator, with stacks, and write a snapshot with each window and
            where memory runs out, into `snapshots` in the folder.
        max_memory_events: events of the allocator that are kept for it, the last ones.
        graph_captures: record captures of CUDA graphs, into `capture_traces` in the folder.
        run: name of the run.
        about: what else to know of the run (parameters, batch_size, precision, ...): goes into the sidecar alone.
        max_memory: bytes that the process may grow by in one window, what torch needs to stop it included; a window
            that would take more is ended early. 0: half of what is free.
        max_events: estimated number of events at which a window is ended early; 0 for any number.
        max_step: a window is ended early in a step of so many times the longest before it, and 5 s; 0 for any time.
        max_seconds: seconds after which a window is ended early.
        seconds: a window records for so long; 0: it ends with its steps.
        compile_log: keep what torch's structured log says of torch.compile, in the folder's `compile`.
        keep_free: bytes of the disk that are left alone.
        grace: how many seconds the end by SIGTERM may be put off for the trace.
        wait_at_exit: how many seconds the end of the program may be.
    """

    activities: Sequence[Any] | None = None
    record_shapes: bool = True
    profile_memory: bool = True
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    with_provenance: bool = False
    all_threads: bool = False
    experimental_config: Any = None
    execution_trace_observer: Any = None
    memory_snapshot: bool = False
    max_memory_events: int = 100_000
    graph_captures: bool = True
    run: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    max_memory: int = 1_000_000_000
    max_events: int = 10_000_000
    max_step: float = 10.0
    max_seconds: float = 600.0
    seconds: float = 0.0
    compile_log: bool = True
    keep_free: int = 1 << 28
    grace: float = 5.0
    wait_at_exit: float = 60.0


DEFAULTS = RecordOptions()


@dataclass(frozen=True)
class RankIdentity:
    """The place of this process in its job, for names of files."""

    host: str
    pid: int
    rank: int
    world: int
    local_rank: int


def rank_identity() -> RankIdentity:
    """From torch.distributed if it runs, else from what launchers put into the environment, else rank 0 of 1."""
    import socket
    import sys

    rank, world = _number(("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"), 0), 0
    world = _number(("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"), 1)
    local = _number(("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"), 0)
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        rank, world = distributed.get_rank(), distributed.get_world_size()
    host = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in socket.gethostname())
    return RankIdentity(host[:64] or "host", os.getpid(), rank, max(world, rank + 1), local)


def _number(names: Sequence[str], otherwise: int) -> int:
    for name in names:
        text = os.environ.get(name, "")
        if text.isascii() and text.isdecimal() and len(text) < 10:
            return int(text)
    return otherwise
