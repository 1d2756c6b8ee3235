from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Job, Selection, read, roofline
from kinetoscope.analyses.roofline import By, _exact
from kinetoscope.model.roofline.headroom import PARTS
from kinetoscope.schema import Result
from tests import drawn
from tests.catalog.samples import SHARED, required
from tests.conftest import few_examples
from tests.notes import codes

A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000, "computeMajor": 8, "numSms": 108}
BF16, MEMORY, HOST_LINK = 312e12, 2039e9, 31.5e9
TENSOR = "ampere_bf16_s16816gemm_bf16_128x64_tn"
POINTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor>"


def op(name: str, start: int, duration: int, dims: object, dtype: str = "c10::BFloat16", **args: Any) -> drawn.Event:
    types = [dtype] * len(dims) if isinstance(dims, list) else []
    return drawn.op(name, start, duration, **{"Input Dims": dims, "Input type": types, **args})


def call(
    name: str, start: int, dims: object, *durations: int, kernel: str = POINTWISE, **more: Any
) -> list[drawn.Event]:
    """A call of an operator that launches kernels of some durations; correlations follow from its start."""
    events = [op(name, start, 90, dims)]
    for number, duration in enumerate(durations):
        events.append(drawn.launch(start + 5 * number, 2, start + number + 1))
        events.append(drawn.kernel(kernel, 1_000_000 + 50_000 * start, duration, start + number + 1, **more))
    return events


def product(start: int, n: int, duration: int, **more: Any) -> list[drawn.Event]:
    return call("aten::mm", start, [[n, n], [n, n]], duration, kernel=TENSOR, **more)


def answer(folder: Path, *events: drawn.Event, devices: list[Any] | None = None, **asked: Any) -> Result:
    job = drawn.job(folder, *events, deviceProperties=[A100] if devices is None else devices)
    return roofline(job, **asked)


def test_a_large_product_is_bound_by_arithmetic(tmp_path: Path) -> None:
    [row] = answer(tmp_path, *product(100, 4096, 1_000_000)).frame.to_dicts()
    floor = 2 * 4096**3 / BF16 * 1e9
    assert (row["name"], row["bound"], row["certainty"], row["precision"]) == ("aten::mm", "compute", "exact", "bf16")
    assert (row["floor"], row["headroom"]) == (round(floor), round(1_000_000 - floor))
    assert row["efficiency"] == pytest.approx(floor / 1_000_000)
    assert (row["peak"], row["peak_bandwidth"]) == (BF16, MEMORY)
    assert row["bytes"] == 3 * 4096**2 * 2
    assert row["intensity"] == pytest.approx(2 * 4096**3 / (3 * 4096**2 * 2))
    assert row["rate"] == pytest.approx(2 * 4096**3 / 1e-3)


def test_elementwise_work_is_bound_by_memory(tmp_path: Path) -> None:
    n = 64 << 20
    [row] = answer(tmp_path, *call("aten::mul", 100, [[n], [n]], 400_000)).frame.to_dicts()
    assert (row["bound"], row["bytes"], row["flop"]) == ("memory", 6 * n, 0)
    assert row["floor"] == round(6 * n / MEMORY * 1e9)
    assert row["bandwidth"] == pytest.approx(6 * n / 400_000e-9)
    assert row["below_bandwidth"] == row["headroom"]
    assert row["peak"] == 19.5e12  # of plain arithmetic


def test_what_is_shorter_than_a_kernel_can_be_is_bound_by_latency(tmp_path: Path) -> None:
    small = call("aten::mul", 100, [[1000], [1000]], 2_000)
    [row] = answer(tmp_path, *small).frame.to_dicts()
    assert (row["bound"], row["in_l2"]) == ("latency", True)
    assert row["small_kernels"] == row["headroom"] == 2_000 - row["at_limit"]


