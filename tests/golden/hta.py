"""HTA's golden values, and what HTA does to a trace before it counts anything.

A trace as HTA sees it is made here from ours, so that our own analyses can be asked about it: rounding to microseconds
and the filter of the last step are rules of HTA's that every comparison allows for. What else it does by rule has a
name (see `differences`), and is done here only where a comparison asks for it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kinetoscope import Job, Trace, read
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.engines.threads import Threads
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.marks import RANGE_KINDS, STEP
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.source import Source
from tests.catalog.samples import GOLDEN, SHARED

NAME: Final = "HTA"
FOLDER: Final = GOLDEN / "hta"

TRACES: Final[dict[str, str]] = {
    "amd_trace": "mi250_train",
    "cpu_only": "cpu_only",
    "critical_path__alexnet": "alexnet_a100",
    "critical_path__cuda_event_sync": "critical_path/cuda_event_sync",
    "critical_path__cuda_event_sync_multi_stream": "critical_path/cuda_event_sync_multi_stream",
    "critical_path__simple_add": "critical_path/simple_add",
    "cupti_profiler": "cupti_counters",
    "distributed_info_unavailable": "hostile/distributed_info_not_found.json.gz",
    "execution_trace": "execution_trace/benchmark_simple_add_trace.json.gz",
    "mtia_inference_trace": "mtia",
    "nccl_parser_config": "ddp_nccl_a100",
    "negative_queue_length_values_check": "queue_length",
    "rank_non_gpu": "hostile/rank_non_gpu.json.gz",
    "rank_unavailable": "hostile/rank_not_found.json.gz",
    "timeline_analysis": "sampled_2rank/sampled_rank-0.json.gz",
    "trace_compare__base": "trace_compare/base/base.json.gz",
    "trace_compare__test": "trace_compare/test/test.json.gz",
    "trace_diff__control": "trace_diff/control/control.json.gz",
    "trace_diff__test": "trace_diff/test/test.json.gz",
    "trace_filter": "sampled_2rank",
}
"""Where the trace of each golden file lies."""

_MEMORY_TIMELINE: Final = "of a memory timeline, another kind of file, which is no trace"
_RUNS: Final = "a comparison of two runs, which is no analysis of one rank"

NOT_THIS: Final[dict[str, str]] = {
    "call_graph": "the tree of calls, which is no answer; `operators`, `modules`, `kernel_sequences` rest on ours",
    "process_raw_events": _MEMORY_TIMELINE,
    **{
        f"{what}_{which}": _RUNS
        for what in ("compare", "ops_diff")
        for which in ("default", "cpu", "gpu", "cpu_1010", "gpu_1010", "gpu_short_1011")
    },
}
"""Sections that no analysis answers, and why."""

LAST: Final = "last__"
"""How sections begin for which HTA was told to keep the last step."""

EXACT: Final = "ns_exact/"
"""Where the golden values lie for which HTA was told not to round."""

CALLS: Final = {
    "kernel launches only": re.compile(r".*LaunchKernel|runFunction"),
    "listed calls only": re.compile(
        r"(?:cudaLaunchKernel(?:ExC)?|cuLaunchKernel(?:Ex)?|cudaMem(?:cpy|set)Async|hipLaunchKernel"
        r"|hipExtModuleLaunchKernel|hipMem(?:cpy|set)Async|hipMemcpyWithStream|runFunction.*)$"
    ),
}
"""Which calls HTA takes for launches, by the rule that says so."""

VIEWS: Final = frozenset({"unlinked work", "waits as work", "kinds by pattern", *CALLS})
"""Rules of HTA's that concern what is in a trace, whatever is asked."""

T = TypeVar("T")


@functools.cache
def results(name: str) -> dict[str, Any]:
    """The sections of a golden file: the call, and the result or the error."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())["results"]
    return found


def files() -> list[str]:
    """Names of all golden files, those in `ns_exact` with the folder."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.json"))


@functools.cache
def sections() -> tuple[tuple[str, str], ...]:
    """Name and section of all golden values."""
    return tuple((name, section) for name in files() for section in results(name))


def trace_of(name: str) -> Path:
    """Where the trace of a golden file lies."""
    return SHARED / TRACES[name.removeprefix(EXACT)]


