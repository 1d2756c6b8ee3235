"""Ranks that run their programs: hosts ahead of their devices, collectives that end when all have come with the same."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.hangs.program import MS, Op, Program, Shape, of_rank

CALL_COST = 20_000
EPOCH = 1_790_000_000_000_000_000


class Call:
    """A call of a rank, with its times by a clock that all share; None is never."""

    __slots__ = ("created", "end", "group", "op", "rank", "seq", "start")

    def __init__(self, rank: int, op: Op, group: int, seq: int, created: int) -> None:
        self.rank, self.op, self.group, self.seq, self.created = rank, op, group, seq, created
        self.start: int | None = None
        self.end: int | None = None


@dataclass
class Group:
    """A process group."""

    number: int
    name: str
    desc: str
    ranks: tuple[int, ...]


class Machine:
    """A job that runs until nothing moves any more.

    Attributes:
        calls: of each rank, in order.
        groups: of the job; `of` by kind and rank.
        fault: ranks on which a collective does not end though all have come, by its calls.
        views: members of a group as one rank has them, by rank and group.
    """

    def __init__(self, program: Program, rng: random.Random, *, is_blocking: bool = False) -> None:
        self.program, self.shape, self.is_blocking = program, program.shape, is_blocking
        self.groups, self.of = made_groups(program.shape)
        world = self.shape.world
        self.calls: list[list[Call]] = [[] for _ in range(world)]
        self.fault: Callable[[list[Call]], set[int]] | None = None
        self.views: dict[tuple[int, int], tuple[int, ...]] = {}
        self._host_at, self._host_time = [0] * world, [EPOCH + rng.randrange(5 * MS) for _ in range(world)]
        self._at, self._time = [0] * world, [0] * world
        self._placed: list[list[tuple[Op, Call | None, int]]] = [[] for _ in range(world)]
        self._numbers: dict[tuple[int, int, bool], int] = defaultdict(int)
        self._met: dict[tuple[int, int], list[Call]] = defaultdict(list)
        self._ends: dict[tuple[int, int, int, str], deque[Call]] = defaultdict(deque)
        self._lines: dict[tuple[int, int], deque[Call]] = defaultdict(deque)
        self._pending: list[int] = [0] * world
        self._late = [0] * world
        self._blocked: list[Call | None] = [None] * world
        self._work = deque(range(world))

    def run(self) -> None:
        while self._work:
            rank = self._work.popleft()
            moved = True
            while moved:
                moved = self._host(rank) or self._device(rank)

    def _host(self, rank: int) -> bool:
        """The host goes on by one op, if it can."""
        ops, place = self.program.ops[rank], self._host_at[rank]
        if place >= len(ops) or ops[place].kind == "stall":
            return False
        op = ops[place]
        is_idle = self._at[rank] == len(self._placed[rank]) and not self._pending[rank]
        waits = op.kind == "sync" or (self.is_blocking and op.kind != "host")
        if waits and not is_idle:
            return False
        if waits:
            self._host_time[rank] = max(self._host_time[rank], self._time[rank], self._late[rank])
        self._host_at[rank] += 1
        self._host_time[rank] += op.time if op.kind == "host" else CALL_COST
        if op.kind == "call":
            group = self.of[op.dim][rank]
            key = (rank, group, op.is_p2p)
            self._numbers[key] += 1
            call = Call(rank, of_rank(self.shape, rank, op), group, self._numbers[key], self._host_time[rank])
            self.calls[rank].append(call)
            self._placed[rank].append((op, call, self._host_time[rank]))
        elif op.kind in ("compute", "wait"):
            self._placed[rank].append((op, None, self._host_time[rank]))
        return True

    def _device(self, rank: int) -> bool:
        """The device goes on by one op, if it can."""
        if self._blocked[rank] is not None or self._at[rank] == len(self._placed[rank]):
            return False
        op, call, created = self._placed[rank][self._at[rank]]
        self._time[rank] = max(self._time[rank], created)
        if op.kind == "wait":
            if self._pending[rank]:
                return False
            self._time[rank] = max(self._time[rank], self._late[rank])
        elif call is None:
            if op.time < 0:  # a kernel that never ends
                return False
            self._time[rank] += op.time
        else:
            line = self._lines[rank, call.group]
            call.start = self._time[rank]
            if op.is_async:
                self._pending[rank] += 1
            else:
                self._blocked[rank] = call
            line.append(call)
            self._at[rank] += 1
            if line[0] is call:
                self._arrive(call)
            else:
                call.start = None
            return True
        self._at[rank] += 1
        return True

    def _arrive(self, call: Call) -> None:
        """A call has come to its collective, whose stream has done what was before."""
        call.start = max(call.start or 0, self._time[call.rank])
        if call.op.is_p2p:
            self._pair(call)
            return
        together = self._met[call.group, call.seq]
        together.append(call)
        if len(together) == len(self.groups[call.group].ranks) and _agree([each.op for each in together]):
            stuck = self.fault(together) if self.fault is not None else set()
            end = max(each.start or 0 for each in together) + call.op.time
            for each in together:
                if each.rank not in stuck:
                    self._finish(each, end)

    def _pair(self, call: Call) -> None:
        members = self.groups[call.group].ranks
        peer = members[call.op.peer]
        is_send = call.op.name == "send"
        pair = (call.rank, peer) if is_send else (peer, call.rank)
        others = self._ends[call.group, *pair, "recv" if is_send else "send"]
        if not others:
            self._ends[call.group, *pair, call.op.name].append(call)
            return
        other = others.popleft()
        sent, received = (call, other) if is_send else (other, call)
        if sent.op.sizes_in != received.op.sizes_out:
            return
        end = max(call.start or 0, other.start or 0) + call.op.time
        self._finish(call, end)
        self._finish(other, end)

    def _finish(self, call: Call, end: int) -> None:
        rank = call.rank
        call.end = end
        line = self._lines[rank, call.group]
        line.popleft()
        if self._blocked[rank] is call:
            self._blocked[rank] = None
            self._time[rank] = max(self._time[rank], end)
        else:
            self._pending[rank] -= 1
            self._late[rank] = max(self._late[rank], end)
        self._work.append(rank)
        if line:
            line[0].start = end
            self._arrive(line[0])


def _agree(ops: list[Op]) -> bool:
    """Ranks that call this together get on: NCCL itself checks nothing, and waits for bytes that do not come."""
    first = ops[0]
    if any(op.name != first.name or op.dtype != first.dtype or op.root != first.root for op in ops):
        return False
    if first.name in ("gather", "all_to_all"):
        return first.name != "gather" or sum(bool(op.sizes_out) for op in ops) == 1
    return all(op.sizes_in == first.sizes_in and op.sizes_out == first.sizes_out for op in ops)


def made_groups(shape: Shape) -> tuple[list[Group], dict[str, list[int]]]:
    """The process groups of a job, and which one each rank has of each kind."""
    groups: list[Group] = []
    of: dict[str, list[int]] = {}
    for kind, dim in enumerate(("world", "tp", "pp", "dp", "ep")):
        numbers: dict[tuple[int, ...], int] = {}
        of[dim] = []
        for rank in range(shape.world):
            members = shape.members(dim, rank)
            if members not in numbers:
                numbers[members] = len(groups)
                name = str(kind if shape.is_one_name or dim == "world" else len(groups))
                groups.append(Group(len(groups), name, "default_pg" if dim == "world" else f"mesh_{dim}", members))
            of[dim].append(numbers[members])
    return groups, of
