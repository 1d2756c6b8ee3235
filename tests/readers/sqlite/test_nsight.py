"""Exports of Nsight Systems: what is in the trace is what SQL says of the file, and what is no export is refused."""

from __future__ import annotations

import random
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.errors import InputError
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
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
    " blockX INT, blockY INT, blockZ INT, staticSharedMemory INT, dynamicSharedMemory INT, graphNodeId INT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, globalTid INT, correlationId INT, nameId INT",
    "NVTX_EVENTS": "start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT, domainId INT",
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
            for row in tables.get(name, ()):
                connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
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


def test_work_of_graphs_has_its_node(tmp_path: Path) -> None:
    file = drawn(tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=[kernel(9, 100, 150, node=5), kernel(9, 160, 170)])
    trace = kinetoscope.read(file).trace()
    rows = trace.rows(EventKind.KERNEL)
    assert sorted(arguments.integers(trace, "graph_node", rows).tolist()) == [-1, 5]


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
