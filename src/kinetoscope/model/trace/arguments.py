"""The arguments of events by one name each, whatever the era and the vendor that wrote them.

No other module spells an argument's key: what Kineto calls "External id" today was "external id" in 2021, and stands
here as `external_id`. Where one event has several of an argument's keys, the first of the list counts.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Floats, Int8s, Int32s, Int64s, any_of, scattered
from kinetoscope.model.trace.shapes import FLOAT, INT, NUMBER_TEXT, RAW, STRING
from kinetoscope.model.trace.trace import Trace

ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    # links
    "external_id": ("External id", "external id"),
    "correlation": ("correlation",),
    "sequence": ("Sequence number",),
    "forward_thread": ("Fwd thread id",),
    "record_function": ("Record function id",),
    "event_index": ("Ev Idx", "Profiler Event Index"),
    "python_id": ("Python id",),
    "python_parent": ("Python parent id",),
    "python_module": ("Python module id",),
    # operators
    "input_dims": ("Input Dims", "Input dims"),
    "input_types": ("Input type",),
    "input_strides": ("Input Strides",),
    "concrete_inputs": ("Concrete Inputs",),
    "call_stack": ("Call stack",),
    "module_hierarchy": ("Module Hierarchy",),
    "finished": ("finished",),
    # device work
    "device": ("device", "Device"),
    "context": ("context",),
    "stream": ("original_stream", "stream"),  # torch 2.14 and later may write another lane to `stream`
    "grid": ("grid",),
    "block": ("block",),
    "registers": ("registers per thread",),
    "shared_memory": ("shared memory",),
    "blocks_per_sm": ("blocks per SM",),
    "warps_per_sm": ("warps per SM",),
    "occupancy": ("est. achieved occupancy %",),
    "priority": ("priority",),
    "kernel_flop": ("kernel_flop",),  # these two are Inductor's estimates, and stand at the call
    "kernel_gigabytes": ("kernel_num_gb",),
    "kernel_precision": ("kernel_precision",),  # Proton's, with the other two at the kernel itself
    "kernel_file": ("kernel_file",),
    "graph": ("graph id",),
    "graph_node": ("graph node id",),
    # annotations of a graph's nodes (`torch.cuda.graph_annotations`)
    "node_name": ("name", "str", "annotation"),  # torch 2.14 and later; 2.12 and 2.13; what was no dict
    "node_module": ("module_fqn",),
    "node_phase": ("autograd_phase",),
    "bytes": ("bytes", "size", "mem size"),  # CUDA; HIP calls and MTIA's copies; MTIA's calls ("123 bytes")
    "bandwidth": ("memory bandwidth (GB/s)",),
    "copy_direction": (
        "copy kind",
        "direction",
        "kind",
    ),  # CUDA since torch 2.13; MTIA ("DEVICE_TO_HOST"); ROCm ("HtoD")
    "source_memory": ("src kind",),  # these two are "pageable", "pinned", "device", ...
    "destination_memory": ("dst kind",),
    # waits recorded on streams
    "wait_on_stream": ("wait_on_stream",),
    "wait_on_record": ("wait_on_cuda_event_record_corr_id",),
    # memory instants
    "memory_bytes": ("Bytes",),
    "address": ("Addr",),
    "allocated": ("Total Allocated",),
    "reserved": ("Total Reserved",),
    "memory_device_type": ("Device Type",),
    "memory_device": ("Device Id",),
    # collectives
    "collective": ("Collective name",),
    "process_group": ("Process Group Name", "Process Group ID"),
    "process_group_description": ("Process Group Description",),
    "process_group_ranks": ("Process Group Ranks",),
    "group_size": ("Group size",),
    "first_rank": ("Global rank start",),
    "rank_stride": ("Global rank stride",),
    "collective_sequence": ("Seq",),
    "communicator": ("Comms Id",),
    "elements_in": ("In msg nelems",),
    "elements_out": ("Out msg nelems",),
    "element_type": ("dtype",),
    "split_in": ("In split size",),
    "split_out": ("Out split size",),
    "source_rank": ("Src Rank",),
    "destination_rank": ("Dst Rank",),
}
"""The keys of each argument, the newest first."""

CONFIGURATION: Final = ("grid", "block")
"""Arguments that launches have, too."""

_NUMBER_FIRST: Final = re.compile(r"\s*(-?\d{1,18})(?!\d|\.)")
"""A number at the beginning of a text, as ROCm ("4096") and MTIA ("123 bytes") write sizes."""


def written_key(name: str) -> str:
    """The key that an argument is written with.

    Raises:
        KeyError: there is no such argument.
    """
    return ARGUMENTS[name][-1 if name == "stream" else 0]


def keys_of(trace: Trace, name: str) -> tuple[str, ...]:
    """Keys of an argument that occur in the trace, in order of precedence."""
    return tuple(key for key in ARGUMENTS[name] if trace.strings.code(key) >= 0)


def kinds(trace: Trace, name: str, rows: Int32s | None = None) -> Int8s:
    """Kind of the argument of each row (see `shapes`): int8, −1 where it has none."""
    result = np.full(len(trace) if rows is None else len(rows), -1, np.int8)
    for key in reversed(keys_of(trace, name)):
        kinds_of_key = trace.kinds_of(key, rows)
        np.copyto(result, kinds_of_key, where=kinds_of_key >= 0)
    return result


def has(trace: Trace, name: str, rows: Int32s | None = None) -> Bools:
    """Rows that have the argument: bool."""
    return kinds(trace, name, rows) >= 0


def integers(trace: Trace, name: str, rows: Int32s | None = None, *, missing: int = -1) -> Int64s:
    """The argument where it is an integer, or a text that begins with one, else `missing`: int64, one for each row.

    A value may equal `missing`: `given` tells them apart.
    """
    result = np.full(len(trace) if rows is None else len(rows), missing, np.int64)
    for key in reversed(keys_of(trace, name)):
        kinds_of_key = trace.kinds_of(key, rows)
        np.copyto(result, trace.integers(key, rows), where=kinds_of_key == INT)
        texts = np.flatnonzero(kinds_of_key == STRING)
        if len(texts):
            distinct, places = np.unique(trace.codes_of(key, rows)[texts], return_inverse=True)
            matches = [_NUMBER_FIRST.match(trace.strings.text(code)) for code in distinct.tolist()]
            result[texts] = np.array([int(match[1]) if match else missing for match in matches], np.int64)[places]
    return result


def given(trace: Trace, name: str, rows: Int32s | None = None) -> Bools:
    """Rows for which `integers` gives a value of the file and not `missing`: bool."""
    absent = np.iinfo(np.int64).min
    return np.asarray(integers(trace, name, rows, missing=absent) != absent)


def floats(trace: Trace, name: str, rows: Int32s | None = None) -> Floats:
    """The argument where it is a finite number, else NaN: float64, one for each row."""
    result = np.full(len(trace) if rows is None else len(rows), np.nan)
    for key in reversed(keys_of(trace, name)):
        is_number = any_of(trace.kinds_of(key, rows), (INT, FLOAT, NUMBER_TEXT))
        np.copyto(result, trace.floats(key, rows), where=is_number)
    result[~np.isfinite(result)] = np.nan  # `inf` blocks per SM where Kineto did not know how many SMs there are
    return result


def codes(trace: Trace, name: str, rows: Int32s | None = None) -> Int64s:
    """String codes of the argument where it is a text or nested JSON, else −1: int64, one for each row.

    Replayed kernels of ROCm have no launch configuration of their own; theirs is that of the capture.
    """
    result = np.full(len(trace) if rows is None else len(rows), -1, np.int64)
    for key in reversed(keys_of(trace, name)):
        is_text = any_of(trace.kinds_of(key, rows), (STRING, RAW))
        np.copyto(result, trace.codes_of(key, rows), where=is_text)
    if name in CONFIGURATION and trace.captured is not None:
        every = np.arange(len(trace), dtype=np.int32) if rows is None else rows
        np.copyto(result, trace.captured.configuration_of(every, name), where=result < 0)
    return result


def codes_where(trace: Trace, name: str, rows: Int32s) -> Int64s:
    """The same, −1 also where there is no row (a negative one)."""
    present = rows >= 0
    return scattered(len(rows), present, codes(trace, name, rows[present]), np.int64)
