from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope import Selection, hardware_counters, read
from kinetoscope.schema import Result
from tests import drawn

ADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
SHARE = "sm__throughput.avg.pct_of_peak_sustained_elapsed"


def counted(kernel: str, start: int, **values: Any) -> drawn.Event:
    """A kernel that was replayed for its counters."""
    return drawn.event("cuda_profiler_range", kernel, start, 50, pid=0, tid=0, **values)


def answer(folder: Path, *events: drawn.Event, **asked: Any) -> Result:
    return hardware_counters(drawn.job(folder, *events), **asked)


def rows(result: Result) -> list[tuple[Any, ...]]:
    names = ("outer_operator", "operator", "kernel", "counter", "calls", "total", "mean", "min", "max")
    return [tuple(row[name] for name in names) for row in result.frame.to_dicts()]


def linear(start: int, *launches: drawn.Event) -> list[drawn.Event]:
    return [drawn.op("aten::linear", start, 100), drawn.op("aten::addmm", start + 10, 80), *launches]


HOST = [
    *linear(0, drawn.launch(20, 5, 1), drawn.launch(30, 5, 2)),
    drawn.op("aten::relu", 200, 50),
    drawn.launch(210, 5, 3),
]
RANGES = [
    counted("gemm", 1000, **{ADD: 10, SHARE: 40.0}),
    counted("bias", 1050, **{ADD: 20, SHARE: 60.0}),
    counted("relu", 1100, **{ADD: 5, SHARE: 8.0}),
]


def test_counters_go_to_the_operators_in_order_of_the_launches(tmp_path: Path) -> None:
    assert rows(answer(tmp_path, *reversed(RANGES), *HOST)) == [
        ("aten::linear", "aten::addmm", None, SHARE, 2, None, 50.0, 40.0, 60.0),
        ("aten::relu", "aten::relu", "relu", SHARE, 1, None, 8.0, 8.0, 8.0),
        ("aten::linear", "aten::addmm", None, ADD, 2, 30.0, 15.0, 10.0, 20.0),
        ("aten::relu", "aten::relu", "relu", ADD, 1, 5.0, 5.0, 5.0, 5.0),
    ]


def test_kernels_can_be_told_apart(tmp_path: Path) -> None:
    found = [row[:4] + row[5:6] for row in rows(answer(tmp_path, *RANGES, *HOST, by="kernel")) if row[3] == ADD]
    assert found == [
        ("aten::linear", "aten::addmm", "bias", ADD, 20.0),
        ("aten::linear", "aten::addmm", "gemm", ADD, 10.0),
        ("aten::relu", "aten::relu", "relu", ADD, 5.0),
    ]


def test_launches_by_the_driver_count_once(tmp_path: Path) -> None:
    """A runtime call that passes its launch on to the driver is one launch; Triton calls the driver alone."""
    passed_on = drawn.event("cuda_driver", "cuLaunchKernel", 21, 2, correlation=1)
    triton = drawn.event("cuda_driver", "cuLaunchKernel", 310, 5, correlation=4)
    ranges = [*RANGES, counted("triton_poi", 1150, **{ADD: 7})]
    events = [*HOST, passed_on, drawn.op("triton", 300, 50), triton]
    found = {row[1]: row[5] for row in rows(answer(tmp_path, *ranges, *events)) if row[3] == ADD}
    assert found == {"aten::addmm": 30.0, "aten::relu": 5.0, "triton": 7.0}


def test_where_the_driver_s_launches_were_not_replayed_those_of_the_runtime_decide(tmp_path: Path) -> None:
    driver = drawn.event("cuda_driver", "cuLaunchKernel", 310, 5, correlation=4)
    found = {row[1]: row[5] for row in rows(answer(tmp_path, *RANGES, *HOST, driver)) if row[3] == ADD}
    assert found == {"aten::addmm": 30.0, "aten::relu": 5.0}


def test_what_cannot_be_paired_has_no_operator(tmp_path: Path) -> None:
    """HTA stops with an error."""
    result = answer(tmp_path, *RANGES[:2], *HOST)
    assert [row for row in rows(result) if row[3] == ADD] == [(None, None, None, ADD, 2, 30.0, 15.0, 10.0, 20.0)]
    assert result.notes == (
        "2 ranges and 3 calls that launch kernels: the counts differ, so the operators are unknown.",
    )


def test_counters_that_are_0_everywhere_come_last(tmp_path: Path) -> None:
    ranges = [counted(name, 1000 + k, **{"a.sum": 0, "b.sum": k}) for k, name in enumerate("xyz")]
    assert answer(tmp_path, *ranges, *HOST).frame["counter"].to_list() == ["b.sum", "b.sum", "a.sum", "a.sum"]


def test_selections_go_by_the_launch(tmp_path: Path) -> None:
    windows = [drawn.annotation("ProfilerStep#0", 0, 150), drawn.annotation("ProfilerStep#1", 150, 150)]
    chosen = answer(tmp_path, *RANGES, *HOST, *windows, select=Selection(steps=(1,)))
    assert [row[1] for row in rows(chosen)] == ["aten::relu"] * 2


def test_values_that_are_no_numbers_are_none(tmp_path: Path) -> None:
    ranges = [counted(f"k{k}", 1000 + k, a=value) for k, value in enumerate(["text", float("inf"), 1e308])]
    [row] = rows(answer(tmp_path, *ranges, *HOST))
    assert row[4:] == (1, 1e308, 1e308, 1e308, 1e308)


def test_without_counters_there_is_a_note(tmp_path: Path) -> None:
    result = answer(tmp_path, *HOST)
    assert len(result) == 0
    [note] = result.notes
    assert note.code == "NOT_RECORDED"


# --- HTA's own answers


def test_the_kernel_that_htas_own_test_looks_at(shared_traces: Path) -> None:
    frame = hardware_counters(read(shared_traces / "cupti_counters", jobs=1), by="kernel").frame
    fft = frame.filter(frame["kernel"].str.starts_with("void fft2d_r2c_32x32"), counter=ADD)
    assert set(fft["outer_operator"]) == {"aten::conv2d"}
    assert set(fft["operator"]) == {"aten::cudnn_convolution"}
    assert 86_114_304 in fft["max"].to_list()


def test_the_names_of_kernels_fit_their_operators(shared_traces: Path) -> None:
    """Nothing but the order links a range to its launch; here the names show that it does."""
    frame = hardware_counters(read(shared_traces / "cupti_counters", jobs=1), by="kernel").frame
    pairs = {
        "max_pool": "aten::max_pool2d_with_indices",
        "fft2d": "aten::cudnn_convolution",
        "globalKernel": "aten::addmm",
    }
    for part, operator in pairs.items():
        assert set(frame.filter(frame["kernel"].str.contains(part))["operator"]) == {operator}
