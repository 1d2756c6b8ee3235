from __future__ import annotations

from pathlib import Path

from kinetoscope import Selection, devices, read
from kinetoscope.model.trace.recording import not_recorded
from tests import drawn
from tests.notes import codes

H100 = {"id": 1, "name": "H100", "totalGlobalMem": 85 << 30, "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def test_each_device_that_was_used_is_a_row(tmp_path: Path) -> None:
    work = [drawn.kernel("gemm", 0, 10, 1, device=1), drawn.kernel("gemm", 20, 10, 2, device=2)]
    host = drawn.op("aten::mm", 0, 5)
    job = drawn.job(tmp_path, host, *work, deviceProperties=[{"id": 0, "name": "H100"}, H100], host_name="node7")
    result = devices(job)
    assert result.frame.rows() == [
        (0, "node7", 1, 1, 1, "H100", 85 << 30, "9.0", 132),
        (0, "node7", 1, 2, None, None, None, None, None),
    ]
    assert codes(result.notes) == ["DEVICES_NOT_DESCRIBED"]
    assert devices(job, select=Selection(devices=(1,))).frame["device"].to_list() == [1]


def test_older_files_are_named_after_machine_and_process(tmp_path: Path) -> None:
    for name, place in {
        "node_7_1234.1682725898237.pt.trace.json": ("node_7", 1234),
        "node7_1234.pt.trace.json": ("node7", 1234),
        "worker0_step_12.pt.trace.json": (None, 1),
        "trace.json": (None, 1),
    }.items():
        [row] = devices(read(drawn.written(tmp_path / name, drawn.op("aten::mm", 0, 10)), jobs=1)).frame.rows()
        assert row == (0, *place, None, None, None, None, None, None)


def test_without_device_work_it_says_so(tmp_path: Path) -> None:
    result = devices(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))
    assert result.notes == (not_recorded("device work", "the columns of the device are empty"),)


def test_rocm_numbers_work_by_the_machine_and_devices_by_the_process(tmp_path: Path) -> None:
    work = drawn.kernel("gemm", 0, 10, 1, device=2)
    listed = {"name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992, "numSms": 304}
    one = devices(drawn.job(tmp_path, work, deviceProperties=[{"id": 0, **listed}])).frame.row(0, named=True)
    assert (one["device"], one["ordinal"], one["name"]) == (2, 0, "AMD Instinct MI300X")
    eight = [{"id": number, **listed} for number in range(8)]
    [row] = devices(drawn.job(tmp_path, work, deviceProperties=eight)).frame.rows(named=True)
    assert (row["device"], row["ordinal"], row["name"]) == (2, None, "AMD Instinct MI300X")
    [row] = devices(drawn.job(tmp_path, work, drawn.memory(5, 64, device=0), deviceProperties=eight)).frame.rows(
        named=True
    )
    assert (row["device"], row["ordinal"]) == (2, 0)
    mixed = [{"id": 2, "name": "AMD Radeon Graphics"}, *eight[:2]]
    assert devices(drawn.job(tmp_path, work, deviceProperties=mixed)).frame["name"].to_list() == [None]
