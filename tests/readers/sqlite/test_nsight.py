"""Exports of Nsight Systems: what is in the trace is what SQL says of the file, and what is no export is refused."""

from __future__ import annotations

import random
import sqlite3
import struct
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.errors import InputError
from kinetoscope.model.collectives.calls import collective_calls
from kinetoscope.model.counters.sampled import counter_series
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.replays import replays
from kinetoscope.model.timeline.counters import counter_lanes
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.sqlite.database import Database, ReadColumns, Wanted
from tests.catalog.samples import SHARED
from tests.conftest import first_quick

SAMPLES = SHARED.parent / "samples" / "nsight"
FILES = [
    pytest.param(
        SAMPLES / f"{name}.sqlite", id=name, marks=pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no {SAMPLES}")
    )
    for name in ("h100_2gpu_1s", "mfu_2gpu_before", "mock")
]
_PER_PROCESS = 1 << 24
_PID = "/ 16777216 % 16777216"

# --- small exports, drawn

_TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT,"
    " globalPid INT, demangledName INT, shortName INT, registersPerThread INT, gridX INT, gridY INT, gridZ INT,"
    " blockX INT, blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT, graphNodeId INT,"
    " graphId INT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, globalTid INT, correlationId INT, nameId INT",
    "NVTX_EVENTS": "start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT, domainId INT, binaryData",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INT, end INT, deviceId INT, contextId INT, streamId INT,"
    " correlationId INT, globalPid INT, syncType INT, eventSyncId INT",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "timestamp INT, deviceId INT, contextId INT, streamId INT, correlationId INT,"
    " globalPid INT, eventId INT, eventSyncId INT",
    "GPU_METRICS": "timestamp INT, typeId INT, metricId INT, value INT",
    "TARGET_INFO_GPU_METRICS": "typeId INT, metricId INT, metricName TEXT",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INT, cudaId INT, pid INT",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "schemaId INT, type INT, offset INT, name TEXT",
    "OSRT_API": "start INT, end INT",
    "COMPOSITE_EVENTS": "id INT, start INT",
}
_NAMES = {1: "void gemm<float>(int)", 2: "gemm", 3: "cudaLaunchKernel_v7000", 4: "ncclAllReduce"}


def thread(process: int, number: int = 1) -> int:
    return process * _PER_PROCESS + number


def kernel(
    process: int, start: int, end: int, *, device: int = 0, correlation: int = 1, node: int | None = None
) -> tuple[object, ...]:
    grid, block = (2, 1, 1), (128, 1, 1)
    return (start, end, device, 1, 7, correlation, process * _PER_PROCESS, 1, 2, 32, *grid, *block, 16, 1024, node)


def drawn(folder: Path, **tables: Sequence[tuple[object, ...]]) -> Path:
    file = folder / "report.sqlite"
    with sqlite3.connect(file) as connection:
        for name, columns in _TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            count = columns.count(",") + 1
            for row in tables.get(name, ()):
                padded = (*row, *[None] * (count - len(row)))
                connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * count)})", padded)
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", _NAMES.items())
    connection.close()
    return file


def names(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.strings.label(code) for code in trace.name[trace.rows(kind)].tolist()]


def test_processes_with_device_work_are_ranks_in_order_of_devices(tmp_path: Path) -> None:
    file = drawn(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150, device=1), kernel(12, 100, 170)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[(10, 20, thread(9), 1, 3), (30, 45, thread(12), 1, 3), (5, 6, thread(77), 1, 3)],
    )
    job = kinetoscope.read(file)
    assert job.ranks == (0, 1)
    first, second = (job.trace(rank) for rank in job.ranks)
    assert [device_work(each).duration.tolist() for each in (first, second)] == [[70], [50]]
    calls = first.rows(EventKind.RUNTIME)
    assert names(first, EventKind.RUNTIME) == ["cudaLaunchKernel"]
    assert (first.start[calls].tolist(), first.end[calls].tolist()) == ([30], [45])  # numbers repeat between processes
    assert arguments.integers(first, "registers", first.rows(EventKind.KERNEL)).tolist() == [32]
    assert arguments.integers(first, "shared_memory", first.rows(EventKind.KERNEL)).tolist() == [1040]