@functools.lru_cache(maxsize=4)
def original(path: Path) -> Job:
    """The job as we read it."""
    return read(path, jobs=1)


@functools.lru_cache(maxsize=24)
def seen(name: str, last: bool, quirks: frozenset[str] = frozenset()) -> Job:
    """The job as HTA sees it: of its rules only rounding and the filter of steps, unless more are asked for."""
    job = original(trace_of(name))
    steps = set().union(*(step_names(job.trace(rank)) for rank in job.ranks))
    views: dict[Source, Trace] = {}
    for source in job.sources:
        trace = job.trace(source.rank)
        if name.startswith(EXACT):
            start, end = trace.start, trace.end
        else:
            start, end = rounded(trace)
        keep = np.ones(len(trace), np.bool_)
        if len(steps) > 1:
            keep = kept(trace, start, last=last, unlinked="unlinked work" not in quirks)
        for rule in quirks & CALLS.keys():
            keep &= ~launched_otherwise(trace, CALLS[rule])
        views[source] = Seen(trace, keep, start, end, quirks)
    return Job(job.path, job.sources, Threads(views.__getitem__, jobs=1, keep=len(views)))


_COUNTED: Callable[[Trace], DeviceWork] = device_work.__wrapped__  # type: ignore[attr-defined]
"""Device work as Kinetoscope derives it."""


class Seen(Trace):
    """A trace of which only some events are kept, with other times."""

    def __init__(
        self,
        trace: Trace,
        keep: NDArray[np.bool_],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        quirks: frozenset[str],
    ) -> None:
        columns = {name: getattr(trace, name)[keep] for name in ("ph", "category", "name", "track", "shape", "first")}
        super().__init__(
            source=trace.source,
            columns=columns | {"start": start[keep], "end": end[keep]},
            values=trace.values,
            strings=trace.strings,
            shapes=trace.shapes,
            tracks=trace.tracks,
            members=trace.members,
            members_before_events=trace.members_before_events,
            text_bytes=trace.text_bytes,
        )
        self.origin = np.flatnonzero(keep)
        self.quirks = quirks
        self._kind = trace.kind[keep].copy()
        self.is_wait = self._kind == EventKind.DEVICE_SYNC
        if "waits as work" in quirks:
            self._kind[self.is_wait & (self.integers("stream") >= 0)] = EventKind.KERNEL

    @property
    def kind(self) -> NDArray[np.int8]:
        return self._kind

    def of(self, derive: Callable[..., T], *details: Any, **named: Any) -> T:
        if derive is _COUNTED:
            return super().of(_device_work)  # type: ignore[return-value]
        return super().of(derive, *details, **named)


def _device_work(trace: Trace) -> DeviceWork:
    assert isinstance(trace, Seen)
    work = _COUNTED(trace)
    concerned = np.ones(len(work), np.bool_) if "kinds by pattern" in trace.quirks else trace.is_wait[work.rows]
    names, places = np.unique(trace.name[work.rows], return_inverse=True)
    kinds = np.array([work_kind(trace.strings.label(code)) for code in names.tolist()], np.int8)
    return replace(work, kind=np.where(concerned, kinds[places], work.kind)) if len(work) else work


# --- HTA's rules