def test_a_copy_from_the_host_is_bound_by_the_link(tmp_path: Path) -> None:
    size = 100_000_000
    copy = [op("aten::copy_", 100, 90, [[size // 4], [size // 4]], "float"), drawn.launch(105, 2, 7)]
    copy.append(drawn.kernel("Memcpy HtoD (Pinned -> Device)", 300, 8_000_000, 7, category="gpu_memcpy", bytes=size))
    [row] = answer(tmp_path, *copy).frame.to_dicts()
    assert (row["name"], row["bound"], row["bytes"]) == ("aten::copy_", "link", size)
    assert row["peak_bandwidth"] == HOST_LINK
    assert row["links"] == row["headroom"] == 8_000_000 - row["floor"]


def test_what_has_no_floor_is_named_with_its_share(tmp_path: Path) -> None:
    result = answer(
        tmp_path,
        *product(100, 4096, 700_000),
        *call("my::op", 300, [[8]], 200_000),
        drawn.kernel("graph_kernel", 90_000_000, 100_000, 99),
    )
    rows = {row["name"]: row for row in result.frame.to_dicts()}
    assert rows["my::op"]["certainty"] == "not covered: no formula"
    assert rows["graph_kernel"]["certainty"] == "not covered: no operator"
    assert [rows["my::op"][name] for name in ("floor", "efficiency", "headroom", "bound", "flop")] == [None] * 5
    assert rows["my::op"]["uncovered"] == 200_000
    assert result.notes[0] == (
        "Formulas cover 70.0% of the device time of the whole recording; not covered: my::op 20.0%, graph_kernel 10.0%."
    )
    assert "A100 80 GB SXM" in result.notes[1]


def test_an_unknown_device_has_no_floors(tmp_path: Path) -> None:
    result = answer(tmp_path, *product(100, 4096, 700_000), devices=[])
    [row] = result.frame.to_dicts()
    assert (row["certainty"], row["floor"], row["flop"]) == ("not covered: peak unknown", None, None)
    assert row["formula_time"] == row["device_time"] > row["covered_time"]
    assert "PEAKS_UNKNOWN" in codes(result.notes)


def test_faster_than_the_floor_without_a_cache_is_said(tmp_path: Path) -> None:
    result = answer(tmp_path, *product(100, 4096, 1_000))
    [row] = result.frame.to_dicts()
    assert row["efficiency"] > 100
    assert (row["headroom"], row["at_limit"], row["in_l2"]) == (0, 1_000, False)
    assert "FASTER_THAN_FLOORS" in codes(result.notes)


def test_multiprocessors_without_a_block_lose_their_share_of_the_time(tmp_path: Path) -> None:
    # 1.25 rounds of blocks take the time of 2: 37.5 % of it multiprocessors have none.
    [row] = answer(tmp_path, *product(100, 4096, 1_000_000, **{"blocks per SM": 1.25})).frame.to_dicts()
    assert row["unfilled"] == 375_000
    assert row["unfilled"] + row["below_peak"] == row["headroom"]


def test_kernels_share_the_floor_of_their_call_by_time(tmp_path: Path) -> None:
    events = call("aten::mm", 100, [[4096, 4096]] * 2, 600_000, 200_000, kernel=TENSOR)
    events[-1]["name"] = "splitKreduce_kernel"
    [whole] = answer(tmp_path, *events).frame.to_dicts()
    first, second = answer(tmp_path, *events, by="kernel").frame.to_dicts()
    assert (first["device_time"], second["device_time"]) == (600_000, 200_000)
    assert first["floor"] == pytest.approx(3 * second["floor"], abs=2)
    assert first["floor"] + second["floor"] == pytest.approx(whole["floor"], abs=1)
    assert first["efficiency"] == pytest.approx(second["efficiency"])


def test_steps_have_what_was_launched_in_them(tmp_path: Path) -> None:
    marks = [drawn.annotation(f"ProfilerStep#{number}", 1000 * number, 1000) for number in range(2)]
    events = [*product(100, 4096, 700_000), *product(1100, 2048, 300_000), *product(1300, 2048, 400_000)]
    frame = answer(tmp_path, *marks, *events, by="step").frame
    assert frame["step"].to_list() == [0, 1]
    assert frame["device_time"].to_list() == [700_000, 700_000]
    assert frame["calls"].to_list() == [1, 2]
    [row] = answer(tmp_path, *marks, *events, by="step", select=Selection(steps=(1,))).frame.to_dicts()
    assert (row["step"], row["device_time"]) == (1, 700_000)


def consistent(job: Job) -> None:
    whole = roofline(job, by="op").frame
    assert len(whole)
    for by in get_args(By):
        frame = roofline(job, by=by).frame
        assert (frame.select(PARTS).sum_horizontal() == frame["device_time"]).all()
        assert (frame.select(PARTS).min_horizontal() >= 0).all()
        assert (frame["covered_time"] + frame["uncovered"] == frame["device_time"]).all()
        if by != "step":
            assert frame["device_time"].sum() == whole["device_time"].sum()
            assert frame["floor"].sum() == pytest.approx(whole["floor"].sum(), abs=len(frame) + len(whole))


def test_parts_sum_to_device_time_and_all_rows_to_the_same(tmp_path: Path) -> None:
    events = [
        *product(100, 4096, 700_000, **{"blocks per SM": 1.4}),
        *call("aten::mul", 300, [[1 << 20], [1 << 20]], 30_000),
        *call("aten::add", 500, [[1 << 20], [1 << 20]], 20_000),
        *call("aten::mul", 700, [[100], [100]], 1_500, 1_700),
        *call("my::op", 900, [[8]], 200_000),
    ]
    consistent(drawn.job(tmp_path, *events, deviceProperties=[A100]))


REAL = {
    "owlv2_h100/google_owlv2-large-patch14-ensemble__1016001.json.gz": 0.99,
    "resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz": 0.99,
    "trace_diff/control/control.json.gz": 0.95,
}
"""Real traces with shapes, and the share of their device time that formulas cover at least."""


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_traces_are_covered_and_no_faster_than_their_floors(name: str) -> None:
    job = read(required(SHARED / name), jobs=1)
    consistent(job)
    result = roofline(job)
    frame = result.frame
    whole = float(frame["device_time"].sum())
    assert float(frame["covered_time"].sum()) >= REAL[name] * whole
    too_fast = frame.filter((pl.col("efficiency") > 1) & ~pl.col("in_l2"))
    assert float(too_fast["device_time"].sum()) <= 0.005 * whole


@given(st.lists(st.lists(st.floats(0, 1e6), min_size=3, max_size=3), min_size=1, max_size=5))
def test_rounded_parts_sum_to_the_whole(rows: list[list[float]]) -> None:
    shares = np.array(rows)
    whole = np.rint(shares.sum(axis=1)).astype(np.int64)
    exact = np.stack(list(_exact(whole, np.pad(shares, ((0, 0), (0, len(PARTS) - 3)))).values()), axis=1)
    assert (exact.sum(axis=1) == whole).all()
    assert (exact >= 0).all()
    assert (np.abs(exact[:, :3] - shares) <= 2).all()


def test_floors_without_products_do_not_depend_on_the_precision_of_products(tmp_path: Path) -> None:
    events = [op("aten::mul", 100, 90, [[1 << 24], [1 << 24]], "float"), drawn.launch(105, 2, 7)]
    [row] = answer(tmp_path, *events, drawn.kernel(POINTWISE, 900, 300_000, 7)).frame.to_dicts()
    assert (row["certainty"], row["bound"]) == ("exact", "memory")


def test_data_beyond_the_cache_explains_no_speed(tmp_path: Path) -> None:
    def in_l2(duration: int) -> object:
        n = 10 << 20  # 60 MiB, of which 20 do not fit into the cache
        return answer(tmp_path, *call("aten::mul", 100, [[n], [n]], duration)).frame["in_l2"].item()

    beyond = 20 * 2**20 / MEMORY * 1e9
    assert in_l2(round(beyond) + 10)
    assert not in_l2(round(beyond) - 10)
    assert not in_l2(1_000_000)


def test_each_device_has_its_own_peaks(tmp_path: Path) -> None:
    h100 = {
        "id": 1,
        "name": "NVIDIA H100 80GB HBM3",
        "totalGlobalMem": 85_000_000_000,
        "computeMajor": 9,
        "numSms": 132,
    }
    events = [*product(100, 4096, 1_000_000), *product(300, 4096, 1_000_000, device=1)]
    [row] = answer(tmp_path, *events, devices=[A100, h100]).frame.to_dicts()
    assert row["floor"] == pytest.approx(2 * 4096**3 * (1 / BF16 + 1 / 989.4e12) * 1e9, rel=1e-3)
    assert row["peak"] is None  # they differ
    [row] = answer(tmp_path, *events, devices=[A100, h100], select=Selection(devices=(1,))).frame.to_dicts()
    assert (row["calls"], row["floor"]) == (1, pytest.approx(2 * 4096**3 / 989.4e12 * 1e9, rel=1e-3))


def test_in_a_range_of_time_calls_count_whole_where_they_begin(tmp_path: Path) -> None:
    events = [*product(100, 4096, 700_000), *product(300, 2048, 300_000)]
    begins = 1_000_000 + 50_000 * 100 - 100  # of the first kernel, since the first event
    [row] = answer(tmp_path, *events, select=Selection(time=(begins, begins + 10))).frame.to_dicts()
    assert (row["calls"], row["device_time"]) == (1, 700_000)
    assert len(answer(tmp_path, *events, select=Selection(time=(begins + 1, begins + 10))).frame) == 0


works = st.lists(
    st.tuples(
        st.sampled_from(["aten::mm", "aten::mul", "my::op"]),
        st.sampled_from([1, 100, 4096]),
        st.lists(st.integers(0, 2_000_000), min_size=1, max_size=3),
        st.floats(0, 3),
    ),
    min_size=1,
    max_size=6,
)


@few_examples
@given(works)
def test_any_work_is_charged_once(tmp_path_factory: pytest.TempPathFactory, drawn_work: list[Any]) -> None:
    events: list[drawn.Event] = []
    for place, (name, n, durations, blocks) in enumerate(drawn_work):
        kernel = TENSOR if name == "aten::mm" else POINTWISE
        events += call(
            name, 100 + 200 * place, [[n, n], [n, n]], *durations, kernel=kernel, **{"blocks per SM": blocks}
        )
    consistent(drawn.job(tmp_path_factory.mktemp("any"), *events, deviceProperties=[A100]))


def test_work_launched_before_the_recording_is_in_no_step(tmp_path: Path) -> None:
    marks = [drawn.annotation(f"ProfilerStep#{number}", 1_000 * number, 1000) for number in range(2)]
    earlier = drawn.kernel(TENSOR, 1_500, 300_000, 99)
    events = [*product(100, 4096, 700_000), *product(1100, 2048, 300_000)]
    result = answer(tmp_path, *marks, *events, earlier, by="step")
    assert result.frame["device_time"].to_list() == [700_000, 300_000]
    assert result.notes[0] == "Formulas cover 100.0% of the device time of the whole recording."
    assert (
        "23.1% of the device time is in no row: launched outside of all steps, or before the recording." in result.notes
    )
    alone = answer(tmp_path, *marks, earlier, by="step")  # a recording without launches
    assert alone.frame["device_time"].to_list() == [0, 300_000]
    window = answer(tmp_path, *events, earlier, by="step")  # the window is all of it
    assert window.frame["device_time"].to_list() == [1_300_000]