def test_ranges_are_operators_and_annotations(tmp_path: Path) -> None:
    texts = (
        "aten::mm, seq = 12, op_id = 34, sizes = [[4, 8], [8, 2], []]",
        "Foo<a, b>::run, op_id = 35",
        "epoch 3, batch 4",
        "{'mod': 'Tensor', 'op': 'float', 'args': []}",
    )
    rows: list[tuple[object, ...]] = [
        (10 * n, 10 * n + 9, 59, text, None, thread(9), 0) for n, text in enumerate(texts)
    ]
    rows += [(50, 55, 59, None, 4, thread(9), 1), (60, None, 59, "never ended", None, thread(9), 0)]
    file = drawn(tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150)], NVTX_EVENTS=rows)
    trace = kinetoscope.read(file).trace()
    assert sorted(names(trace, EventKind.HOST_OP)) == ["Foo<a, b>::run", "Tensor.float", "aten::mm"]
    assert sorted(names(trace, EventKind.ANNOTATION)) == ["epoch 3, batch 4", "ncclAllReduce"]
    [mm] = [
        row for row in trace.rows(EventKind.HOST_OP).tolist() if trace.strings.label(int(trace.name[row])) == "aten::mm"
    ]
    event = trace.event(mm)
    assert event["args"] == {"External id": 34, "Sequence number": 12, "Input Dims": [[4, 8], [8, 2], []]}
    assert "RECORDS_LEFT_OUT" in trace.health
    assert str(trace.health["RECORDS_LEFT_OUT"]).startswith("1 record has")


def payload(schema: int, *fields: tuple[str, int]) -> bytes:
    """What NVTX writes of a call of NCCL: 32 bytes, of which the third number is the schema, and the fields."""
    content = b"".join(struct.pack(f"<{width}", value) for width, value in fields)
    return struct.pack("<IIIIQQ", 1, 0, schema, 0, len(content), 32 + len(content)) + content


def nccl(name: str, start: int, said: bytes) -> tuple[object, ...]:
    return (start, start + 9, 59, name, None, thread(9), 1, said)


def test_metrics_of_gpus_are_counters_of_the_devices_that_a_process_uses(tmp_path: Path) -> None:
    of_gpu = 0x1000
    file = drawn(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150), kernel(12, 100, 170)],
        TARGET_INFO_CUDA_DEVICE=[(3, 0, 9), (1, 0, 12)],  # both call the device they see 0
        TARGET_INFO_GPU_METRICS=[
            (of_gpu + gpu, number, name)
            for gpu in (1, 3)
            for number, name in ((7, "SMs Active [Throughput %]"), (9, "PCIe Read Bandwidth [GB/s]"))
        ],
        GPU_METRICS=[
            (time, of_gpu + gpu, number, value)
            for time in (100, 120, 140)
            for gpu in (1, 3)
            for number, value in ((7, 10 * gpu), (9, 2_000_000_000 * gpu))
        ],
    )
    first, second = (kinetoscope.read(file).trace(rank) for rank in (0, 1))
    for trace, gpu in ((first, 3), (second, 1)):
        series = {each.name: each for each in counter_series(trace)}
        busy, link = series["SMs Active [Throughput %]"], series["PCIe Read Bandwidth [GB/s]"]
        assert (busy.source, busy.device, busy.unit, busy.value.tolist()) == ("GPU 0 Counters", 0, "%", [10 * gpu] * 3)
        assert (link.unit, link.value.tolist()) == ("GB/s", [2 * gpu] * 3)
        assert len(trace.rows(EventKind.COUNTER)) == 3  # one event a time, whatever number of metrics
        shown = {title for title in (each.title for each in counter_lanes(trace)) if "SMs Active" in title}
        assert shown == {"GPU 0 Counters · SMs Active [Throughput %]"}
    assert kinetoscope.counters(kinetoscope.read(file)).frame["mean"].to_list() == pytest.approx([6, 30, 2, 10])


