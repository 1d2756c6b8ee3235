"""Databases of rocprofv3: kernels, copies, calls and markers of each process, whatever the suffix of the tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import kinetoscope
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_SUFFIX = "_0000a1b2_c3d4_7e5f_8a6b_0123456789ab"
_TABLES = {
    "metadata": "id INTEGER PRIMARY KEY, tag TEXT, value TEXT",
    "string": "id INTEGER PRIMARY KEY, guid TEXT, string TEXT",
    "info_process": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT",
    "info_thread": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT, tid INT",
    "info_agent": "id INTEGER PRIMARY KEY, guid TEXT, type TEXT, type_index INT, name TEXT, product_name TEXT,"
    " extdata TEXT",
    "info_kernel_symbol": "id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT",
    "event": "id INTEGER PRIMARY KEY, guid TEXT, category_id INT, stack_id INT, correlation_id INT, extdata TEXT",
    "region": "id INTEGER PRIMARY KEY, guid TEXT, nid INT, pid INT, tid INT, start INT, end INT, name_id INT,"
    " event_id INT",
    "kernel_dispatch": "id INTEGER PRIMARY KEY, guid TEXT, pid INT, tid INT, agent_id INT, kernel_id INT, queue_id INT,"
    " stream_id INT, start INT, end INT, group_segment_size INT, workgroup_size_x INT, workgroup_size_y INT,"
    " workgroup_size_z INT, grid_size_x INT, grid_size_y INT, grid_size_z INT, event_id INT",
    "memory_copy": "id INTEGER PRIMARY KEY, guid TEXT, pid INT, tid INT, start INT, end INT, dst_agent_id INT,"
    " src_agent_id INT, size INT, queue_id INT, stream_id INT, event_id INT",
    "info_pmc": "id INTEGER PRIMARY KEY, guid TEXT, name TEXT NOT NULL",
    "pmc_event": "id INTEGER PRIMARY KEY, guid TEXT, event_id INT, pmc_id INT, value REAL DEFAULT 0.0",
    "memory_allocate": "id INTEGER PRIMARY KEY, guid TEXT, pid INT, start INT, end INT, size INT",
}
_STRINGS = {
    1: "HIP_RUNTIME_API",
    2: "MARKER_CORE_API",
    3: "KERNEL_DISPATCH",
    4: "hipLaunchKernel",
    5: "roctxRangePushA",
}


def drawn(folder: Path) -> Path:
    """Two processes: one kernel each, and one of them with a copy and markers of torch."""
    file = folder / "results.db"
    with sqlite3.connect(file) as connection:
        for name, columns in _TABLES.items():
            connection.execute(f"CREATE TABLE rocpd_{name}{_SUFFIX} ({columns})")

        def add(table: str, **values: object) -> None:
            names, marks = ", ".join(values), ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO rocpd_{table}{_SUFFIX} ({names}) VALUES ({marks})", [*values.values()])

        add("metadata", tag="schema_version", value="3")
        for number, text in _STRINGS.items():
            add("string", id=number, string=text)
        for number, pid in ((1, 900), (2, 901)):
            add("info_process", id=number, pid=pid)
            add("info_thread", id=number, pid=number, tid=pid + 50)
        add("info_agent", id=1, type="CPU", type_index=0, name="EPYC", product_name="EPYC", extdata="{}")
        for number in (0, 1):
            facts = '{"cu_count": 304}'
            add(
                "info_agent",
                id=2 + number,
                type="GPU",
                type_index=number,
                name="gfx942",
                product_name="AMD Instinct MI300X",
                extdata=facts,
            )
        add("info_kernel_symbol", id=7, kernel_name="gemm.kd", display_name="gemm(float*)")
        for number, (category, stack, extra) in enumerate(
            (
                (1, 31, "{}"),
                (3, 31, "{}"),
                (2, 40, '{"message": "aten::mm, op_id = 3"}'),
                (2, 41, '{"message": "epoch"}'),
                (3, 32, "{}"),
                (0, 33, "{}"),
            ),
            1,
        ):
            add("event", id=number, category_id=category, stack_id=stack, correlation_id=0, extdata=extra)
        add("region", pid=1, tid=1, start=100, end=130, name_id=4, event_id=1)
        add("region", pid=1, tid=1, start=90, end=140, name_id=5, event_id=3)
        add("region", pid=1, tid=1, start=80, end=300, name_id=5, event_id=4)
        sizes = {
            "workgroup_size_x": 256,
            "workgroup_size_y": 1,
            "workgroup_size_z": 1,
            "grid_size_x": 1000,
            "grid_size_y": 1,
            "grid_size_z": 1,
        }
        add(
            "kernel_dispatch",
            pid=1,
            tid=1,
            agent_id=3,
            kernel_id=7,
            queue_id=4,
            stream_id=0,
            start=150,
            end=260,
            group_segment_size=64,
            event_id=2,
            **sizes,
        )
        add(
            "kernel_dispatch",
            pid=2,
            tid=2,
            agent_id=2,
            kernel_id=7,
            queue_id=4,
            stream_id=2,
            start=150,
            end=250,
            group_segment_size=0,
            event_id=5,
            **sizes,
        )
        add(
            "memory_copy",
            pid=1,
            tid=1,
            start=270,
            end=280,
            dst_agent_id=3,
            src_agent_id=1,
            size=4096,
            queue_id=4,
            stream_id=0,
            event_id=6,
        )
        for number, name in ((1, "SQ_WAVES"), (2, "GRBM_GUI_ACTIVE")):
            add("info_pmc", id=number, name=name)
        for counter, value in ((1, 0.5), (1, 7.5), (2, 1000)):
            add("pmc_event", event_id=2, pmc_id=counter, value=value)
        add("pmc_event", event_id=77, pmc_id=1, value=3)
        add("memory_allocate", pid=1, start=1, end=2, size=64)
    connection.close()
    return file


def names(trace: Trace, kind: EventKind) -> list[str]:
    return [trace.strings.label(code) for code in trace.name[trace.rows(kind)].tolist()]


def test_each_process_is_a_rank_with_its_work_and_markers(tmp_path: Path) -> None:
    job = kinetoscope.read(drawn(tmp_path))
    other, trace = (job.trace(rank) for rank in job.ranks)  # in the order of devices
    assert device_work(other).duration.tolist() == [100]
    work = device_work(trace)
    assert (work.duration.tolist(), work.device.tolist(), work.stream.tolist()) == ([110, 10], [1, 1], [4, 4])
    assert names(trace, EventKind.KERNEL) == ["gemm(float*)"]
    assert names(trace, EventKind.MEMCPY) == ["Memcpy HtoD (Host -> Device)"]
    assert names(trace, EventKind.RUNTIME) == ["hipLaunchKernel"]
    assert (names(trace, EventKind.HOST_OP), names(trace, EventKind.ANNOTATION)) == (["aten::mm"], ["epoch"])
    [kernel, _] = work.rows.tolist()
    assert trace.strings.label(int(trace.name[work.launch[0]])) == "hipLaunchKernel"
    assert trace.strings.label(int(trace.name[work.op[0]])) == "aten::mm"
    assert trace.event(kernel)["args"]["grid"] == [4, 1, 1]  # of 1,000 work-items in groups of 256
    assert arguments.integers(trace, "bytes", trace.rows(EventKind.MEMCPY)).tolist() == [4096]
    assert trace.metadata["deviceProperties"][1] == {"id": 1, "name": "AMD Instinct MI300X", "maxComputeUnits": 304}
    assert str(trace.health["KINDS_NOT_READ"]) == "Records of rocprofv3 that are not read: allocations of memory (1)."


def test_counters_of_the_hardware_are_those_of_the_kernels_and_their_operators(tmp_path: Path) -> None:
    job = kinetoscope.read(drawn(tmp_path))
    rows = kinetoscope.hardware_counters(job).frame.select("rank", "operator", "counter", "calls", "total").rows()
    assert rows == [(1, "aten::mm", "GRBM_GUI_ACTIVE", 1, 1000.0), (1, "aten::mm", "SQ_WAVES", 1, 8.0)]
    assert len(device_work(job.trace(1))) == 2  # the copies with the values are no work


def test_suffixes_do_not_matter_and_files_of_other_programs_are_refused(tmp_path: Path) -> None:
    file = drawn(tmp_path)
    with sqlite3.connect(file) as connection:
        for name in _TABLES:
            connection.execute(f"ALTER TABLE rocpd_{name}{_SUFFIX} RENAME TO rocpd_{name}")
    connection.close()
    assert len(kinetoscope.read(file).ranks) == 2
