"""A dump of torch's Flight Recorder as columns: the last collectives that a rank has called, and its process groups.

The names are those of the dump: torch/csrc/distributed/c10d/FlightRecorder.hpp. What it has by group and by frame is
there once, and entries have its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.model.trace.strings import Strings
from kinetoscope.notes import Note

STATES: Final = ("scheduled", "started", "completed")
"""States of entries, in the order of their codes."""

SCHEDULED, STARTED, COMPLETED = range(len(STATES))

NONE: Final = -1
"""Where an entry has no time, stack, text or number, and where a group has never reached a collective."""


@dataclass(frozen=True, slots=True)
class DumpedGroup:
    """A process group, as one rank has it.

    Attributes:
        name: in the dump, such as "0"; several backends may use the same.
        desc: its description, such as "default_pg" or "mesh_tp"; "" for none.
        backend: such as "nccl" or "gloo", from the names of its entries; "" where it has none.
        ranks: its members; () where the dump does not say, as gloo's does not.
        last_enqueued, last_started, last_completed: numbers of operations, as `pg_status` has them; NONE for never.
            gloo counts sends there, too: they are comparable with `op_id`, not with `collective_seq_id`.
    """

    name: str
    desc: str = ""
    backend: str = ""
    ranks: tuple[int, ...] = ()
    last_enqueued: int = NONE
    last_started: int = NONE
    last_completed: int = NONE

    @property
    def key(self) -> str:
        """What tells it from other groups of the job: the backend, the name and the description."""
        return f"{self.backend}:{self.name}" + (f" ({self.desc})" if self.desc else "")


@dataclass(frozen=True)
class DumpEntries:
    """Entries of the ring buffer, oldest first: one row each.

    Attributes:
        record: int64, `record_id`.
        group: int32, place in `FlightDump.groups`.
        seq: int64, `collective_seq_id`: counts the collectives of its group, one for a coalesced group of them.
        p2p_seq: int64, `p2p_seq_id`: counts sends and receives.
        op: int64, `op_id`: counts operations.
        is_p2p: bool, a send or a receive.
        name: int32, code of `profiling_name` without the backend, such as "all_reduce" or "send 0->1".
        input_sizes, output_sizes: int32, code of the sizes of its tensors, such as "[16, 32], [3]"; NONE for none.
        input_elements, output_elements: int64, elements of all of them.
        input_types, output_types: int32, code of their types, such as "Float"; NONE for none.
        created: int64, when the host has called it, ns since 1970.
        started, completed: int64, when the watchdog has noticed, ns since 1970; NONE for never.
        duration: int64, on the device, ns; NONE without `TORCH_NCCL_ENABLE_TIMING`.
        timeout: int64, ns; NONE where older torch does not say.
        state: int8, code in `STATES`.
        retired: bool, the watchdog watches it no more. gloo's entries stay scheduled, and are retired when done.
        stack: int32, number of the stack of the call; NONE for none.
        thread: int32, code of the thread's name; NONE where older torch does not say.
    """

    record: Int64s
    group: Int32s
    seq: Int64s
    p2p_seq: Int64s
    op: Int64s
    is_p2p: Bools
    name: Int32s
    input_sizes: Int32s
    output_sizes: Int32s
    input_elements: Int64s
    output_elements: Int64s
    input_types: Int32s
    output_types: Int32s
    created: Int64s
    started: Int64s
    completed: Int64s
    duration: Int64s
    timeout: Int64s
    state: Int8s
    retired: Bools
    stack: Int32s
    thread: Int32s

    def __len__(self) -> int:
        return len(self.record)


@dataclass(frozen=True)
class FlightDump:
    """A dump of one rank.

    Attributes:
        url: the file.
        version: of the format, such as "2.10".
        groups: its process groups.
        entries: the ring buffer.
        stacks: of entries: frames as "name file:line", innermost first.
        strings: names, sizes and types, by code.
        library: version of NCCL or RCCL; "" where it does not say.
        written: when the file was written, ns since 1970, by what it or its companion says; NONE where nothing does.
            The times of entries give a lower bound: see `last_time`.
        damage: what is wrong, where it is cut or damaged: the last calls are missing; "" where it is whole.
        more: other facts, such as `nccl_comm_state`, as texts.
        notes: what was left out of it.
    """

    url: str
    version: str
    groups: tuple[DumpedGroup, ...]
    entries: DumpEntries
    stacks: tuple[tuple[str, ...], ...]
    strings: Strings
    library: str = ""
    written: int = NONE
    damage: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    @property
    def last_time(self) -> int:
        """The last time that the dump knows, ns since 1970; NONE of an empty one."""
        columns = (self.entries.created, self.entries.started, self.entries.completed)
        return max([self.written, *(int(each.max(initial=NONE)) for each in columns)])
