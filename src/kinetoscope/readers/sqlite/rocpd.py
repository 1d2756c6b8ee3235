"""ROCm's rocpd databases, which rocprofv3 writes since ROCm 7: kernels, copies, calls of HIP and HSA, markers.

Each table has a suffix of its own for each process that was recorded (`rocpd_string_0000…`); files of several processes
can be merged. Times are those of the machine's clock since it was started. The tables are defined in
rocprofiler-sdk's source/share/rocprofiler-sdk-rocpd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import match_first
from kinetoscope.model.trace.build import Coded, TraceBuilder
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.strings import json_object
from kinetoscope.notes import Note
from kinetoscope.readers.byte_ranges import Texts
from kinetoscope.readers.kernel_counters import add_counters
from kinetoscope.readers.left_out import kinds_not_read, without_tensors
from kinetoscope.readers.sqlite import nvtx
from kinetoscope.readers.sqlite.content import Content, in_order
from kinetoscope.readers.sqlite.database import MISSING, Database, ReadProcess, Wanted

_METADATA: Final = "rocpd_metadata"
_NOT_READ: Final = {"rocpd_sample": "samples", "rocpd_memory_allocate": "allocations of memory"}
"""Tables of records that are not in the trace; a note counts them."""

_SIDES_OF_KERNELS: Final = tuple(f"{what}_size_{axis}" for what in ("grid", "workgroup") for axis in "xyz")
_PLACED: Final = ("pid", "start", "end", "event_id", "queue_id", "stream_id")

_WANTED: Final[Mapping[str, Wanted]] = {
    "rocpd_string": Wanted(("id",), texts=("string",)),
    "rocpd_info_process": Wanted(("id", "pid")),
    "rocpd_info_thread": Wanted(("id", "tid")),
    "rocpd_info_agent": Wanted(("id", "type_index"), texts=("type", "product_name", "name", "extdata")),
    "rocpd_info_pmc": Wanted(("id",), texts=("name",)),
    "rocpd_pmc_event": Wanted(("event_id", "pmc_id"), numbers=("value",)),
    "rocpd_info_kernel_symbol": Wanted(("id",), texts=("display_name",)),
    "rocpd_event": Wanted(("id", "category_id", "stack_id", "correlation_id"), texts=("extdata",)),
    "rocpd_kernel_dispatch": Wanted((*_PLACED, "agent_id", "kernel_id", "group_segment_size", *_SIDES_OF_KERNELS)),
    "rocpd_memory_copy": Wanted((*_PLACED, "dst_agent_id", "src_agent_id", "size")),
    "rocpd_region": Wanted(("pid", "start", "end", "event_id", "tid", "name_id")),
}
"""Columns that are read, by table."""

_MARKERS: Final = ("MARKER", "ROCTX")
_LIBRARIES: Final = ("RCCL", "ROCDECODE", "ROCJPEG")
"""Words in the categories of regions: of markers, and of libraries above HIP."""


_SIDES: Final = {"GPU": "Device", "CPU": "Host"}
"""Ends of a copy, by the kind of the agent, as Kineto calls them."""


def fits(database: Database) -> bool:
    """True for a rocpd database."""
    return bool(_suffixes(database.tables))


def processes(database: Database) -> list[int]:
    """The processes that work on devices: by device, then by their first work."""
    wanted = {name: _WANTED[name] for name in ("rocpd_info_process", "rocpd_info_agent")}
    wanted["rocpd_kernel_dispatch"] = Wanted(("pid", "agent_id", "start"))
    work = []
    for suffix in _suffixes(database.tables):
        each = _ProcessTables(Content(database, {name + suffix: columns for name, columns in wanted.items()}), suffix)
        rows = each.integers("rocpd_kernel_dispatch", ("pid", "agent_id", "start"))
        work.append((each.pids(rows["pid"]), each.devices(rows["agent_id"]), rows["start"]))
    return in_order(work, lambda pids: pids)


def content(database: Database) -> Content:
    """The columns that are read of a file."""
    suffixes = _suffixes(database.tables)
    wanted = {name + suffix: columns for suffix in suffixes for name, columns in _WANTED.items()}
    return Content(database, wanted, [name + suffix for suffix in suffixes for name in _NOT_READ])


def read(content: Content, process: int | None) -> ReadProcess:
    """The events of a process; of all where it is None."""
    built = TraceBuilder()
    tables = [_ProcessTables(content, suffix) for suffix in _suffixes(content.tables)]
    for each in tables:
        _Events(each, built, process).read()
    listed = {row["id"]: row for each in tables for row in each.listed_devices()}
    return ReadProcess(
        built,
        {"rocprofiler_version": "rocpd", "deviceProperties": [listed[number] for number in sorted(listed)]},
        tuple(_notes(tables)),
    )


def _suffixes(tables: Sequence[str]) -> list[str]:
    return sorted(name.removeprefix(_METADATA) for name in tables if name.startswith(_METADATA))


def _notes(tables: Sequence[_ProcessTables]) -> Iterator[Note]:
    counts = {what: sum(each.count(name) for each in tables) for name, what in _NOT_READ.items()}
    yield from kinds_not_read("Records of rocprofv3", counts)
    yield without_tensors("rocprofv3", "operators only where the program marks them")


@dataclass(frozen=True)
class _ProcessTables:
    """The tables of one suffix."""

    content: Content
    suffix: str

    def integers(self, table: str, columns: Sequence[str]) -> dict[str, Int64s]:
        """Columns of integers; see `Content.integers`."""
        return self.content.integers(table + self.suffix, columns)

    def texts(self, table: str, column: str) -> list[str]:
        """A column of texts."""
        return self.content.texts(table + self.suffix, column).listed()

    def count(self, table: str) -> int:
        """Rows of a table."""
        return self.content.count(table + self.suffix)

    def by_id(self, table: str, column: str) -> dict[int, str]:
        """Texts of a table by the id of their row."""
        return dict(zip(self.integers(table, ("id",))["id"].tolist(), self.texts(table, column), strict=True))

    @cached_property
    def strings(self) -> dict[int, str]:
        """The table of strings."""
        return self.by_id("rocpd_string", "string")

    @cached_property
    def _pids(self) -> dict[int, int]:
        rows = self.integers("rocpd_info_process", ("id", "pid"))
        return dict(zip(rows["id"].tolist(), rows["pid"].tolist(), strict=True))

    @cached_property
    def tids(self) -> dict[int, int]:
        """The thread that each row of threads is about."""
        rows = self.integers("rocpd_info_thread", ("id", "tid"))
        return dict(zip(rows["id"].tolist(), rows["tid"].tolist(), strict=True))

    def pids(self, rows: Int64s) -> Int64s:
        """The processes that rows of processes are about."""
        known = _mapped(rows, self._pids)
        return np.where(known == MISSING, rows, known)

    @cached_property
    def _agents(self) -> dict[int, tuple[str, int]]:
        rows = self.integers("rocpd_info_agent", ("id", "type_index"))
        kinds = self.texts("rocpd_info_agent", "type")
        pairs = zip(kinds, rows["type_index"].tolist(), strict=True)
        return dict(zip(rows["id"].tolist(), pairs, strict=True))

    def kind(self, agent: int) -> str:
        """GPU, CPU, or "" where unknown."""
        return self._agents.get(agent, ("", MISSING))[0]

    def devices(self, agents: Int64s) -> Int64s:
        """The number of each device among those of its kind."""
        return _mapped(agents, {agent: number for agent, (_, number) in self._agents.items()})

    def listed_devices(self) -> Iterator[dict[str, Any]]:
        """The devices, as Kineto lists them."""
        rows = self.integers("rocpd_info_agent", ("id", "type_index"))
        columns = ("type", "product_name", "name", "extdata")
        texts = zip(*(self.texts("rocpd_info_agent", name) for name in columns), strict=True)
        for number, (kind, product, name, more) in zip(rows["type_index"].tolist(), texts, strict=True):
            if kind == "GPU":
                facts = json_object(more)
                units = facts.get("cu_count")
                listed = {"id": number, "name": product or name}
                yield listed | ({"maxComputeUnits": units} if isinstance(units, int) else {})


class _Events:
    """The events of a process in the tables of one suffix, given to a `TraceBuilder`."""

    def __init__(self, tables: _ProcessTables, built: TraceBuilder, process: int | None) -> None:
        self._tables, self._built, self._process = tables, built, process
        rows = tables.integers("rocpd_event", ("id", "category_id", "stack_id", "correlation_id"))
        self._categories = dict(zip(rows["id"].tolist(), rows["category_id"].tolist(), strict=True))
        joined = np.where(rows["stack_id"] > 0, rows["stack_id"], rows["correlation_id"])
        self._correlations = dict(zip(rows["id"].tolist(), joined.tolist(), strict=True))

    def read(self) -> None:
        """Read all tables."""
        self._kernels()
        self._copies()
        self._regions()

    def _rows(self, table: str) -> dict[str, Int64s]:
        """Rows of the process with possible times."""
        rows = self._tables.integers(table, _WANTED[table].integers)
        chosen = (rows["start"] >= 0) & (rows["end"] >= 0)
        if self._process is not None:
            chosen &= self._tables.pids(rows["pid"]) == self._process
        return {name: column[chosen] for name, column in rows.items()}

    def _kernels(self) -> None:
        sides = _SIDES_OF_KERNELS
        rows = self._rows("rocpd_kernel_dispatch")
        names = self._tables.by_id("rocpd_info_kernel_symbol", "display_name")
        group = np.stack([np.maximum(rows[name], 1) for name in sides[3:]], axis=1)
        grid = np.stack([rows[name] for name in sides[:3]], axis=1)
        blocks = -(-grid // group)  # the grid counts work-items
        named = _named(rows["kernel_id"], names)
        self._counters(rows, named)
        self._work(
            EventKind.KERNEL,
            named,
            rows,
            shared_memory=np.maximum(rows["group_segment_size"], 0),
            grid=Coded.of(blocks, list),
            block=Coded.of(group, list),
        )

    def _counters(self, kernels: Mapping[str, Int64s], names: Coded) -> None:
        """Values of hardware counters."""
        counted = self._tables.integers("rocpd_pmc_event", ("event_id", "pmc_id"))
        value = self._tables.content.numbers("rocpd_pmc_event" + self._tables.suffix, "value")
        counter = _named(counted["pmc_id"], self._tables.by_id("rocpd_info_pmc", "name"))
        kernel = match_first(counted["event_id"], kernels["event_id"])
        add_counters(
            self._built,
            kernel.astype(np.int64),
            counter,
            value,
            names=names,
            start=kernels["start"],
            end=kernels["end"],
            process=self._tables.devices(kernels["agent_id"]),
            thread=_stream(kernels),
        )

    def _copies(self) -> None:
        rows = self._rows("rocpd_memory_copy")
        ends = np.stack([rows["src_agent_id"], rows["dst_agent_id"]], axis=1)
        to_device = np.array([self._tables.kind(agent) == "GPU" for agent in rows["dst_agent_id"].tolist()], np.bool_)
        rows["agent_id"] = np.where(to_device, rows["dst_agent_id"], rows["src_agent_id"])
        self._work(EventKind.MEMCPY, Coded.of(ends, self._copy_name), rows, bytes=rows["size"])

    def _copy_name(self, agents: Sequence[int]) -> str:
        """The name that Kineto gives a copy between two agents."""
        one, other = (_SIDES.get(self._tables.kind(agent), "Unknown") for agent in agents)
        return f"Memcpy {one[0]}to{other[0]} ({one} -> {other})"

    def _work(self, kind: EventKind, names: Coded, rows: Mapping[str, Int64s], **arguments: Any) -> None:
        if not len(rows["start"]):
            return
        device = self._tables.devices(rows["agent_id"])
        stream = _stream(rows)
        self._built.add(
            kind,
            names,
            rows["start"],
            rows["end"],
            process=device,
            thread=stream,
            device=device,
            stream=stream,
            correlation=_mapped(rows["event_id"], self._correlations),
            **arguments,
        )

    def _regions(self) -> None:
        rows = self._rows("rocpd_region")
        if not len(rows["start"]):
            return
        categories = _named(_mapped(rows["event_id"], self._categories), self._tables.strings)
        is_marker, is_library = (
            np.array([any(word in name.upper() for word in words) for name in categories.values], np.bool_)[
                categories.codes
            ]
            for words in (_MARKERS, _LIBRARIES)
        )
        names = _named(rows["name_id"], self._tables.strings)
        self._host(EventKind.RUNTIME, names, rows, ~is_marker & ~is_library, joined=True)
        self._host(EventKind.ANNOTATION, names, rows, is_library)
        said = nvtx.ranges(Texts.of(self._messages(rows, names, is_marker)))
        markers = {name: column[is_marker] for name, column in rows.items()}
        self._host(EventKind.HOST_OP, said.name, markers, said.is_operator)
        self._host(EventKind.ANNOTATION, said.name, markers, ~said.is_operator)

    def _messages(self, rows: Mapping[str, Int64s], names: Coded, chosen: Bools) -> list[str]:
        """Texts of markers: the message that is kept with the event, else the name."""
        events = rows["event_id"][chosen].tolist()
        more = self._tables.by_id("rocpd_event", "extdata") if events else {}
        messages = (json_object(more.get(event, "")).get("message") for event in events)
        written = (names.values[code] for code in names.codes[chosen].tolist())
        return [said if isinstance(said, str) and said else name for said, name in zip(messages, written, strict=True)]

    def _host(
        self, kind: EventKind, names: Coded, rows: Mapping[str, Int64s], chosen: Bools, *, joined: bool = False
    ) -> None:
        if not chosen.any():
            return
        arguments = {"correlation": _mapped(rows["event_id"][chosen], self._correlations)} if joined else {}
        self._built.add(
            kind,
            names.at(chosen),
            rows["start"][chosen],
            rows["end"][chosen],
            process=self._tables.pids(rows["pid"][chosen]),
            thread=_mapped(rows["tid"][chosen], self._tables.tids),
            **arguments,
        )


def _stream(rows: Mapping[str, Int64s]) -> Int64s:
    return np.where(rows["stream_id"] > 0, rows["stream_id"], rows["queue_id"])


def _mapped(keys: Int64s, values: Mapping[int, int]) -> Int64s:
    """The value of each key; `MISSING` for none."""
    used, places = np.unique(keys, return_inverse=True)
    return np.array([values.get(key, MISSING) for key in used.tolist()], np.int64)[places]


def _named(keys: Int64s, names: Mapping[int, str]) -> Coded:
    return Coded.of(keys, lambda key: names.get(key, ""))
