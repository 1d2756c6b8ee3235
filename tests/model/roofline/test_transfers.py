"""What copies and collectives move, and over which link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.transfers import Link, Transfer, transfers
from tests import drawn

EIGHT = [{"id": number, "name": "NVIDIA H100 80GB HBM3"} for number in range(8)]


def found(folder: Path, *events: drawn.Event, called: bool = False, visible: int = 8) -> list[Transfer | None]:
    """What each piece of device work transfers; `called`: a call accounts for all of it."""
    trace = drawn.job(folder, *events, deviceProperties=EIGHT[:visible]).trace()
    call = np.full(len(device_work(trace)), 0 if called else -1, np.int32)
    every = transfers(trace, call)
    return [every.kinds[code] if code >= 0 else None for code in every.code.tolist()]


def copy(name: str, number: int, kind: str = "gpu_memcpy") -> drawn.Event:
    return drawn.kernel(name, 10 * number, 5, number, category=kind, bytes=100)


def test_copies_between_memories_pass_a_link_whoever_made_them(tmp_path: Path) -> None:
    names = ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy PtoP (Device -> Device)")
    between = [Transfer("HtoD", 100, "host"), Transfer("DtoH", 100, "host"), Transfer("PtoP", 100, "device")]
    events = [copy(name, place) for place, name in enumerate(names)]
    assert found(tmp_path, *events) == between
    assert found(tmp_path, *events, called=True) == between


def test_what_stays_in_a_memory_belongs_to_the_call_that_made_it(tmp_path: Path) -> None:
    events = [copy("Memcpy DtoD (Device -> Device)", 1), copy("Memset (Device)", 2, "gpu_memset")]
    assert found(tmp_path, *events) == [Transfer("DtoD", 200, "none"), Transfer("memset", 100, "none")]
    assert found(tmp_path, *events, called=True) == [None, None]


def collective(kind: str, **args: Any) -> drawn.Event:
    sizes = {"In msg nelems": 512, "Out msg nelems": 512, "dtype": "Float"}
    return drawn.kernel(f"ncclDevKernel_{kind}", 0, 9, 1, **{"Collective name": kind, **sizes, **args})


@pytest.mark.parametrize(
    ("kind", "ranks", "moved"),
    [
        ("allreduce", 4, 2048 * 2 * 3 // 4),
        ("reduce_scatter", 4, 2048 * 3 // 4),
        ("_allgather_base", 8, 2048 * 7 // 8),
        ("broadcast", 8, 2048),
        ("allreduce", 1, 0),
    ],
)
def test_collectives_move_their_bus_bytes(tmp_path: Path, kind: str, ranks: int, moved: int) -> None:
    [transfer] = found(tmp_path, collective(kind, **{"Group size": ranks, "Process Group Name": "0"}))
    assert transfer is not None
    assert (transfer.bytes, transfer.link) == (moved, "device")


@pytest.mark.parametrize(
    ("ranks", "visible", "link"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 8, "device"),
        ([8, 9, 10, 11], 8, "device"),
        ([6, 7, 8, 9], 8, "network"),
        ([0, 8], 8, "network"),
        ([0, 8], 1, "device"),  # each process sees its own device only: which are of one machine is unknown
    ],
)
def test_groups_across_machines_pass_the_network(tmp_path: Path, ranks: list[int], visible: int, link: Link) -> None:
    group = {"Process Group Name": "0", "Process Group Ranks": str(ranks), "Group size": len(ranks)}
    [transfer] = found(tmp_path, collective("allreduce", **group), visible=visible)
    assert transfer is not None
    assert transfer.link == link


def test_a_group_that_was_not_recorded_moves_what_two_ranks_would(tmp_path: Path) -> None:
    assert found(tmp_path, collective("allreduce")) == [Transfer("all_reduce", 2048, "device", is_least=True)]
    sizeless = collective("allreduce", dtype="unheard of")
    assert found(tmp_path, sizeless) == [None]


def test_kernels_over_memory_of_all_devices_move_what_their_operator_got(tmp_path: Path) -> None:
    tensors: dict[str, Any] = {
        "Input Dims": [[], [8, 64], [8, 64], []],
        "Input type": ["", "c10::BFloat16", "c10::BFloat16", ""],
    }
    events = [
        drawn.op("_C_custom_ar::all_reduce", 0, 9, **tensors),
        drawn.launch(1, 2, 1),
        drawn.kernel("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>", 20, 9, 1),
    ]
    assert found(tmp_path, *events) == [Transfer("all_reduce", 1024, "device", is_least=True)]
