"""How the eras of the format and the vendors say the same thing: names, arguments, and what is not said at all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tests.simulator.groups import Family
from tests.simulator.model import Dialect

_SHOWN_RANKS: Final = 30
"""Ranks after which newer torch cuts a list short."""


@dataclass(frozen=True)
class Facts:
    """What one dialect does.

    Attributes:
        whole: times are whole microseconds.
        base: times count from `baseTimeNanoseconds`, else from 1970.
        arguments: collectives carry arguments, on the host and on the device.
        cut: lists of ranks are cut short.
        sequence: `Seq` and `Comms Id` are there.
        host_name: the file names its host.
        config: `distributedInfo` lists the process groups.
        first: metadata comes before the events.
        launch: category and name of the call that launches a collective.
    """

    whole: bool = False
    base: bool = True
    arguments: bool = True
    cut: bool = False
    sequence: bool = False
    host_name: bool = False
    config: bool = True
    first: bool = True
    launch: tuple[str, str] = ("cuda_driver", "cuLaunchKernelEx")


_OLD_LAUNCH: Final = ("cuda_runtime", "cudaLaunchKernelExC")

FACTS: Final[dict[Dialect, Facts]] = {
    "2022": Facts(whole=True, base=False, arguments=False, config=False, first=False, launch=_OLD_LAUNCH),
    "2024-03": Facts(base=False, config=False, first=False, launch=_OLD_LAUNCH),
    "2024": Facts(first=False, launch=_OLD_LAUNCH),
    "2025": Facts(cut=True),
    "2026": Facts(cut=True, sequence=True, host_name=True),
    "rocm": Facts(cut=True, launch=("cuda_runtime", "hipExtLaunchKernel")),
    "gloo": Facts(host_name=True),
}


@dataclass(frozen=True)
class Words:
    """What one kind of collective is called."""

    op: str
    argument: str
    annotation: str
    kernel: str


_WORDS: Final[dict[str, Words]] = {
    "all_reduce": Words("c10d::allreduce_", "allreduce", "all_reduce", "AllReduce_Sum"),
    "all_gather": Words("c10d::_allgather_base_", "_allgather_base", "_all_gather_base", "AllGather"),
    "reduce_scatter": Words(
        "c10d::_reduce_scatter_base_", "_reduce_scatter_base", "_reduce_scatter_base", "ReduceScatter_Sum"
    ),
    "broadcast": Words("c10d::broadcast_", "broadcast", "broadcast", "Broadcast"),
    "all_to_all": Words("c10d::alltoall_base_", "all_to_all", "all_to_all", "SendRecv"),
    "send": Words("c10d::send", "send", "send", "SendRecv"),
    "recv": Words("c10d::recv_", "recv", "recv", "SendRecv"),
}


def words(kind: str) -> Words:
    """What a kind is called; `send_recv` is either `send` or `recv`."""
    return _WORDS[kind]


def kernel_name(dialect: Dialect, kind: str, dtype: str) -> str:
    """The name of the kernel."""
    function = _WORDS[kind].kernel
    if dialect == "rocm":
        return "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)"
    if dialect in ("2022", "2024-03"):
        plain = function.removesuffix("_Sum")
        way = "SIMPLE" if plain == "SendRecv" else "LL"
        element = ("float" if dtype == "Float" else "half") if function.endswith("_Sum") else "int8_t"
        return f"ncclKernel_{plain}_RING_{way}_Sum_{element}(ncclDevComm*, unsigned long, ncclWork*)"
    element = {"Float": "_f32", "BFloat16": "_bf16"}[dtype] if function.endswith("_Sum") else ""
    way = "" if function == "SendRecv" else "_RING_LL"
    return f"ncclDevKernel_{function}{element}{way}(ncclDevKernelArgsStorage<4096ul>)"


def group_arguments(facts: Facts, family: Family, group: int) -> str:
    """What a collective says of its process group, as JSON without braces."""
    ranks = family.ranks[group].tolist()
    shown = ", ".join(str(rank) for rank in ranks[: _SHOWN_RANKS if facts.cut else None])
    cut = ", ..." if facts.cut and len(ranks) > _SHOWN_RANKS else ""
    return (
        f'"Group size": {len(ranks)}, "Process Group Name": "{family.names[group]}", '
        f'"Process Group Description": "{family.description}", "Process Group Ranks": "[{shown}{cut}]"'
    )


def comms_id(name: str, sequence: int, sends: bool, first: int, size: int) -> int:
    """torch makes it of the group's name, the number in it, whether it is point-to-point, first rank and size."""
    number = 0xCBF29CE484222325
    for byte in f"{name}|{sequence}|{sends}|{first}|{size}".encode():
        number = (number ^ byte) * 0x100000001B3 % (1 << 64)
    return number


def distributed(facts: Facts, backend: str, rank: int, world: int, families: dict[str, Family]) -> str:
    """`distributedInfo`, as JSON."""
    mine = [(family, int(family.of(family.members)[family.members == rank][0])) for family in families.values()]
    info: dict[str, object] = {"backend": backend, "rank": rank, "world_size": world}
    if facts.config:
        info["pg_count"] = len(mine)
        info["pg_config"] = [
            {
                "pg_name": family.names[group], "pg_desc": family.description, "backend_config": f"cuda:{backend}",
                "pg_size": family.size, "ranks": family.ranks[group].tolist(),
            }
            for family, group in mine
        ]  # fmt: skip
        info["nccl_version"] = "2.27.5"
    return json.dumps(info)
