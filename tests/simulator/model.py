"""What is simulated: a training job, how it is spread over ranks, what is wrong with it, and how it is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

Cause = Literal["none", "slow_kernels", "host_gap", "data_loading", "synchronization", "slow_link"]
Dialect = Literal["2022", "2024-03", "2024", "2025", "2026", "rocm", "gloo"]

CAUSES: Final[tuple[Cause, ...]] = (
    "none", "slow_kernels", "host_gap", "data_loading", "synchronization", "slow_link",
)  # fmt: skip
DIALECTS: Final[tuple[Dialect, ...]] = ("2022", "2024-03", "2024", "2025", "2026", "rocm", "gloo")
"""2022: whole microseconds, collectives have no arguments. 2024-03: arguments, times since 1970 with three decimals.
2024: times relative to a base. 2025: lists of ranks are cut short after 30. 2026: with `Seq`, `Comms Id`, `host_name`.
rocm: as 2025, of an AMD device. gloo: as 2026, no devices: collectives are ranges on the host, without arguments."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with one rank.

    Attributes:
        cause: `slow_kernels`: its kernels take (1 + amount) times as long. `host_gap`: before each forward pass its
            host does something that is not recorded, `amount` ns. `data_loading`: each batch is `amount` ns late.
            `synchronization`: after each layer of the forward pass its host waits for the device, and `amount` ns more.
            `slow_link`: everything that it sends or receives takes (1 + amount) times as long.
        rank: which one.
        amount: how much.
        since: recorded step, from 0, that it begins in.
        every: it is there in one of so many steps.
    """

    cause: Cause = "none"
    rank: int = 0
    amount: float = 0.0
    since: int = 0
    every: int = 1

    def hits(self, step: int) -> bool:
        """Whether it is there in a recorded step, counted from 0."""
        return self.cause != "none" and step >= self.since and (step - self.since) % self.every == 0

    def later(self) -> Fault:
        """The same without the first step that it is in."""
        return replace(self, since=self.since + self.every)


@dataclass(frozen=True)
class Model:
    """A job. Times are in ns.

    Attributes:
        ranks: how many; data parallel ranks are what the other kinds of parallelism leave.
        style: how gradients are shared by data parallel ranks: all-reduce of buckets ("ddp"), or parameters gathered
            before use and gradients scattered ("fsdp").
        tensor: ranks that share each layer: they all-reduce after each.
        expert: data parallel ranks among which tokens are exchanged (all-to-all) before and after each layer.
        pipeline: stages; activations and their gradients are sent from one to the next, one micro-batch after another.
        microbatches: in each step, where there are stages.
        ranks_per_host: ranks that share a clock and a fast link.
        steps: recorded ones.
        layers: of each stage.
        kernels: of each layer, forward; backward has as many, twice as long.
        kernel: mean duration of one.
        noise: relative standard deviation of durations of kernels.
        jitter: relative standard deviation of durations on hosts.
        shapes: relative standard deviation of the work from step to step, the same on all ranks (lengths of sequences).
        uneven: relative standard deviation of the work of one rank in one step.
        levelled: the same work as with `uneven`, shared evenly by the ranks in each step.
        warmup: how much longer hosts take for everything in the first step: a rank up to so many times as long.
        hiccups: share of the steps of each rank in which its host pauses, as it does to collect garbage.
        launch: host time for one kernel.
        loading: host time for a batch.
        elements: parameters of a layer; a hidden state has a quarter.
        buffers: whether buffers are broadcast before each forward pass, from the first data parallel rank: it leaves
            before the others have come.
        links: share of the links' usual rate that collectives reach.
        synchronizes: whether the host waits for the loss at the end of each step.
        spread: up to how long after each other ranks leave a collective.
        clock_offset: clocks of hosts are wrong by up to this.
        clock_drift: and run at a wrong rate by up to this, in parts per million.
        names: process groups are called by a counter; by a hash of their ranks; or by what they are for, so that
            several have one name.
        single: whether there are collectives of groups of one rank too.
        overlaps: whether gradients are all-reduced as they come ("ddp"), or all of them after the backward pass.
        bucket: layers whose gradients are all-reduced together ("ddp").
        pieces: all-reduces that the gradients of a layer are shared in ("ddp").
        width: bytes of an element of the gradients ("ddp").
        prefetches: whether parameters are gathered while the layer before is computed ("fsdp").
        staged: the work is on devices, the collectives are those of gloo, on hosts.
        dialect: see DIALECTS.
        fault: what is wrong.
        other: what is wrong besides, with another rank.
        missing: ranks of which there is no file.
        cut: ranks of which the file ends in the middle.
        sampled: share of events that are in the files.
        compressed: whether files are gzipped.
        seed: of all that is drawn.
    """

    ranks: int = 8
    style: Literal["ddp", "fsdp"] = "ddp"
    tensor: int = 1
    expert: int = 1
    pipeline: int = 1
    microbatches: int = 2
    ranks_per_host: int = 4
    steps: int = 4
    layers: int = 4
    kernels: int = 3
    kernel: int = 120_000
    noise: float = 0.003
    jitter: float = 0.0
    shapes: float = 0.0
    uneven: float = 0.0
    levelled: bool = False
    warmup: float = 0.0
    hiccups: float = 0.0
    launch: int = 20_000
    loading: int = 150_000
    elements: int = 2_000_000
    buffers: bool = False
    links: float = 1.0
    synchronizes: bool = True
    spread: int = 3_000
    clock_offset: int = 0
    clock_drift: float = 0.0
    names: Literal["counter", "hash", "purpose"] = "counter"
    single: bool = False
    overlaps: bool = True
    bucket: int = 1
    pieces: int = 1
    width: int = 2
    prefetches: bool = False
    staged: bool = False
    dialect: Dialect = "2026"
    fault: Fault = field(default_factory=Fault)
    other: Fault = field(default_factory=Fault)
    missing: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    sampled: float = 1.0
    compressed: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.ranks % (self.tensor * self.pipeline) or self.data % self.expert:
            raise ValueError(f"{self.ranks} ranks cannot be shared so: {self}")
        for fault in (self.fault, self.other):
            if not 0 <= fault.rank < self.ranks:
                raise ValueError(f"there is no rank {fault.rank} of {self.ranks}")

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that is wrong."""
        return tuple(fault for fault in (self.fault, self.other) if fault.cause != "none")

    @property
    def data(self) -> int:
        """Data parallel ranks."""
        return self.ranks // (self.tensor * self.pipeline)

    @property
    def hosts(self) -> int:
        return -(-self.ranks // self.ranks_per_host)