def test_payloads_of_nccl_describe_the_kernels_of_their_launches(tmp_path: Path) -> None:
    names = (1 << 40, "ncclDevKernel_AllReduce_Sum_bf16(ncclDevKernelArgs)")
    made, reduced, exchanged = 1, 2, 3
    fields = [
        (made, 18, None, "NCCL communicator ID"),
        (made, 5, 8, "No. of ranks"),
        (reduced, 18, None, "NCCL communicator ID"),
    ]
    fields += [(reduced, 22, 8, "Message size [bytes]"), (exchanged, 22, 1 << 40, "Message size [bytes]")]
    rows = [
        nccl("ncclCommInitRank", 10, payload(made, ("Q", 77), ("I", 4))),
        nccl("ncclAllReduce", 100, payload(reduced, ("Q", 77), ("Q", 4096))),
        nccl("ncclAllGather", 200, payload(reduced, ("Q", 77), ("Q", 1000))),
        nccl("ncclAllGather", 300, payload(reduced, ("Q", 88), ("Q", 1000))),  # of how many ranks, nothing tells
        nccl("ncclGroupStart", 400, b""),
        nccl("ncclSend", 410, payload(reduced, ("Q", 77), ("Q", 30))),
        nccl("ncclSend", 420, payload(reduced, ("Q", 77), ("Q", 40))),
        nccl("ncclRecv", 430, payload(reduced, ("Q", 77), ("Q", 50))),
        nccl("ncclGroupEnd", 440, b""),
        nccl("ncclAllReduce", 500, payload(exchanged)[:20]),  # cut
    ]
    launched = {1: 102, 2: 202, 3: 302, 4: 441, 5: 502}
    kernels = [(*kernel(9, 1000 + 100 * n, 1050 + 100 * n, correlation=n)[:7], names[0]) for n in launched]
    file = drawn(
        tmp_path,
        StringIds=[names],
        CUPTI_ACTIVITY_KIND_KERNEL=[each + kernel(9, 0, 0)[8:] for each in kernels],
        CUPTI_ACTIVITY_KIND_RUNTIME=[(at, at + 3, thread(9), number, 3) for number, at in launched.items()],
        NVTX_EVENTS=rows,
        NVTX_PAYLOAD_SCHEMA_ENTRIES=fields,
    )
    calls = collective_calls(kinetoscope.read(file).trace())
    assert calls["kind"].to_list() == ["all_reduce", "all_gather", "all_gather", "send_recv", "all_reduce"]
    assert calls["bytes"].to_list() == [4096, 4000, None, 70, None]
    assert calls["group_size"].to_list() == [4, 4, None, 4, None]
    assert calls["dtype"].null_count() == 5


def test_work_of_graphs_has_its_graph_and_is_joined_to_the_capture(tmp_path: Path) -> None:
    calls = {5: "cudaStreamBeginCapture_v10000", 6: "cudaStreamEndCapture_v10000", 7: "cudaGraphLaunch_v10000"}
    node = [(10, 14, 1, 5), (20, 24, 2, 3), (30, 34, 3, 3), (40, 44, 4, 6), (100, 104, 5, 7), (200, 204, 6, 7)]
    work = [
        (*kernel(9, start + at, start + at + 5, correlation=correlation, node=(3 << 32) + at), 3)
        for start, correlation in ((110, 5), (210, 6))
        for at in (10, 20)
    ]
    file = drawn(
        tmp_path,
        StringIds=list(calls.items()),
        CUPTI_ACTIVITY_KIND_KERNEL=work,
        CUPTI_ACTIVITY_KIND_RUNTIME=[(start, end, thread(9), number, name) for start, end, number, name in node],
        NVTX_EVENTS=[
            (15, 28, 59, "aten::mm, op_id = 1", None, thread(9), 0, None),
            (29, 38, 59, "aten::add, op_id = 2", None, thread(9), 0, None),
        ],
    )
    job = kinetoscope.read(file)
    every = replays(job.trace())
    assert (every.graph.tolist(), every.sizes.tolist(), len({*every.template.tolist()})) == ([3, 3], [2, 2], 1)
    assert kinetoscope.graph_nodes(job).frame["operator"].to_list() == ["aten::mm", "aten::add"]


def test_waits_for_events_name_the_stream_that_they_wait_for(tmp_path: Path) -> None:
    file = drawn(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150)],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            (160, 170, 0, 1, 7, 21, thread(9, 0), 2, 40),
            (180, 190, 0, 1, (1 << 32) - 1, 22, thread(9, 0), 1, 41),
        ],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[(0, 0, 1, 13, 20, thread(9, 0), 5, 40)],
    )
    trace = kinetoscope.read(file).trace()
    rows = trace.rows(EventKind.DEVICE_SYNC)
    assert names(trace, EventKind.DEVICE_SYNC) == ["Stream Wait Event", "Event Sync"]
    assert arguments.integers(trace, "wait_on_stream", rows).tolist() == [13, -1]
    assert arguments.integers(trace, "wait_on_record", rows).tolist() == [20, -1]
    assert arguments.integers(trace, "stream", rows).tolist() == [7, -1]


