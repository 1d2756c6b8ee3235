"""Results of rocprofv3 as JSON (`--output-format json`): kernels, their counters, copies, calls, markers of a process.

The text is one object with a list of processes, each with tables of symbols and agents, and records that name their
rows. Times are ns of the machine's clock since it was started.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.trace.build import Coded, TraceBuilder
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.strings import mapping
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.readers.byte_ranges import Texts
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.kernel_counters import add_counters
from kinetoscope.readers.left_out import kinds_not_read, records_left_out, without_tensors
from kinetoscope.readers.reader import Reader
from kinetoscope.readers.sqlite import nvtx

_TOOL: Final = "rocprofiler-sdk-tool"
_GPU: Final = 2
"""`type` of an agent that is a device."""

_MAX_TIME: Final = 1 << 62
_CALLS: Final = ("hip_api", "hsa_api")
_LIBRARIES: Final = ("rccl_api", "rocdecode_api", "rocjpeg_api")
_NOT_READ: Final = ("memory_allocation", "scratch_memory", "pc_sample_host_trap", "pc_sample_stochastic")

_Record = Mapping[str, Any]


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of all processes in a file; rocprofv3 writes a file for each.

    Raises:
        NotFoundError, LimitError: the file cannot be read.
        BrokenTraceError: it is cut or damaged.
    """
    with opened(source, progress=progress) as blocks:
        text = b"".join(blocks)
    try:
        every = json.loads(text)[_TOOL]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        said = f"{source.url}: results of rocprofv3 that are cut or damaged; copy them again, or record again"
        raise BrokenTraceError(said) from error
    built = TraceBuilder()
    processes = [_Process(each, built) for each in _records(every)]
    for process in processes:
        process.read()
    devices = [device for process in processes[:1] for device in process.listed_devices()]
    return built.build(
        source,
        metadata={"rocprofiler_version": "rocprofv3", "deviceProperties": devices},
        text_bytes=len(text),
        notes=tuple(_notes(processes)),
    )


def _notes(processes: Sequence[_Process]) -> Iterator[Note]:
    counts = {name: sum(len(each.records(name)) for each in processes) for name in _NOT_READ}
    yield from kinds_not_read("Records of rocprofv3", counts)
    yield from records_left_out(sum(each.left_out for each in processes))
    yield without_tensors("rocprofv3", "operators only where the program marks them")


