from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope import Selection, operator_launch_delay
from tests import drawn

COLUMNS = ("operator", "sequence", "calls", "operator_delay", "launch_delay", "device_time")


def rows(folder: Path, *events: drawn.Event, columns: tuple[str, ...] = COLUMNS, **how: Any) -> list[tuple[Any, ...]]:
    return operator_launch_delay(drawn.job(folder, *events), **how).frame.select(columns).rows()


def call(name: str, start: int, number: int, *kernels: str, tid: int = 1) -> list[drawn.Event]:
    """An operator that launches these kernels, the first 5 ns after its start; each begins 100 ns after its launch."""
    events = [drawn.op(name, start, 50, tid=tid)]
    for place, kernel in enumerate(kernels):
        events.append(drawn.launch(start + 5 + 6 * place, 4, number + place, tid=tid))
        events.append(drawn.kernel(kernel, start + 105 + 6 * place, 6, number + place))
    return events


def test_calls_with_the_same_sequence_are_one_row(tmp_path: Path) -> None:
    events = [
        *call("aten::mm", 0, 1, "gemm"),
        *call("aten::mm", 100, 10, "gemm"),
        *call("aten::mm", 200, 20, "gemm", "reduce"),
        *call("aten::mm", 300, 30, "reduce", "gemm"),
        *call("aten::add", 400, 40, "gemm"),
    ]
    assert rows(tmp_path, *events) == [
        ("aten::mm", "gemm", 2, 10, 200, 12),
        ("aten::add", "gemm", 1, 5, 100, 6),
        ("aten::mm", "gemm -> reduce", 1, 5, 100, 12),
        ("aten::mm", "reduce -> gemm", 1, 5, 100, 12),
    ]
    others = ("kernels", "operator_delay_mean", "launch_delay_mean", "names")
    assert rows(tmp_path, *events, columns=others)[:1] == [(1, 5, 100, ["gemm"])]


def test_a_launch_belongs_to_the_innermost_operator_of_its_own_thread(tmp_path: Path) -> None:
    events = [
        drawn.op("aten::linear", 0, 90),
        drawn.op("aten::addmm", 10, 70),
        drawn.op("mylib::inner", 15, 30),  # of another kind
        drawn.op("aten::mul", 18, 60, tid=2),  # HTA takes this one, which started last
        drawn.launch(20, 5, 1),
        drawn.launch(82, 5, 2),  # after addmm
        drawn.kernel("gemm", 40, 9, 1),
        drawn.kernel("bias", 85, 9, 2),
    ]
    assert rows(tmp_path, *events) == [
        ("aten::linear", "bias", 1, 82, 3, 9),
        ("aten::addmm", "gemm", 1, 10, 20, 9),
    ]
    assert rows(tmp_path, *events, operators="")[1] == ("mylib::inner", "gemm", 1, 5, 20, 9)


def test_a_graph_is_a_sequence_of_which_the_text_shows_the_beginning(tmp_path: Path) -> None:
    graph = [drawn.launch(5, 5, 1, name="cudaGraphLaunch")]
    graph += [drawn.kernel(f"k{n}", 50 + 10 * n, 5, 1) for n in range(2000)]
    [(text, names, kernels)] = rows(
        tmp_path, drawn.op("aten::replay", 0, 20), *graph, columns=("sequence", "names", "kernels")
    )
    assert text == "k0 -> k1 -> k2 -> k3 -> k4 -> k5 -> k6 -> k7 -> … (1992 more)"
    assert names == [f"k{n}" for n in range(2000)]
    assert kernels == 2000


def test_copies_can_be_left_out(tmp_path: Path) -> None:
    events = [
        drawn.op("aten::sum", 0, 50),
        drawn.launch(5, 2, 1, name="cudaMemsetAsync"),
        drawn.launch(9, 2, 2, name="hipModuleLaunchKernel"),
        drawn.kernel("Memset", 10, 1, 1, category="gpu_memset"),
        drawn.kernel("reduce", 20, 3, 2),
    ]
    assert rows(tmp_path, *events) == [("aten::sum", "Memset -> reduce", 1, 5, 5, 4)]
    assert rows(tmp_path, *events, copies=False) == [("aten::sum", "reduce", 1, 9, 11, 3)]


def test_what_is_in_no_operator_is_counted(tmp_path: Path) -> None:
    events = [*call("triton::fused", 0, 1, "fused"), *call("aten::mm", 100, 5, "gemm", "gemm")]
    result = operator_launch_delay(drawn.job(tmp_path, *events))
    assert result.frame["operator"].to_list() == ["aten::mm"]
    assert result.notes == ("1 of 3 launches are in no operator whose name begins with aten::, and are left out.",)
    nothing = operator_launch_delay(drawn.job(tmp_path, *events), operators="c10d::")
    assert len(nothing) == 0
    assert nothing.notes[-1] == "3 of 3 launches are in no operator whose name begins with c10d::, and are left out."


def test_a_range_of_time_selects_launches(tmp_path: Path) -> None:
    events = [*call("aten::mm", 0, 1, "gemm", "reduce"), *call("aten::mm", 100, 5, "gemm")]
    select = Selection(time=(10, 200))
    assert rows(tmp_path, *events, columns=("sequence", "operator_delay"), select=select) == [
        ("reduce", 11),
        ("gemm", 5),
    ]