def test_a_file_of_several_processes_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = drawn(tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9 + n, 100, 150 + n, device=n) for n in range(4)])
    read: list[str] = []
    real = Database.read

    def counted(self: Database, table: str, wanted: Wanted) -> ReadColumns:
        read.append(table)
        return real(self, table, wanted)

    monkeypatch.setattr(Database, "read", counted)
    job = kinetoscope.read(file)
    assert [device_work(job.trace(rank)).duration.tolist() for rank in job.ranks] == [[50], [51], [52], [53]]
    assert read.count("CUPTI_ACTIVITY_KIND_RUNTIME") == 1


def test_what_has_no_place_in_a_trace_is_counted_in_words(tmp_path: Path) -> None:
    file = drawn(
        tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150)], OSRT_API=[(1, 2)] * 3, COMPOSITE_EVENTS=[(1, 2)]
    )
    said = str(kinetoscope.read(file).trace().health["KINDS_NOT_READ"])
    assert (
        said
        == "Records of Nsight Systems that are not read: calls of the operating system (3), samples of the CPU (1)."
    )


def test_values_of_other_types_count_as_none(tmp_path: Path) -> None:
    odd = list(kernel(9, 100, 150))
    odd[0] = "soon"
    deep = list(kernel(9, 100, 150))
    deep[9] = b"\0\1"
    file = drawn(
        tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[tuple(odd), tuple(deep)], NVTX_EVENTS=[(1, 2, 59, 17, "x", thread(9), 0)]
    )
    trace = kinetoscope.read(file).trace()
    assert device_work(trace).duration.tolist() == [50]
    assert "RECORDS_LEFT_OUT" in trace.health


def test_what_is_no_export_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "history.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE visits (id INTEGER)")
    connection.close()
    with pytest.raises(InputError, match="SQLite, but of no profiler") as caught:
        kinetoscope.read(file).trace()
    assert "\n" not in str(caught.value)


def test_a_report_is_exported_by_nsys_or_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "train.nsys-rep"
    report.write_bytes(b"\0" * 100)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="nsys export --type sqlite --lazy=false train"):
        kinetoscope.read(report).trace()
    exported = drawn(tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150)])
    program = tmp_path / "nsys"
    program.write_text(
        f"#!{sys.executable}\nimport shutil, sys\n"
        f"shutil.copy({str(exported)!r}, sys.argv[sys.argv.index('--output') + 1])\n"
    )
    program.chmod(0o755)
    assert device_work(kinetoscope.read(report).trace()).duration.tolist() == [50]


def test_views_and_virtual_tables_are_not_asked(tmp_path: Path) -> None:
    file = drawn(tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150)])
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TABLE NVTX_EVENTS")
        endless = (
            "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end FROM n"
        )
        connection.execute(f"CREATE VIEW NVTX_EVENTS AS {endless}")
    connection.close()
    assert len(device_work(kinetoscope.read(file).trace())) == 1


