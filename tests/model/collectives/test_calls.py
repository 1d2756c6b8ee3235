"""What a rank's records tell of its collectives, in the words of each era."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import Selection
from kinetoscope.model.collectives.calls import collective_calls, computation, selected_calls
from kinetoscope.model.steps.scope import scope
from tests import drawn
from tests.model.graphs.drawn_graphs import WRITERS, Node, replay

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
ARGS: dict[str, Any] = {
    "Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "BFloat16",
    "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]",
    "Group size": 2, "Seq": 7,
}  # fmt: skip


def calls(folder: Path, *events: drawn.Event, **top: Any) -> list[dict[str, Any]]:
    return collective_calls(drawn.job(folder, *events, **top).trace(), None).to_dicts()


def test_arguments_of_the_work_itself(tmp_path: Path) -> None:
    [call] = calls(tmp_path, drawn.kernel(NCCL, 100, 50, 1, **ARGS), baseTimeNanoseconds=10**18)
    expected = {
        "kind": "all_reduce", "group": "0 default_pg [0-1]", "group_size": 2, "group_ranks": "0-1", "seq": 7,
        "dtype": "bfloat16", "bytes": 2000, "start": 10**18 + 100, "end": 10**18 + 150, "exposed": 50, "device": 0,
        "stream": 7, "on_host": False, "candidates": None,
    }  # fmt: skip
    assert {name: call[name] for name in expected} == expected


@pytest.mark.parametrize("form", WRITERS)
def test_replays_have_the_arguments_of_their_annotations_but_no_number(tmp_path: Path, form: str) -> None:
    """torch annotates captured collectives; each replay has the number of the capture, which matches nothing."""
    written, top = WRITERS[form]
    nodes = [Node("gemm", 1), Node(NCCL, 2, annotation=ARGS, stream=13)]
    replays = [event for number in range(2) for event in replay(nodes, 1000 * number, number, written=written)]
    found = calls(tmp_path, *replays, drawn.launch(5000, 5, 1), drawn.kernel(NCCL, 5100, 50, 1, **ARGS), **top)
    assert [call["seq"] for call in found] == [None, None, 7]
    assert {(call["kind"], call["group"], call["bytes"]) for call in found} == {
        ("all_reduce", "0 default_pg [0-1]", 2000)
    }


def test_arguments_of_the_call_on_the_host(tmp_path: Path) -> None:
    [call] = calls(
        tmp_path,
        drawn.op("record_param_comms", 0, 20, **ARGS),
        drawn.launch(5, 5, 1),
        drawn.kernel("ncclDevKernel_Generic", 100, 50, 1),
    )
    assert (call["kind"], call["bytes"], call["seq"], call["launch"]) == ("all_reduce", 2000, 7, 1)


def test_shapes_tell_where_there_are_no_arguments(tmp_path: Path) -> None:
    base: dict[str, Any] = {"Input Dims": [[24], [16], [], []], "Input type": ["float", "float", "", ""]}
    sent: dict[str, Any] = {"Input Dims": [[16]], "Input type": ["float"]}
    [call] = calls(
        tmp_path,
        drawn.op("c10d::alltoall_base_", 0, 30, **base),
        drawn.op("record_param_comms", 1, 28),
        drawn.annotation("nccl:all_to_all", 2, 26, **sent),
        drawn.launch(5, 5, 1),
        drawn.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 100, 50, 1),
        distributedInfo={"rank": 0, "world_size": 4},
    )
    assert (call["kind"], call["elements_in"], call["elements_out"], call["bytes"]) == ("all_to_all", 16, 24, 64)
    assert (call["group"], call["candidates"], call["world"]) == (None, "", 4)


def test_spans_of_gloo(tmp_path: Path) -> None:
    config = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]}]
    shape: dict[str, Any] = {"Input Dims": [[10]], "Input type": ["double"]}
    [call] = calls(
        tmp_path,
        drawn.annotation("gloo:all_gather", 0, 100, tid=9, **shape),
        drawn.op("aten::mm", 20, 50),
        distributedInfo={"rank": 0, "world_size": 4, "pg_config": config},
    )
    expected = {"on_host": True, "kind": "all_gather", "group": "0 default_pg [0-3]", "bytes": 320, "exposed": 50}
    assert {name: call[name] for name in expected} == expected
    assert call["candidates"]  # it is a guess: another rank may know of more groups


def test_custom_all_reduce_and_what_nothing_tells(tmp_path: Path) -> None:
    found = calls(
        tmp_path,
        drawn.kernel("void vllm::cross_device_reduce_1stage<__half, 8>()", 0, 10, 1),
        drawn.kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", 20, 10, 2),
    )
    assert [(call["kind"], call["bytes"], call["group"]) for call in found] == [
        ("all_reduce", None, None), ("other", None, None)
    ]  # fmt: skip


def test_copies_beside_the_kernel_are_no_calls_and_two_kernels_are_one(tmp_path: Path) -> None:
    [call] = calls(
        tmp_path,
        drawn.op("record_param_comms", 0, 40, **ARGS),
        drawn.launch(1, 2, 1),
        drawn.launch(5, 2, 2),
        drawn.launch(9, 2, 3),
        drawn.kernel("CatArrayBatchedCopy", 50, 10, 1),
        drawn.kernel(NCCL, 100, 10, 2),
        drawn.kernel(NCCL, 120, 10, 3),
    )
    assert (call["start"], call["end"], call["bytes"]) == (100, 130, 2000)


@pytest.mark.parametrize(("other", "expected"), [("all_to_allv", "all_to_all"), ("send", "send_recv")])
def test_a_kernel_that_nobody_called_is_what_others_of_its_stream_are(
    tmp_path: Path, other: str, expected: str
) -> None:
    """It was launched before the recording; `SendRecv` may be all-to-all."""
    found = calls(
        tmp_path,
        drawn.kernel("ncclDevKernel_SendRecv", 0, 10, 1),
        drawn.kernel("ncclDevKernel_SendRecv", 10, 10, 2, stream=9),
        drawn.launch(15, 2, 3),
        drawn.launch(20, 2, 4),
        drawn.kernel("ncclDevKernel_SendRecv", 30, 10, 3, **{**ARGS, "Collective name": "all_to_allv"}),
        drawn.kernel("ncclDevKernel_SendRecv", 50, 10, 4, **{**ARGS, "Collective name": other}),
    )
    assert [call["kind"] for call in found][:2] == [expected, "send_recv"]


def test_a_batch_of_sends_and_receives_is_one_call(tmp_path: Path) -> None:
    sent = {**ARGS, "Collective name": "send", "Dst Rank": 3}
    received = {**ARGS, "Collective name": "recv", "Src Rank": 3, "In msg nelems": 500, "Out msg nelems": 500}
    events = [
        drawn.op("record_param_comms", 0, 5, **sent),
        drawn.op("record_param_comms", 10, 5, **received),
        drawn.launch(20, 5, 1),
        drawn.kernel("ncclDevKernel_SendRecv", 100, 10, 1),
    ]
    [call] = calls(tmp_path, *events)
    expected = {"kind": "send_recv", "source_rank": 3, "destination_rank": 3, "bytes": 3000, "group_name": "0"}
    assert {name: call[name] for name in expected} == expected


def test_one_side_of_point_to_point(tmp_path: Path) -> None:
    info = {"rank": 2, "world_size": 4}
    args = {**ARGS, "Collective name": "send", "Dst Rank": 3}
    [call] = calls(tmp_path, drawn.kernel("ncclDevKernel_SendRecv", 0, 10, 1, **args), distributedInfo=info)
    assert (call["kind"], call["source_rank"], call["destination_rank"]) == ("send", 2, 3)


def test_cut_lists_of_ranks(tmp_path: Path) -> None:
    cut = "[" + ", ".join(str(rank) for rank in range(29)) + ", ...29 , ...]"
    config = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 64, "ranks": list(range(64))}]
    args = {**ARGS, "Process Group Ranks": cut, "Group size": 64}
    [call] = calls(tmp_path, drawn.kernel(NCCL, 0, 10, 1, **args), distributedInfo={"rank": 0, "pg_config": config})
    assert (call["group"], call["group_ranks"]) == ("0 default_pg [0-63]", "0-63")


def test_exposed_is_what_no_computation_covers(tmp_path: Path) -> None:
    [call] = calls(
        tmp_path, drawn.kernel(NCCL, 0, 100, 1, stream=8), drawn.kernel("gemm", 20, 30, 2),
        drawn.kernel("Memcpy DtoD", 60, 10, 3, category="gpu_memcpy"),
    )  # fmt: skip
    assert call["exposed"] == 70


@pytest.mark.parametrize("value", [None, -5, 1 << 62, "many", [1], {"a": 1}, 2.5])
def test_arguments_of_any_kind(tmp_path: Path, value: Any) -> None:
    args = dict.fromkeys([*ARGS, "Src Rank", "Dst Rank", "Global rank start", "Global rank stride"], value)
    [call] = calls(tmp_path, drawn.kernel(NCCL, 0, 10, 1, **args))
    assert call["kind"] == "all_reduce"
    assert call["bytes"] is None


def test_a_selection_keeps_what_starts_in_it(tmp_path: Path) -> None:
    events = [drawn.kernel(NCCL, start, 50, 1 + start, device=start // 100) for start in (0, 100, 200)]
    trace = drawn.job(tmp_path, *events).trace()
    chosen = selected_calls(scope(trace, Selection(time=(90, 300))))
    assert chosen["start"].to_list() == [100, 200]
    assert selected_calls(scope(trace, Selection(devices=(2,))))["end"].to_list() == [250]
    assert computation(trace).length == 0


def test_without_collectives(tmp_path: Path) -> None:
    trace = drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)).trace()
    frame = collective_calls(trace, None)
    assert frame.is_empty()
    assert frame.schema["start"] == pl.Int64


def test_the_table_for_queries_says_the_same(tmp_path: Path) -> None:
    sent: dict[str, Any] = {"Input Dims": [[16]], "Input type": ["float"]}
    trace = drawn.job(
        tmp_path,
        drawn.annotation("nccl:all_to_all", 2, 26, **sent),
        drawn.launch(5, 5, 1),
        drawn.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 100, 50, 1),
    ).trace()
    table = trace.table("collectives").filter("on_device")
    assert table.select("kind", "bytes").rows() == [("all_to_all", 64)]