class _Process:
    """The records of a process, given to a `TraceBuilder`."""

    def __init__(self, facts: _Record, built: TraceBuilder) -> None:
        self.left_out = 0
        self._facts, self._built = facts, built
        self._pid = _integer(mapping(facts.get("metadata")).get("pid")) or 0
        agents = _records(facts.get("agents"))
        self._devices = [each for each in agents if each.get("type") == _GPU]
        self._numbers = {_handle(each.get("id")): number for number, each in enumerate(self._devices)}
        symbols = _records(facts.get("kernel_symbols"))
        self._symbols = {_integer(each.get("kernel_id")): _name_of(each) for each in symbols}
        named = mapping(facts.get("strings"))
        kinds = _records(named.get("buffer_records"))
        self._operations = [each.get("operations") for each in kinds]
        self._messages = {_integer(each.get("key")): each.get("value") for each in _records(named.get("marker_api"))}

    def records(self, name: str) -> Sequence[_Record]:
        """Records of a kind."""
        return _records(mapping(self._facts.get("buffer_records")).get(name))

    def listed_devices(self) -> Iterator[dict[str, Any]]:
        """The devices, as Kineto lists them."""
        for number, each in enumerate(self._devices):
            units, name = each.get("cu_count"), each.get("product_name") or each.get("name")
            listed = {"id": number, "name": name if isinstance(name, str) else ""}
            yield listed | ({"maxComputeUnits": units} if isinstance(units, int) else {})

    @cached_property
    def _counted(self) -> Sequence[_Record]:
        """The dispatches with counters, each with its `records` of these."""
        every = _records(mapping(self._facts.get("callback_records")).get("counter_collection"))
        return [{**each, **mapping(each.get("dispatch_data"))} for each in every]

    def read(self) -> None:
        """Read all records."""
        self._kernels()
        self._counters()
        self._copies()
        for names, kind in ((_CALLS, EventKind.RUNTIME), (_LIBRARIES, EventKind.ANNOTATION)):
            for name in names:
                self._calls(name, kind)
        self._markers()
        self._built.name_process(f"process {self._pid}", process=self._pid)

    def _rows(self, records: Sequence[_Record], *keys: Callable[[_Record], Any]) -> list[tuple[Any, ...]]:
        """Facts of records as `_placed`; those that have none are counted."""
        rows = self._placed(records, *keys)
        self.left_out += len(records) - len(rows)
        return rows

    def _placed(self, records: Sequence[_Record], *keys: Callable[[_Record], Any]) -> list[tuple[Any, ...]]:
        """Start, end, thread, correlation and other facts of the records that have them."""
        rows = []
        for each in records:
            times = _integer(each.get("start_timestamp")), _integer(each.get("end_timestamp"))
            facts = tuple(key(each) for key in keys)
            if None in times or not all(0 <= time <= _MAX_TIME for time in times if time is not None) or None in facts:
                continue
            thread = _integer(each.get("thread_id")) or 0
            correlation = _integer(mapping(each.get("correlation_id")).get("internal"))
            rows.append((*times, thread, -1 if correlation is None else correlation, *facts))
        return rows

    def _kernels(self) -> None:
        records = self.records("kernel_dispatch")
        known = {*map(_dispatch, records)}
        alone = [each for each in self._counted if _dispatch(each) not in known]  # only counters were asked for
        keys = self._device, _stream, self._kernel, _blocks, _group, _shared
        rows = [*self._rows(records, *keys), *self._placed(alone, *keys)]
        if not rows:
            return
        start, end, _, correlation, device, stream, name, grid, block, shared = zip(*rows, strict=True)
        self._built.add(
            EventKind.KERNEL,
            _coded(name),
            start,
            end,
            process=np.array(device),
            thread=np.array(stream),
            device=np.array(device),
            stream=np.array(stream),
            correlation=np.array(correlation),
            shared_memory=np.array(shared),
            grid=_coded(grid),
            block=_coded(block),
        )

    def _counters(self) -> None:
        facts = _records(self._facts.get("counters"))
        counters = {_handle(each.get("id")): str(each.get("name") or "") for each in facts}
        rows = self._rows(self._counted, self._device, _stream, self._kernel, _values)
        if not rows:
            return
        start, end, _, _, device, stream, name, values = zip(*rows, strict=True)
        counts = [len(each) for each in values]
        every = [pair for each in values for pair in each]
        add_counters(
            self._built,
            np.repeat(np.arange(len(rows)), counts),
            _coded([counters.get(handle, "") for handle, _ in every]),
            np.array([value for _, value in every], np.float64),
            names=_coded(name),
            start=np.array(start, np.int64),
            end=np.array(end, np.int64),
            process=np.array(device),
            thread=np.array(stream),
        )

    def _copies(self) -> None:
        rows = self._rows(
            self.records("memory_copy"), self._copied, _stream, lambda each: _integer(each.get("bytes")) or 0
        )
        if not rows:
            return
        start, end, _, correlation, ends, stream, size = zip(*rows, strict=True)
        sides = [["Host" if each < 0 else "Device" for each in pair] for pair in ends]
        device = np.array([max(pair) for pair in ends])
        self._built.add(
            EventKind.MEMCPY,
            _coded([f"Memcpy {one[0]}to{other[0]} ({one} -> {other})" for one, other in sides]),
            start,
            end,
            process=device,
            thread=np.array(stream),
            device=device,
            stream=np.array(stream),
            correlation=np.array(correlation),
            bytes=np.array(size),
        )

    def _calls(self, name: str, kind: EventKind) -> None:
        rows = self._rows(self.records(name), self._operation)
        if not rows:
            return
        start, end, thread, correlation, operation = zip(*rows, strict=True)
        joined = {"correlation": np.array(correlation)} if kind == EventKind.RUNTIME else {}
        self._built.add(
            kind,
            _coded(operation),
            start,
            end,
            process=self._pid,
            thread=np.array(thread),
            **joined,
        )

    def _markers(self) -> None:
        rows = self._rows(self.records("marker_api"), self._message)
        if not rows:
            return
        start, end, thread, _, texts = (np.array(column) for column in zip(*rows, strict=True))
        said = nvtx.ranges(Texts.of([str(text) for text in texts.tolist()]))
        for kind, chosen in ((EventKind.HOST_OP, said.is_operator), (EventKind.ANNOTATION, ~said.is_operator)):
            if chosen.any():
                at, until, of_thread = start[chosen], end[chosen], thread[chosen]
                self._built.add(kind, said.name.at(chosen), at, until, process=self._pid, thread=of_thread)

    # --- facts of a record; None where it has them not

    def _device(self, record: _Record) -> int | None:
        return self._numbers.get(_handle(mapping(record.get("dispatch_info")).get("agent_id")))

    def _kernel(self, record: _Record) -> str | None:
        return self._symbols.get(_integer(mapping(record.get("dispatch_info")).get("kernel_id")), "")

    def _copied(self, record: _Record) -> tuple[int, int]:
        """The devices that a copy is from and to; −1 for the host."""
        ends = (record.get("src_agent_id"), record.get("dst_agent_id"))
        one, other = (self._numbers.get(_handle(end), -1) for end in ends)
        return one, other

    def _operation(self, record: _Record) -> str:
        kind, number = _integer(record.get("kind")) or 0, _integer(record.get("operation")) or 0
        operations = self._operations[kind] if 0 <= kind < len(self._operations) else None
        known = isinstance(operations, list) and 0 <= number < len(operations)
        return str(operations[number]) if known and operations is not None else f"operation {number}"

    def _message(self, record: _Record) -> str:
        key = _integer(mapping(record.get("correlation_id")).get("internal"))
        said = self._messages.get(key)
        return said if isinstance(said, str) else self._operation(record)