@pytest.mark.parametrize("seed", first_quick(range(40)))
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    file = drawn(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100 * n, 100 * n + 50, correlation=n) for n in range(200)],
        NVTX_EVENTS=[(100 * n, 100 * n + 60, 59, f"aten::mm, op_id = {n}", None, thread(9), 0) for n in range(200)],
    )
    rng, data = random.Random(seed), bytearray(file.read_bytes())
    for _ in range(rng.randint(1, 60)):
        data[rng.randrange(16, len(data))] = rng.randrange(256)
    file.write_bytes(data[: rng.randint(len(data) // 3, len(data))] if seed % 3 == 0 else data)
    try:
        said = str(kinetoscope.read(file).trace().health.symptoms)
    except InputError as error:
        said = str(error)
    assert "\n" not in said


def test_what_the_program_does_not_record_is_said_once_and_no_option_of_torch_is_named(tmp_path: Path) -> None:
    file = drawn(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150)],
        CUPTI_ACTIVITY_KIND_RUNTIME=[(10, 20, thread(9), 1, 3)],
        NVTX_EVENTS=[(5, 30, 59, "aten::mm, op_id = 1", None, thread(9), 0)],
    )
    job = kinetoscope.read(file)
    health = job.trace().health
    assert [each.code for each in health if each.code in ("NO_TENSORS", "NO_SHAPES", "NO_STACKS", "NO_MEMORY")] == [
        "NO_TENSORS"
    ]
    advice = kinetoscope.advise(job)
    written = "\n".join([*map(str, health), *(f"{each.message} {each.change}" for each in advice.findings)])
    assert not any(word in written for word in ("prof.step", "record_shapes", "with_stack", "profile_memory"))


_ODD = (None, "", -1, 1 << 62, -(1 << 63), 1.5, float("inf"), "x", b"\xff\0", "9" * 30)


@pytest.mark.parametrize("seed", first_quick(range(300)))
def test_files_with_other_values_and_without_tables_are_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    file = drawn(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=[
            kernel(9 + n % 2, 100 * n, 100 * n + 50, device=n % 2, correlation=n) for n in range(20)
        ],
        CUPTI_ACTIVITY_KIND_RUNTIME=[(100 * n, 100 * n + 9, thread(9 + n % 2), n, 3) for n in range(20)],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[(160, 170, 0, 1, 7, 21, thread(9, 0), 2, 40)],
        CUPTI_ACTIVITY_KIND_CUDA_EVENT=[(0, 0, 1, 13, 20, thread(9, 0), 5, 40)],
        GPU_METRICS=[(time, device, 1, time) for time in range(9) for device in (0, 1)],
        TARGET_INFO_GPU_METRICS=[(0, 1, "SMs Active [Throughput %]")],
        NVTX_PAYLOAD_SCHEMA_ENTRIES=[(1, 18, None, "NCCL communicator ID"), (1, 22, 8, "Message size [bytes]")],
        NVTX_EVENTS=[nccl("ncclAllReduce", 100 * n, payload(1, ("Q", 7), ("Q", 64))) for n in range(20)],
    )
    rng = random.Random(seed)
    with closing(sqlite3.connect(file)) as connection:
        for _ in range(rng.randint(1, 5)):
            table = rng.choice([*_TABLES])
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            if not names or rng.random() < 0.1:
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            elif len(names) > 1 and rng.random() < 0.3:
                connection.execute(
                    f'ALTER TABLE {table} RENAME COLUMN "{rng.choice(names)}" TO other_{rng.getrandbits(60)}'
                )
            else:
                with suppress(sqlite3.Error):  # a key takes integers alone
                    change = f'UPDATE {table} SET "{rng.choice(names)}" = ? WHERE rowid % ? = 0'
                    connection.execute(change, (rng.choice(_ODD), rng.choice((1, 3))))
        connection.commit()
    try:
        job = kinetoscope.read(file)
        said = "".join(str(job.trace(rank).health.symptoms) for rank in job.ranks)
    except InputError as error:
        said = str(error)
    assert "\n" not in said


def test_a_definition_that_is_no_text_is_damage(tmp_path: Path) -> None:
    file = drawn(tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150)])
    file.write_bytes(file.read_bytes().replace(b"shortName INT", b"sh\xaartN\xe4me,NT"))
    with pytest.raises(InputError, match="damaged"):
        kinetoscope.read(file).trace()


# --- real ones


def traces(file: Path) -> dict[int, Trace]:
    """The trace of each process; of the only one by 0."""
    job = kinetoscope.read(file)
    return {int(job.trace(rank).source.part or 0): job.trace(rank) for rank in job.ranks}


def asked(file: Path, table: str, process: int, column: str) -> list[tuple[int, ...]]:
    where = f" WHERE {column} {_PID} = {process}" if process else ""
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as connection:
        return sorted(connection.execute(f'SELECT start, "end" FROM {table}{where}').fetchall())


@pytest.mark.parametrize("file", FILES)
def test_each_record_is_there_with_its_times(file: Path) -> None:
    kinds = {
        EventKind.KERNEL: ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"),
        EventKind.MEMCPY: ("CUPTI_ACTIVITY_KIND_MEMCPY", "globalPid"),
        EventKind.RUNTIME: ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
    }
    for process, trace in traces(file).items():
        for kind, (table, column) in kinds.items():
            rows = trace.rows(kind)
            there = sorted(
                zip((trace.start[rows] + trace.base).tolist(), (trace.end[rows] + trace.base).tolist(), strict=True)
            )
            wanted = asked(file, table, process, column)
            shift = there[0][0] - wanted[0][0] if wanted else 0
            assert [(start - shift, end - shift) for start, end in there] == wanted


@pytest.mark.parametrize("file", FILES[1:2])
def test_kernels_launched_below_ranges_belong_to_operators(file: Path) -> None:
    for trace in traces(file).values():
        work = device_work(trace)
        launched = work.launch >= 0
        assert launched.mean() > 0.98
        assert (work.op[launched] >= 0).mean() >= 0.99
