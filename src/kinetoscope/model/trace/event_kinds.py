"""Kinds of events, whatever the era and the vendor that wrote them: one table of facts, tested against real traces."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


class EventKind(IntEnum):
    """Kinds of events."""

    OTHER = 0
    HOST_OP = 1
    """An operator of torch, or a range that code of torch records."""
    ANNOTATION = 2
    """A range that the user or a library named (`record_function`), on the host."""
    PYTHON = 3
    """A Python or C function call, recorded with stacks."""
    RUNTIME = 4
    """A call of the device's runtime or driver library on the host."""
    KERNEL = 5
    MEMCPY = 6
    MEMSET = 7
    DEVICE_ANNOTATION = 8
    """The shadow of an annotation on a stream: an overlay, never device work."""
    DEVICE_SYNC = 9
    """A wait recorded on a stream (`cuda_sync`, `cuda_event`): no device work either."""
    MEMORY = 10
    """An instant at which the allocator allocated or freed memory."""
    OVERHEAD = 11
    """Time that the profiler itself took."""
    SPAN = 12
    """The window that was recorded."""
    FLOW_START = 13
    FLOW_END = 14
    METADATA = 15
    """Names of processes and threads."""
    COUNTER = 16
    INSTANT = 17
    COUNTER_RANGE = 18
    """A kernel replayed for its hardware counters."""


BEGIN, END = ord("B"), ord("E")
"""Phases of two events that make one span: the reader gives the first one the end that the second one has."""

SPANS: Final = (ord("X"), BEGIN)
"""Phases of what lasts for some time."""

CATEGORIES: Final[dict[str, EventKind]] = {
    "cpu_op": EventKind.HOST_OP,
    "operator": EventKind.HOST_OP,
    "hpu_op": EventKind.HOST_OP,
    "user_annotation": EventKind.ANNOTATION,
    "scope": EventKind.ANNOTATION,  # these two are Proton's, the second one of a scope with numbers of the user's
    "metric": EventKind.ANNOTATION,
    "python_function": EventKind.PYTHON,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "runtime": EventKind.RUNTIME,
    "mtia_runtime": EventKind.RUNTIME,
    "xpu_runtime": EventKind.RUNTIME,
    "xpu_driver": EventKind.RUNTIME,
    "glow_runtime": EventKind.RUNTIME,
    "privateuse1_runtime": EventKind.RUNTIME,
    "privateuse1_driver": EventKind.RUNTIME,
    "kernel": EventKind.KERNEL,
    "mtia_ccp_events": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMCPY,
    "memcpy": EventKind.MEMCPY,
    "gpu_memset": EventKind.MEMSET,
    "memset": EventKind.MEMSET,
    "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    "cuda_sync": EventKind.DEVICE_SYNC,
    "xpu_sync": EventKind.DEVICE_SYNC,
    "cuda_event": EventKind.DEVICE_SYNC,
    "graph_event_node": EventKind.DEVICE_SYNC,
    "graph_host_node": EventKind.DEVICE_SYNC,  # the stream waits for a function of the host
    "overhead": EventKind.OVERHEAD,
    "trace": EventKind.SPAN,
    "cuda_profiler_range": EventKind.COUNTER_RANGE,
}
"""Kind of the spans (ph X, or B and E) of a category, in lower case."""

MEMORY_NAME: Final = "[memory]"

DEVICE_WORK: Final = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
HOST_KINDS: Final = (EventKind.HOST_OP, EventKind.ANNOTATION, EventKind.PYTHON, EventKind.RUNTIME)
"""Kinds that nest in the call tree of a host thread."""

_PHASES: Final[dict[int, EventKind]] = {
    ord("s"): EventKind.FLOW_START,
    ord("f"): EventKind.FLOW_END,
    ord("M"): EventKind.METADATA,
    ord("C"): EventKind.COUNTER,
    ord("i"): EventKind.INSTANT,
    ord("I"): EventKind.INSTANT,
}

NAMES_DECIDE: Final = "mtia_ccp_events"
"""The category of MTIA's streams, where only the name tells work from waiting."""

