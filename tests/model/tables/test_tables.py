"""The declared tables, the keys that they come from, and the border between arrays and columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kinetoscope.errors import UsageError
from kinetoscope.model.tables.tables import TABLES, table
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.arguments import ARGUMENTS
from kinetoscope.model.trace.mangled import demangled
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.drawn import annotation, event, job, kernel, launch, memory, op, python
from tests.snapshots.process import Process
from tests.snapshots.writing import write

OWN = Path(__file__).parents[2] / "traces"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "traces"


GEMM: dict[str, Any] = {
    "grid": [8, 1, 1],
    "block": [128, 2, 1],
    "registers per thread": 32,
    "shared memory": 64,
    "blocks per SM": 0.5,
    "est. achieved occupancy %": 25,
}
COPY: dict[str, Any] = {"bytes": 4096, "memory bandwidth (GB/s)": 1.5}
FRAME: dict[str, Any] = {"Python id": 1, "Python parent id": None}
LINEAR: dict[str, Any] = {"External id": 1, "Input Dims": [[2, 3]]}
ALL_GATHER: dict[str, Any] = {
    "Collective name": "_allgather_base",
    "Process Group Name": "1",
    "Process Group Ranks": "[0, 2]",
    "Group size": 2,
    "In msg nelems": 10,
    "Out msg nelems": 20,
    "dtype": "BFloat16",
    "Seq": 7,
}
SHADOW = {"cat": "gpu_user_annotation", "pid": 0, "tid": 7}


def drawn(folder: Path) -> Trace:
    return job(
        folder,
        annotation("ProfilerStep#3", 0, 900),
        python("nn.Module: Linear_0", 10, 700, **FRAME),
        op("aten::linear", 20, 500, **LINEAR),
        op("aten::mm", 30, 100),
        launch(40, 10, 11),
        launch(200, 10, 12, name="cudaGraphLaunch"),
        launch(300, 10, 0, name="cudaDeviceSynchronize"),
        kernel("gemm", 60, 70, 11, **GEMM),
        kernel("b", 400, 20, 12),
        kernel("a", 350, 20, 12),
        kernel("Memcpy HtoD", 450, 5, 0, category="gpu_memcpy", **COPY),
        memory(50, -64, device=1),
        annotation("ProfilerStep#3", 60, 500) | SHADOW,
        *(op("record_param_comms", 610, 20, **ALL_GATHER), counter("power", 50, watts=250, degrees=61.5)),
    ).trace()


def counter(name: str, time: int, **values: Any) -> dict[str, Any]:
    return {"ph": "C", "cat": "", "name": name, "pid": 0, "ts": time / 1000, "args": values}


def rows(trace: Trace, name: str, *columns: str) -> list[tuple[object, ...]]:
    return table(trace, name).select(columns).rows()


# --- tables


def test_every_table_fits_its_declaration(tmp_path: Path) -> None:
    process = Process()
    process.record()
    process.alloc("zeros", 5000)
    (tmp_path / "snapshots").mkdir()
    write(tmp_path / "snapshots" / "memory.pickle", process.snapshot())
    trace = drawn(tmp_path)
    for name, declared in TABLES.items():
        frame = table(trace, name)
        assert frame.columns == declared.schema.names
        assert declared.schema.conform(frame).height == frame.height > 0, name
        assert all(column.doc.endswith((".", "?")) for column in declared.schema), name


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_can_be_had_of_an_empty_trace(tmp_path: Path, name: str) -> None:
    declared = TABLES[name].schema
    frame = declared.conform(table(job(tmp_path).trace(), name))
    assert frame.schema == declared.empty().schema
    assert frame.height == (1 if name == "steps" else 0)  # the window, with nothing in it


def test_a_table_is_computed_once_and_has_a_name(tmp_path: Path) -> None:
    trace = drawn(tmp_path)
    assert table(trace, "ops") is table(trace, "ops")
    with pytest.raises(UsageError, match="did you mean 'kernels'"):
        table(trace, "kernel")
    with pytest.raises(UsageError, match="tables: events, ops"):
        table(trace, "zebra")


def test_kernels(tmp_path: Path) -> None:
    trace = drawn(tmp_path)
    columns = ("name", "kind", "duration", "launch", "op", "op_name", "device", "stream")
    assert rows(trace, "kernels", *columns) == [
        ("gemm", "computation", 70, 4, 3, "aten::mm", 0, 7),
        ("b", "computation", 20, 5, 2, "aten::linear", 0, 7),
        ("a", "computation", 20, 5, 2, "aten::linear", 0, 7),
        ("Memcpy HtoD", "memcpy", 5, None, None, None, 0, 7),
    ]
    sizes = ("grid", "block", "registers", "shared_memory", "blocks_per_sm", "occupancy", "bytes", "bandwidth")
    assert rows(trace, "kernels", *sizes)[0] == ([8, 1, 1], [128, 2, 1], 32, 64, 0.5, 0.25, None, None)
    assert rows(trace, "kernels", *sizes)[3] == (None, None, None, None, None, None, 4096, 1.5e9)


def test_kernels_know_the_annotations_around_their_launch(tmp_path: Path) -> None:
    trace = job(
        tmp_path,
        annotation("ProfilerStep#3", 0, 900),
        annotation("forward", 10, 100),
        *(launch(20, 5, 1), launch(200, 5, 2), launch(950, 5, 3)),
        *(kernel("a", 30, 5, 1), kernel("b", 300, 5, 2), kernel("c", 960, 5, 3)),
    ).trace()
    assert rows(trace, "kernels", "name", "annotation", "annotation_stack") == [
        ("a", 1, ["ProfilerStep*", "forward"]),
        ("b", 0, ["ProfilerStep*"]),
        ("c", None, None),
    ]


def test_arguments_are_those_of_the_events(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "none": None,
        "yes": True,
        "no": False,
        "half": 0.5,
        "big": 1 << 70,
        "word": 'a"b',
        "nested": {"x": [1, 2]},
    }
    trace = job(tmp_path, op("a", 0, 1, **odd), op("b", 1, 1), op("c", 2, 1, **{"External id": 7})).trace()
    assert rows(trace, "arguments", "row", "key", "value", "number") == [
        *((0, "none", None, None), (0, "yes", "true", None), (0, "no", "false", None), (0, "half", "0.5", 0.5)),
        *((0, "big", str(1 << 70), None), (0, "word", 'a"b', None), (0, "nested", '{"x": [1, 2]}', None)),
        (2, "External id", "7", 7.0),
    ]


@pytest.mark.parametrize("name", ["transformer", "python_export", "name_quote"])
def test_arguments_of_real_traces_are_those_of_the_events(name: str) -> None:
    trace = read(OWN / f"{name}.pt.trace.json.gz").trace()
    found = table(trace, "arguments")
    for row in range(0, len(trace), max(len(trace) // 200, 1)):
        event = trace.event(row)
        expected = event.get("args", {}) if isinstance(event, dict) else {}
        here = found.filter(pl.col("row") == row)
        assert here.get_column("key").to_list() == list(expected)
        texts = [each if isinstance(each, str | None) else json.dumps(each) for each in expected.values()]
        assert here.get_column("value").to_list() == texts


def test_launches(tmp_path: Path) -> None:
    columns = ("row", "name", "op_name", "work", "first_work", "delay")
    assert rows(drawn(tmp_path), "launches", *columns) == [
        (4, "cudaLaunchKernel", "aten::mm", 1, 7, 10),
        (5, "cudaGraphLaunch", "aten::linear", 2, 9, 140),
    ]


def test_launches_whose_work_runs_in_another_order(tmp_path: Path) -> None:
    events = [launch(10, 5, 1), launch(20, 5, 2), kernel("late", 90, 5, 1, stream=8), kernel("soon", 40, 5, 2)]
    assert rows(job(tmp_path, *events).trace(), "launches", "row", "first_work", "delay") == [(0, 2, 75), (1, 3, 15)]


def test_ops(tmp_path: Path) -> None:
    columns = ("name", "parent", "depth", "self_duration", "external_id", "input_dims")
    assert rows(drawn(tmp_path), "ops", *columns) == [
        ("aten::linear", 1, 2, 380, 1, "[[2, 3]]"),
        ("aten::mm", 2, 3, 90, None, None),
        ("record_param_comms", 1, 2, 20, None, None),
    ]


def test_the_other_tables(tmp_path: Path) -> None:
    trace = drawn(tmp_path)
    assert rows(trace, "steps", "step", "host_start", "host_end", "device_end", "origin") == [
        (3, 0, 900, 900, "profiler")
    ]
    assert rows(trace, "memory", "start", "bytes", "device_type", "device", "address") == [(50, -64, 1, 1, None)]
    assert rows(trace, "annotations", "on_device", "thread", "depth") == [(False, 1, 0), (True, 7, None)]
    assert rows(trace, "frames", "name", "is_module", "python_id", "python_parent") == [
        ("nn.Module: Linear_0", True, 1, None)
    ]
    first = ("X", "user_annotation", "annotation", "1", "1")
    assert rows(trace, "events", "phase", "category", "kind", "process", "thread")[0] == first


def test_modules(tmp_path: Path) -> None:
    trace = job(
        tmp_path,
        python("nn.Module: Net_0", 0, 900),
        python("forward", 10, 800),
        python("nn.Module: Linear_0", 20, 300),
        python("nn.Module: Linear_1", 400, 300),
        op("aten::linear", 410, 10),
        python("nn.Module: Norm_0", 5, 20, tid=2),
    ).trace()
    columns = ("row", "module", "parent", "parent_name", "depth", "thread", "duration")
    assert rows(trace, "modules", *columns) == [
        (0, "Net_0", None, None, 0, 1, 900),
        (2, "Linear_0", 0, "nn.Module: Net_0", 1, 1, 300),
        (3, "Linear_1", 0, "nn.Module: Net_0", 1, 1, 300),
        (5, "Norm_0", None, None, 0, 2, 20),
    ]


def test_counters(tmp_path: Path) -> None:
    big: dict[str, Any] = {"a": 2**70, "b": "text", "c": None, "d": True, "": 0}
    trace = job(tmp_path, op("aten::mm", 0, 1), counter("x", 2, b=1.5, a=-3), counter("y", 1, **big)).trace()
    columns = ("row", "name", "process", "start", "key", "value")
    assert rows(trace, "counters", *columns) == [
        (1, "x", "0", 2, "b", 1.5),
        (1, "x", "0", 2, "a", -3.0),
        (2, "y", "0", 1, "a", 2.0**70),
        (2, "y", "0", 1, "", 0.0),
    ]


def test_a_collective_is_the_call_and_the_work_that_it_starts(tmp_path: Path) -> None:
    args = {key: value for key, value in ALL_GATHER.items() if key != "Seq"}
    trace = job(
        tmp_path,
        annotation("nccl:_all_gather_base", 0, 100),
        op("record_param_comms", 10, 80, **ALL_GATHER),
        launch(20, 10, 1),
        kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 40, 60, 1, **args),
        kernel("vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", 200, 10, 9),
        kernel("gemm", 300, 10, 10),
    ).trace()
    columns = ("row", "on_device", "kind", "collective", "process_group", "ranks", "sequence", "bytes")
    assert rows(trace, "collectives", *columns) == [
        (1, False, "all_gather", "_allgather_base", "1", [0, 2], 7, 40),
        (3, True, "all_gather", "_allgather_base", "1", [0, 2], None, 40),
        (4, True, "all_reduce", None, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("name", "elements", "kind", "size"),
    [
        ("allreduce", (6, 6), "all_reduce", 24),
        ("allreduce_coalesced", (6, 6), "all_reduce", 24),
        ("_reduce_scatter_base", (8, 2), "reduce_scatter", 32),
        ("all_gather_into_tensor_coalesced", (2, 8), "all_gather", 32),
        ("all_to_allv", (8, 6), "all_to_all", 32),
        ("broadcast", (3, 3), "broadcast", 12),
        ("reduce", (3, 3), "reduce", 12),
        ("scatter", (8, 2), "scatter", 32),
        ("gather", (2, 8), "gather", 32),
        ("send", (5, 0), "send", 20),
        ("recv", (0, 5), "recv", 20),
        ("barrier", (0, 0), "barrier", None),
        ("wait", (0, 0), None, None),
    ],
)
def test_kinds_and_sizes_of_collectives(
    tmp_path: Path, name: str, elements: tuple[int, int], kind: str | None, size: int | None
) -> None:
    of_it: dict[str, Any] = {
        "Collective name": name,
        "In msg nelems": elements[0],
        "Out msg nelems": elements[1],
        "dtype": "Float",
    }
    trace = job(tmp_path, op("record_param_comms", 0, 1, **of_it)).trace()
    assert rows(trace, "collectives", "kind", "bytes") == [(kind, size)]


@pytest.mark.parametrize(
    "odd", [{"dtype": "Quaternion"}, {"dtype": None}, {"In msg nelems": "many"}, {"In msg nelems": -1}]
)
def test_the_size_of_a_collective_is_not_guessed(tmp_path: Path, odd: dict[str, Any]) -> None:
    of_it: dict[str, Any] = {"Collective name": "allreduce", "In msg nelems": 6, "Out msg nelems": 6, "dtype": "Float"}
    assert rows(job(tmp_path, op("record_param_comms", 0, 1, **of_it)).trace(), "collectives", "bytes") == [(24,)]
    trace = job(tmp_path, op("record_param_comms", 0, 1, **{**of_it, **odd})).trace()
    assert rows(trace, "collectives", "bytes") == [(None,)]


def test_ranks_that_the_argument_cuts_short_are_those_of_the_process_group(tmp_path: Path) -> None:
    of_it: dict[str, Any] = {
        "Collective name": "allreduce",
        "Group size": 40,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1, ...]",
    }
    other = of_it | {"Group size": 39}
    groups = [{"pg_name": "0", "ranks": list(range(40))}, {"pg_name": "1", "ranks": "all"}, 7]
    info = {"backend": "nccl", "rank": 0, "world_size": 40, "pg_config": groups}
    events = (op("record_param_comms", 0, 1, **of_it), op("record_param_comms", 5, 1, **other))
    trace = job(tmp_path, *events, distributedInfo=info).trace()
    assert rows(trace, "collectives", "ranks") == [(list(range(40)),), (None,)]


@pytest.mark.parametrize("name", ["resnet_ddp_mi300/*", "resnet50_v100/num_workers_0/*", "eager_b200/*", "mtia/*"])
def test_columns_of_real_traces_hold_what_the_events_say(name: str) -> None:
    paths = sorted(SHARED.glob(name))
    if not paths:
        pytest.skip(f"{name} is not here: shared traces are not part of the project")
    trace = read(paths[0], jobs=1).trace()
    for table_name, declared in TABLES.items():
        if table_name == "steps":
            continue
        for row in table(trace, table_name)[::97].iter_rows(named=True):
            given = trace.event(row["row"])
            assert row.get("name", demangled(given["name"])) == demangled(given["name"])
            for field in declared.fields:
                values = [given["args"][key] for key in field.keys if key in given.get("args", ())]
                if values and isinstance(values[0], int | float):
                    assert row[field.column.name] == pytest.approx(values[0] * field.scale)


# --- arguments


def test_an_argument_has_one_name_in_all_eras(tmp_path: Path) -> None:
    old: dict[str, Any] = {"external id": 7}
    new: dict[str, Any] = {"External id": 8}
    trace = job(
        tmp_path, op("a", 0, 1, **old), op("b", 1, 1, **new), op("c", 2, 1), op("d", 3, 1, **old, **new)
    ).trace()
    assert arguments.integers(trace, "external_id").tolist() == [7, 8, -1, 8]
    assert arguments.given(trace, "external_id").tolist() == [True, True, False, True]
    assert arguments.integers(trace, "external_id", np.array([1], np.int32)).tolist() == [8]


def test_sizes_that_are_written_as_text(tmp_path: Path) -> None:
    sizes = ["4096", "123 bytes", "12.5", "many", 5, True]
    trace = job(tmp_path, *(launch(i, 1, i) | {"args": {"size": size}} for i, size in enumerate(sizes))).trace()
    assert arguments.integers(trace, "bytes").tolist() == [4096, 123, -1, -1, 5, -1]


def test_numbers_that_are_none(tmp_path: Path) -> None:
    values = ["inf", "nan", "0", "2.5"]
    args = (f'{{"ph":"X","cat":"kernel","name":"k","args":{{"blocks per SM":{value}}}}}' for value in values)
    (tmp_path / "odd.json").write_text(f'{{"traceEvents":[{",".join(args)}]}}')
    found = arguments.floats(read(tmp_path / "odd.json").trace(), "blocks_per_sm")
    assert np.isnan(found).tolist() == [True, True, False, False]
    assert found[2:].tolist() == [0.0, 2.5]


def test_no_argument_is_listed_without_a_key() -> None:
    assert [name for name, keys in ARGUMENTS.items() if not keys or len(set(keys)) < len(keys)] == []
    assert {field.argument for declared in TABLES.values() for field in declared.fields} - {""} <= set(ARGUMENTS)


# --- arrays


def test_missing_values_become_null_and_integers_stay_exact() -> None:
    big = 2**62 + 1
    series = polars_columns.column(np.array([big, 5, 7]), np.array([True, False, True]))
    assert series.dtype == pl.Int64
    assert series.to_list() == [big, None, 7]
    values, valid = polars_columns.integers(series)
    assert (values.tolist(), valid.tolist()) == ([big, 0, 7], [True, False, True])
    assert polars_columns.rows(np.array([3, -1], np.int32)).to_list() == [3, None]
    assert polars_columns.numbers(np.array([np.nan, 1.5])).to_list() == [None, 1.5]


def test_codes_become_enums() -> None:
    asked: list[int] = []

    def label(code: int) -> str:
        asked.append(code)
        return "even" if code % 2 == 0 else f"odd {code}"

    series = polars_columns.labelled(np.array([8, -1, 3, 8, 2]), label)
    assert series.to_list() == ["even", None, "odd 3", "even", "even"]
    assert series.dtype == pl.Enum(["even", "odd 3"])
    assert asked == [2, 3, 8]


@pytest.mark.parametrize("codes", [[], [-1, -1], [5], [0, -1]])
def test_few_codes(codes: list[int]) -> None:
    assert polars_columns.labelled(np.array(codes, np.int32), str).to_list() == [
        None if c < 0 else str(c) for c in codes
    ]


def test_very_many_texts_are_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polars_columns, "ENUM_LIMIT", 2)
    series = polars_columns.labelled(np.array([4, -1, 3]), str)
    assert series.dtype == pl.String
    assert series.to_list() == ["4", None, "3"]


def test_lists_are_decoded_once_for_each_text(tmp_path: Path) -> None:
    odd = ["[8, 1, 1]", "[1.5]", '"grid(100,)"', "[[1]]", "[]", "[99999999999999999999]"]
    events = (f'{{"ph":"X","cat":"kernel","name":"k","args":{{"grid":{text}}}}}' for text in odd)
    (tmp_path / "odd.json").write_text(f'{{"traceEvents":[{",".join(events)}]}}')
    assert table(read(tmp_path / "odd.json").trace(), "kernels")["grid"].to_list() == [
        [8, 1, 1],
        None,
        None,
        None,
        [],
        None,
    ]


def test_two_eras_in_one_file(tmp_path: Path) -> None:
    device = event("kernel", "k", 0, 1, Device=3) | {"pid": "x"}
    trace = job(tmp_path, device, event("kernel", "k", 0, 1, device=2)).trace()
    assert arguments.integers(trace, "device").tolist() == [3, 2]