def _name_of(symbol: _Record) -> str:
    names = (symbol.get(key) for key in ("formatted_kernel_name", "demangled_kernel_name", "kernel_name"))
    return next((name for name in names if isinstance(name, str) and name), "")


def _stream(record: _Record) -> int:
    stream = _handle(record.get("stream_id"))
    queue = _handle(mapping(record.get("dispatch_info")).get("queue_id"))
    return stream or queue or 0


def _dispatch(record: _Record) -> int | None:
    return _integer(mapping(record.get("dispatch_info")).get("dispatch_id"))


def _values(record: _Record) -> list[tuple[int | None, float]]:
    """Counters and their values, NaN for what is no number."""
    pairs = ((_handle(each.get("counter_id")), each.get("value")) for each in _records(record.get("records")))
    return [(counter, float(value) if isinstance(value, (int, float)) else math.nan) for counter, value in pairs]


def _group(record: _Record) -> tuple[int, ...]:
    sizes = mapping(mapping(record.get("dispatch_info")).get("workgroup_size"))
    return tuple(max(_integer(sizes.get(axis)) or 1, 1) for axis in "xyz")


def _blocks(record: _Record) -> tuple[int, ...]:
    """Groups of the grid, which the record counts in work-items."""
    items = mapping(mapping(record.get("dispatch_info")).get("grid_size"))
    pairs = zip((_integer(items.get(axis)) or 0 for axis in "xyz"), _group(record), strict=True)
    return tuple(-(-count // size) for count, size in pairs)


def _shared(record: _Record) -> int:
    return _integer(mapping(record.get("dispatch_info")).get("group_segment_size")) or 0


def _coded(values: Sequence[Any]) -> Coded:
    """A column whose values are few, each once."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    codes = np.array([places[value] for value in values], np.int64)
    return Coded(codes, [[*value] if isinstance(value, tuple) else value for value in places])


def _records(value: object) -> list[_Record]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _handle(value: object) -> int | None:
    return _integer(mapping(value).get("handle"))


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_TIME else None


def _recognised(_: str, head: bytes) -> bool:
    return head[:200].lstrip().startswith(b"{") and f'"{_TOOL}"'.encode() in head[:200]


READER: Final = Reader("rocprof", load, _recognised, richness=2, suffixes=("_results.json", "_results.json.gz"))