def rounded(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Microseconds, if any time has decimals: starts up, ends down, so that a short event ends before it starts."""
    complete = trace.ph == ord("X")
    if not (trace.start[complete] % 1000).any():
        return trace.start, trace.end
    start = np.where(complete, -(-trace.start // 1000) * 1000, trace.start)
    return start, np.where(complete, trace.end // 1000 * 1000, trace.end)


def step_names(trace: Trace) -> set[str]:
    """Names of the profiler's steps."""
    rows = np.flatnonzero(rows_named(trace, lambda name: name.startswith(STEP), *RANGE_KINDS))
    return set(trace.strings.labels(np.unique(trace.name[rows]).tolist()))


def kept(trace: Trace, start: NDArray[np.int64], *, last: bool, unlinked: bool) -> NDArray[np.bool_]:
    """Which events stay: what starts before the last step, and work of the device that was launched before it.

    Work whose launch was not recorded goes, too; a comparison has to ask for that.
    """
    steps = np.flatnonzero(rows_named(trace, lambda name: name.startswith(STEP), *RANGE_KINDS))
    begin = start[steps].max() if len(steps) and not last else np.iinfo(np.int64).max
    on_device = np.isin(trace.kind, ON_DEVICE) & arguments.has(trace, "correlation")
    keep: NDArray[np.bool_] = on_device | (start < begin) | (trace.ph != ord("X"))
    work = device_work(trace)
    linked = work.launch >= 0
    keep[work.rows[linked]] = keep[work.launch[linked]]
    if not unlinked:
        keep[work.rows[~linked]] = False
    return keep


def launched_otherwise(trace: Trace, calls: re.Pattern[str]) -> NDArray[np.bool_]:
    """Which calls have other names, and which device work was not launched by one with such a name."""
    other = ~rows_named(trace, lambda name: calls.match(name) is not None, EventKind.RUNTIME)
    other &= trace.kind == EventKind.RUNTIME
    work = device_work(trace)
    other[work.rows] = np.where(work.launch >= 0, other[work.launch], True)
    return other


ON_DEVICE: Final = (
    EventKind.KERNEL,
    EventKind.MEMCPY,
    EventKind.MEMSET,
    EventKind.DEVICE_ANNOTATION,
    EventKind.DEVICE_SYNC,
)


_COMMUNICATION: Final = re.compile(r"nccl|hip|hccl|.*ncclKernel")
_MEMORY: Final = re.compile(r"(hip)?Memcpy|(hip)?Memset|dma")
_OTHER: Final = re.compile(
    r".*(?:Memcpy|Memset|dma|Sync)|Stream Wait Event|cuda.*LaunchKernel|runFunction|job_exe|packet|pe_exe"
    r"|cpum_exe_subgraph|collective_subgraph_execution"
)

OTHER: Final = WorkKind.MEMSET
"""What stands for HTA's fourth kind, OTHER: neither computation nor communication, and none that it has rows for."""

KINDS: Final = {WorkKind.COMPUTATION: "computation", WorkKind.COMMUNICATION: "communication", WorkKind.MEMCPY: "memory"}
"""The kinds that it has rows for."""


def work_kind(name: str) -> WorkKind:
    """HTA's kind of a kernel, from its name alone, matched from its beginning."""
    if _COMMUNICATION.match(name):
        return WorkKind.COMMUNICATION
    if _MEMORY.match(name):
        return WorkKind.MEMCPY
    return OTHER if _OTHER.match(name) else WorkKind.COMPUTATION


def merged(start: NDArray[np.int64], end: NDArray[np.int64]) -> Intervals:
    """HTA's union: what begins after all before has ended begins a new group, even where it ends before it starts."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    first = np.ones(len(start), np.bool_)
    first[1:] = start[1:] > end[:-1]
    places = np.flatnonzero(first)
    return Intervals(start[places], end[np.append(places[1:] - 1, len(end) - 1)] if len(end) else end)


# --- one comparison


@dataclass(frozen=True)
class Case:
    """A section of a golden file."""

    name: str
    section: str

    @property
    def golden(self) -> Any:
        """HTA's answer."""
        return results(self.name)[self.section]["result"]

    @property
    def error(self) -> str | None:
        """How HTA failed, if it did."""
        return cast("str | None", results(self.name)[self.section].get("error"))

    @property
    def last(self) -> bool:
        """Was the last step kept?"""
        return self.section.startswith(LAST)

    @property
    def tolerance(self) -> float:
        """Microseconds: none where HTA counts whole ones, else what a double holds of a time since 1970."""
        return 0.002 if self.name.startswith(EXACT) else 0.0

    def job(self, rules: frozenset[str] = frozenset()) -> Job:
        """What HTA sees, with those of its further rules that concern what a trace is."""
        return seen(self.name, self.last, rules & VIEWS)


def described(values: Iterable[float]) -> dict[str, float | None]:
    """The statistics that pandas' `describe` gives."""
    array = np.asarray(list(values), np.float64)
    if not len(array):
        return {"count": 0}
    low, median, high = np.quantile(array, (0.25, 0.5, 0.75)).tolist()
    spread = float(array.std(ddof=1)) if len(array) > 1 else None
    extremes = float(array.min()), float(array.max())
    return {
        "count": len(array),
        "mean": float(array.mean()),
        "std": spread,
        "min": extremes[0],
        "25%": low,
        "50%": median,
        "75%": high,
        "max": extremes[1],
    }
