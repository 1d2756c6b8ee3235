from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope import Selection, read, synchronizations
from tests import drawn
from tests.catalog.samples import SHARED, required
from tests.notes import codes

ITEM = [
    drawn.python("train.py(7): step", 0, 200),
    drawn.python("torch/_tensor.py(9): item", 45, 40),
    drawn.launch(10, 5, 1),
    drawn.kernel("gemm", 20, 40, 1),
    drawn.op("aten::item", 50, 30),
    drawn.op("aten::_local_scalar_dense", 51, 28),
    drawn.launch(52, 18, 2, name="cudaMemcpyAsync"),
    drawn.kernel("Memcpy DtoH (Device -> Pageable)", 61, 4, 2, category="gpu_memcpy"),
    drawn.event("cuda_runtime", "cudaStreamSynchronize", 71, 3),
    drawn.launch(90, 5, 3),
    drawn.kernel("relu", 100, 10, 3),
]


def rows(folder: Path, *events: drawn.Event, **selected: Any) -> list[dict[str, Any]]:
    return synchronizations(drawn.job(folder, *events), select=Selection(**selected)).frame.to_dicts()


def test_an_item_is_a_copy_and_a_wait(tmp_path: Path) -> None:
    copy, sync = rows(tmp_path, *ITEM)
    assert [copy[name] for name in ("call", "copy", "operator", "outer_operator", "source")] == [
        "cudaMemcpyAsync",
        "Memcpy DtoH (Device -> Pageable)",
        "aten::_local_scalar_dense",
        "aten::item",
        "train.py(7): step",
    ]
    numbers = ("calls", "waits", "time", "waiting", "longest", "device_idle")
    assert [copy[name] for name in numbers] == [1, 1, 18, 65 - 52, 18, 18]
    assert [sync[name] for name in numbers] == [1, 0, 3, 0, 3, 3]
    assert (sync["call"], sync["copy"]) == ("cudaStreamSynchronize", None)


def test_every_call_counts_and_time_counts_once(tmp_path: Path) -> None:
    """The driver's call in the runtime's, one recorded twice, and one that begins before the other is over."""
    names = ("cudaStreamSynchronize", 60, 20), ("cuStreamSynchronize", 62, 10), ("cudaStreamSynchronize", 60, 20)
    later = ("cudaStreamSynchronize", 100, 10), ("cudaStreamSynchronize", 109, 2)
    events = [drawn.event("cuda_runtime", *each) for each in names + later]
    found = {row["call"]: row for row in rows(tmp_path, *ITEM[2:4], *events)}
    numbers = ("calls", "time", "longest")
    assert [found["cudaStreamSynchronize"][name] for name in numbers] == [4, 31, 20]
    assert [found["cuStreamSynchronize"][name] for name in numbers] == [1, 0, 10]
    assert found["cudaStreamSynchronize"]["waiting"] <= 31


def test_a_call_without_operator_or_stack_says_so(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *ITEM[2:4], drawn.event("cuda_runtime", "cudaDeviceSynchronize", 30, 32))
    result = synchronizations(job)
    [row] = result.frame.to_dicts()
    assert [row[name] for name in ("operator", "outer_operator", "source")] == [None, None, None]
    assert result.notes == (
        "Of 1 waits 1 are inferred from times, not recorded.",
        "Python calls were not recorded (with_stack=True records them): there is no source.",
    )


def test_steps_of_2021_are_no_operators_around_it(tmp_path: Path) -> None:
    mark = drawn.event("Operator", "ProfilerStep#3", 0, 200)
    assert [row["outer_operator"] for row in rows(tmp_path, mark, *ITEM)] == ["aten::item", "aten::item"]


def test_freeing_counts_where_it_waited(tmp_path: Path) -> None:
    free = [drawn.event("cuda_runtime", "cudaFree", start, 35) for start in (30, 120)]
    found = rows(tmp_path, *ITEM[2:4], *free)
    assert [(row["call"], row["calls"], row["waiting"]) for row in found] == [("cudaFree", 1, 30)]


def test_only_what_is_selected_counts(tmp_path: Path) -> None:
    assert [row["time"] for row in rows(tmp_path, *ITEM, time=(0, 60))] == [8]
    begun, whole = rows(tmp_path, *ITEM, time=(60, 200))  # a call that began before
    assert (begun["call"], whole["call"]) == ("cudaMemcpyAsync", "cudaStreamSynchronize")
    numbers = ("calls", "waits", "time", "waiting", "longest", "device_idle")
    assert [begun[name] for name in numbers] == [0, 0, 70 - 60, 65 - 60, 70 - 60, 0]
    assert [whole[name] for name in numbers] == [1, 0, 3, 0, 3, 3]
    other = [drawn.launch(0, 1, 9), drawn.kernel("other", 1, 1, 9, stream=20)]
    assert rows(tmp_path, *ITEM, *other, streams=(20,)) == []
    assert synchronizations(drawn.job(tmp_path, *ITEM), select=Selection(time=(0, 5))).notes[-1] == (
        "No call that waits for a device was selected."
    )


def test_without_a_device_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    result = synchronizations(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))
    assert len(result) == 0
    assert codes(result.notes) == ["NO_WAITS"]


def test_real_waits_have_their_source() -> None:
    frame = synchronizations(read(required(SHARED) / "owlv2_h100", jobs=1)).frame
    assert frame.select("call", "operator", "outer_operator", "source", "calls", "waits").row(0) == (
        "cudaStreamSynchronize",
        "aten::copy_",
        "aten::to",
        "transformers/models/owlv2/modeling_owlv2.py(1421): box_predictor",
        5,
        5,
    )
    assert (frame["device_idle"] <= frame["time"]).all()
    assert (frame["waiting"] <= frame["time"]).all()