XPU_METRICS: Final = "xpu_scope_profiler"
"""The category of counters of Intel's GPUs. With them each kernel comes again, with its values as arguments."""

METRICS_OF_KERNEL: Final = "metrics: "
"""The beginning of the name of such a copy, whose category is that of kernels."""

_MTIA_EVENTS: Final = ("event_wait", "event_record")
_MTIA_COPY: Final = "dma"


def kind_of(phase: int, category: str, name: str) -> EventKind:
    """The kind of an event with this phase (a byte), category and name."""
    category = category.lower()
    if name == MEMORY_NAME and (category in ("cpu_instant_event", "") or phase in (ord("i"), ord("I"))):
        return EventKind.MEMORY  # a complete event where torch's Python exporter wrote it
    if category == "cpu_instant_event":
        return EventKind.INSTANT
    if phase not in SPANS:
        return _PHASES.get(phase, EventKind.OTHER)
    if category == NAMES_DECIDE and name in _MTIA_EVENTS:
        return EventKind.DEVICE_SYNC
    if category == NAMES_DECIDE and name.startswith(_MTIA_COPY):
        return EventKind.MEMCPY
    if category == "kernel" and name.startswith(METRICS_OF_KERNEL):
        return EventKind.COUNTER_RANGE
    return CATEGORIES.get(category, EventKind.OTHER)


class WorkKind(IntEnum):
    """Kinds of device work, in the order in which METRICS gives priority to."""

    COMPUTATION = 0
    COMMUNICATION = 1
    MEMCPY = 2
    MEMSET = 3


COLLECTIVE_KERNELS: Final[dict[str, str]] = {
    "NCCL": r"nccl(?:Dev)?Kernel|^nccl",
    "RCCL": r"rccl",
    "oneCCL": r"oneccl|^ccl_",
    "HCCL": r"^hccl|^hcom_",
    "NVSHMEM": r"nvshmem",
    "DeepEP": r"deep_?ep::|^deep_ep",
    "MSCCL": r"msccl(?:Kernel|pp)",
    "Transformer Engine": r"userbuffers_",
    "custom all-reduce": r"(?:reduce_scatter_)?cross_device_(?:reduce|store)|multimem_|custom_all_?reduce|lamport|"
    r"(?:[Oo]ne|[Tt]wo)_?[Ss]hot_?[Aa]ll_?[Rr]educe|allreduce_(?:fusion|kernel)|mnnvl_allreduce|"
    r"quickreduce::|allreduce_(?:\w+_)?prototype",
    "MTIA": r"^collective_subgraph_execution",
}
"""Names of the kernels of collective libraries, one pattern a library; searched for anywhere in the name."""

COLLECTIVE_KERNEL: Final = re.compile("|".join(f"(?:{pattern})" for pattern in COLLECTIVE_KERNELS.values()))

COLLECTIVE_KERNEL_WORDS: Final = (
    "ccl",
    "hcom_",
    "nvshmem",
    "deep_ep",
    "deepep",
    "cross_device_",
    "multimem_",
    "all_reduce",
    "allreduce",
    "Allreduce",
    "AllReduce",
    "quickreduce",
    "userbuffers_",
    "lamport",
    "collective_subgraph",
)
"""What the names of those kernels hold: with it half a million names are sorted out before any pattern is tried."""

COMMUNICATION_RECORD: Final = "record_param_comms"
"""Name of the operator that torch records around a collective, with the collective's arguments."""

COLLECTIVE_OPS: Final = re.compile(rf"^(?:{COMMUNICATION_RECORD}$|nccl:|gloo:|hccl:|xccl:|ucc:|c10d::)")
"""Host ops and annotations that are collectives."""

COLLECTIVE_WORDS: Final = (COMMUNICATION_RECORD, "ccl:", "gloo:", "ucc:", "c10d::")
"""What their names hold; see `naming.rows_named`."""


def is_collective_kernel(name: str) -> bool:
    """Is this the name of a kernel that a collective library launches?"""
    return COLLECTIVE_KERNEL.search(name) is not None
