"""Simulated hosts, devices and links: what is asked of many ranks at once, when it happens on each.

Ranks are independent but for collectives, so one call asks all ranks that do the same, in arrays. Calls must come
in an order in which each rank could do its part; the host of each runs ahead of its streams as in reality. Times are
exact whole ns of one clock that nobody has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tests.simulator.groups import Family, Ints
from tests.simulator.model import Fault, Model

ORIGIN: Final = 1_793_000_000_123_456_789
"""When a job begins, ns since 1970."""

COMPUTE: Final = 7
COPIES: Final = 13
_SINGLE: Final = 17
_PAIRS: Final = 100
"""Streams of sending and receiving, one for each pair of stages."""

_LATENCY: Final = 4_000
"""From the end of a launch to the start on an idle stream."""

_LINKS: Final = (200.0, 40.0)
"""Bytes a ns within a host and between hosts."""

_STAGED: Final = (1.5, 0.8)
"""The same of gloo, by way of the hosts' memory."""

_SETUP: Final = 12_000


@dataclass(frozen=True)
class Host:
    """Something on hosts: `ranks`, when it `start`s and `end`s on each, int64."""

    name: str
    category: str
    ranks: Ints
    start: Ints
    end: Ints
    backward: bool = False


@dataclass(frozen=True)
class Work:
    """Work on a stream of each of the ranks, and the operator and the call that launched it."""

    name: str
    category: str
    op: str
    call: str
    stream: int
    ranks: Ints
    op_start: Ints
    op_end: Ints
    start: Ints
    end: Ints
    bytes: int = 0
    backward: bool = False


@dataclass(frozen=True)
class Collective:
    """A collective of each group of a family, or between two ranks of it.

    Attributes:
        family: the groups.
        kind: as METRICS names kinds.
        group: int64, which group of the family each of the ranks is in.
        match: int64, what is the same on all ranks that take part.
        ranks: int64, who takes part.
        peer: int64, whom a rank sends to or receives from; −1 unless it does.
        sends: bool, those that send; None where all do the same.
        elements_in, elements_out: of each rank.
        bytes: as nccl-tests counts them.
        op_start, op_end: int64, the host's call.
        start: int64, when the rank's kernel begins.
        begin: int64, when the last has arrived (of a broadcast: the root and the rank itself).
        end: int64, when the rank's kernel ends.
        step: which one.
        sequence: int64, the group's count on that rank.
        stream: where it runs.
    """

    family: Family
    kind: str
    group: Ints
    match: Ints
    ranks: Ints
    peer: Ints
    sends: NDArray[np.bool_] | None
    elements_in: int
    elements_out: int
    bytes: int
    op_start: Ints
    op_end: Ints
    start: Ints
    begin: Ints
    end: Ints
    step: int
    sequence: Ints
    stream: int
    backward: bool = False


Record = Host | Work | Collective


@dataclass
class Machine:
    """The state of all ranks, and what happened so far.

    Attributes:
        host: int64, until when each rank's host is busy.
        streams: the same of each stream.
        records: in the order in which they were asked for.
        faults: what is wrong in this step.
    """

    model: Model
    everyone: Ints = field(init=False)
    host: Ints = field(init=False)
    streams: dict[int, Ints] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    step: int = 0
    faults: list[Fault] = field(default_factory=list)
    backward: bool = False
    _matches: int = 0

    def __post_init__(self) -> None:
        model = self.model
        self.everyone = np.arange(model.ranks)
        self._random = np.random.default_rng([model.seed, 1])
        # ranks do not begin together
        self.host = ORIGIN + self._random.integers(0, 20_000, model.ranks)
        self._slow = np.ones(model.ranks)
        self._work = np.ones(model.ranks)
        self._pace = np.ones(model.ranks)
        # of its own, so that what else is drawn stays the same
        self._uneven = np.random.default_rng([model.seed, 5])
        self._pauses = np.random.default_rng([model.seed, 6])
        self._counts: dict[tuple[str, bool], Ints] = {}
        self.on_device = model.dialect != "gloo"

    def begin(self, place: int, number: int) -> None:
        """The next recorded step, counted from 0, and what it is called."""
        model = self.model
        self.step = number
        self.faults = [fault for fault in model.faults if fault.hits(place)]
        self._slow = np.ones(model.ranks)
        for fault in self.faults:
            if fault.cause == "slow_kernels":
                self._slow[fault.rank] += fault.amount
        together = 1 + model.shapes * float(self._uneven.standard_normal())
        each = 1 + model.uneven * self._uneven.standard_normal(model.ranks)
        self._work = np.clip(together * each, 0.2, 5)
        if model.levelled:
            self._work[:] = self._work.mean()
        late = 1 + model.warmup * self._uneven.random(model.ranks)
        self._pace = late if place == 0 else np.ones(model.ranks)

    def _on_host(self, duration: int | Ints, ranks: Ints) -> Ints:
        """How long the hosts take for something."""
        if not self.model.jitter and not self.model.warmup:
            return np.broadcast_to(np.asarray(duration, np.int64), len(ranks))
        drawn = np.exp(self.model.jitter * self._uneven.standard_normal(self.model.ranks).clip(-4, 4))
        return np.asarray(duration * (drawn * self._pace)[ranks]).astype(np.int64)

    def busy(self, stream: int) -> Ints:
        """Until when each rank's stream is."""
        return self.streams.setdefault(stream, np.zeros(self.model.ranks, np.int64))

    def span(self, name: str, ranks: Ints, duration: int | Ints, *, category: str = "cpu_op") -> None:
        """The host does something."""
        start = self.host[ranks]
        self.host[ranks] = start + self._on_host(duration, ranks)
        self.records.append(Host(name, category, ranks, start, self.host[ranks], self.backward))

    def around(self, name: str, ranks: Ints, since: Ints, *, category: str = "user_annotation") -> None:
        """A range around what the host did since then."""
        self.records.append(Host(name, category, ranks, since[ranks], self.host[ranks], False))

    def pause(self) -> None:
        """Hosts that stop for a while in this step do so now."""
        model = self.model
        stops = self._pauses.random(model.ranks) < model.hiccups
        self.host += np.where(stops, model.layers * model.kernels * model.kernel, 0)

    def idle(self, rank: int, duration: int) -> None:
        """The host of one rank does what is not recorded."""
        self.host[rank] += duration

    def kernel(self, name: str, op: str, ranks: Ints, duration: int) -> None:
        """A kernel behind those before it."""
        drawn = duration * (1 + self.model.noise * self._random.standard_normal(self.model.ranks).clip(-4, 4))
        takes = np.maximum(drawn * self._slow * self._work, 1_000).astype(np.int64)[ranks]
        if self.on_device:
            self._launch(name, "kernel", op, "cudaLaunchKernel", COMPUTE, ranks, takes)
        else:
            self.span(op, ranks, takes)

    def copy(self, name: str, ranks: Ints, size: int, stream: int = COPIES) -> None:
        """A copy of so many bytes."""
        if self.on_device:
            takes = np.full(len(ranks), 2_000 + size // 20)
            self._launch(name, "gpu_memcpy", "aten::copy_", "cudaMemcpyAsync", stream, ranks, takes, size)

    def _launch(
        self, name: str, category: str, op: str, call: str, stream: int, ranks: Ints, takes: Ints, size: int = 0
    ) -> None:
        op_start = self.host[ranks]
        op_end = op_start + self._on_host(self.model.launch, ranks)
        self.host[ranks] = op_end
        start = np.maximum(op_end + _LATENCY, self.busy(stream)[ranks])
        self.busy(stream)[ranks] = start + takes
        self.records.append(
            Work(name, category, op, call, stream, ranks, op_start, op_end, start, start + takes, size, self.backward)
        )

    def follow(self, stream: int, other: int, ranks: Ints) -> None:
        """What comes next on `stream` waits for `other` (or the host does, where there is no device)."""
        if self.on_device:
            self.busy(stream)[ranks] = np.maximum(self.busy(stream)[ranks], self.busy(other)[ranks])
        else:
            self.host[ranks] = np.maximum(self.host[ranks], self.busy(other)[ranks])

    def synchronize(self, name: str, ranks: Ints, streams: tuple[int, ...], extra: int = 0) -> None:
        """The hosts wait for streams, and `extra` beyond."""
        if self.on_device:
            start = self.host[ranks]
            latest = np.max([start + 2_000, *(self.busy(stream)[ranks] + 3_000 for stream in streams)], axis=0)
            self.host[ranks] = latest + extra
            self.records.append(Host(name, "cuda_runtime", ranks, start, self.host[ranks], self.backward))

    def collective(
        self, family: Family, kind: str, elements_in: int, elements_out: int, size: int, *, early: bool = False
    ) -> None:
        """One collective in each group; it waits for the computation before it, unless it is `early`."""
        ranks, group = family.members, family.of(family.members)
        match = self._matches + group
        self._matches += len(family.ranks)
        peer = np.full(len(ranks), -1)
        sizes = (elements_in, elements_out, size)
        self._together(family, kind, family.stream, ranks, group, match, peer, None, sizes, early=early)

    def send(self, family: Family, source: int, destination: int, elements: int, size: int) -> int:
        """Of each group, the rank at one place sends to the one at another; the stream on which it does.

        Each pair has a stream of its own, as it has in torch.
        """
        ranks = np.sort(family.ranks[:, [source, destination]], axis=None)
        group = family.of(ranks)
        sends = np.isin(ranks, family.ranks[:, source])
        peer = family.ranks[group, np.where(sends, destination, source)]
        match = self._matches + group
        self._matches += len(family.ranks)
        stream = _PAIRS + min(source, destination)
        self._together(family, "send_recv", stream, ranks, group, match, peer, sends, (elements, elements, size))
        return stream

    def alone(self, family: Family, elements: int) -> None:
        """A collective of groups of one rank: a copy."""
        self.copy("Memcpy DtoD (Device -> Device)", family.members, 4 * elements, _SINGLE)

    def _together(
        self,
        family: Family,
        kind: str,
        stream: int,
        ranks: Ints,
        group: Ints,
        match: Ints,
        peer: Ints,
        sends: NDArray[np.bool_] | None,
        sizes: tuple[int, int, int],
        early: bool = False,
    ) -> None:
        op_start = self.host[ranks]
        op_end = op_start + self._on_host(2 * self.model.launch, ranks)
        self.host[ranks] = op_end
        if self.on_device:
            before = op_end if early else self.busy(COMPUTE)[ranks]
            ready = np.maximum(op_end + _LATENCY, before)
        else:
            ready = op_start + (op_end - op_start) // 2
        arrival = np.maximum(ready, self.busy(stream)[ranks])
        last = np.zeros(len(family.ranks), np.int64)
        np.maximum.at(last, group, arrival)
        begin = last[group]
        if kind == "broadcast":  # each waits for the root only, which waits for nobody
            root = np.zeros(len(family.ranks), np.int64)
            is_root = ranks == family.ranks[group, 0]
            root[group[is_root]] = arrival[is_root]
            begin = np.maximum(root[group], arrival)
        done = begin + self._transfer(family, kind, sizes[2], ranks, group)[group]
        leave = self._random.integers(0, self.model.spread + 1, self.model.ranks)[ranks]
        end = done + leave
        self.busy(stream)[ranks] = end
        counts = self._counts.setdefault((family.purpose, sends is None), np.zeros(self.model.ranks, np.int64))
        counts[ranks] += 1
        self.records.append(
            Collective(
                family, kind, group, match, ranks, peer, sends, *sizes, op_start, op_end,
                arrival if self.on_device else ready, begin, end, self.step, counts[ranks].copy(), stream,
                self.backward,
            )
        )  # fmt: skip

    def _transfer(self, family: Family, kind: str, size: int, ranks: Ints, group: Ints) -> Ints:
        """How long data is under way in each group, once all are there."""
        model = self.model
        hosts = family.ranks // model.ranks_per_host
        links = _STAGED if model.staged else _LINKS
        rate = np.where((hosts == hosts[:, :1]).all(axis=1), *links)
        n = 2 if kind == "send_recv" else family.size
        share = {"all_reduce": 2 * (n - 1) / n, "send_recv": 1.0, "broadcast": 1.0}.get(kind, (n - 1) / n)
        drawn = 1 + 0.02 * self._random.random(len(rate))
        takes = (_SETUP + size * share / (rate * model.links)) * drawn
        for fault in self.faults:
            if fault.cause == "slow_link":
                takes[group[ranks == fault.rank]] *= 1 + fault.amount
        return takes.astype(np.int64)
