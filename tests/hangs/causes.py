"""What goes wrong in a job, and what of it its records can show."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.hangs.machine import Call, Machine
from tests.hangs.program import MS, Op, Program


@dataclass
class Planted:
    """A cause in a job.

    Attributes:
        causes: what the verdict may say: the first is the cause itself, more are what the records show of it where they
            cannot show more.
        ranks: where it is; () for nowhere.
        others: ranks that may be named with them: those that differ from them, where nobody can tell which is wrong.
        hosts: what is known of hosts.
        lost: ranks that leave no dump.
        is_moving: the job has not stopped: it is looked at in the middle.
        at: ranks of the collective that all are in: one without records may as well not have come.
        may_be: said instead if not as sure, where no stack says the line or no past is recorded.
    """

    causes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    hosts: dict[int, dict[str, Any]] = field(default_factory=dict)
    lost: tuple[int, ...] = ()
    is_moving: bool = False
    at: tuple[int, ...] = ()
    may_be: tuple[str, ...] = ()
    change: Callable[[Machine], None] = lambda _: None


def place_of(program: Program, rank: int, rng: random.Random, dim: str, name: str, *, first_step: int = 1) -> int:
    """Where a rank makes some call of a kind, in any step but the first ones."""
    ops, begins = program.ops[rank], program.begins[rank]
    places = [at for at, op in enumerate(ops) if op.dim == dim and op.name == name and at >= begins[first_step]]
    return rng.choice(places)


def _rank(program: Program, rng: random.Random) -> int:
    return rng.randrange(program.shape.world)


def _stop(program: Program, rank: int, rng: random.Random) -> None:
    """The host of a rank does nothing more, from somewhere in a step on, as if it waited there."""
    ops, begins = program.of(rank), program.begins[rank]
    at = rng.choice([at for at, op in enumerate(ops) if at >= begins[1] and op.kind in ("call", "host")])
    ops[at:at] = [Op("sync"), Op("stall")]


def missing(program: Program, rng: random.Random) -> Planted:
    rank = _rank(program, rng)
    _stop(program, rank, rng)
    return Planted(("missing rank",), (rank,))


def _busy(cause: str, activity: str | None, *frames: str) -> Callable[[Program, random.Random], Planted]:
    def plant(program: Program, rng: random.Random) -> Planted:
        rank = _rank(program, rng)
        _stop(program, rank, rng)
        stack = ";".join(frames)
        return Planted((cause,), (rank,), hosts={rank: {"activity": activity, "stack": stack, "line": "train.py:22"}})

    return plant


def killed(program: Program, rng: random.Random) -> Planted:
    rank = _rank(program, rng)
    _stop(program, rank, rng)
    ended = rng.choice(["killed by signal 9", "exit code 1", "out of memory"])
    return Planted(("rank ended",), (rank,), hosts={rank: {"ended": ended}}, lost=(rank,))


def gone(program: Program, rng: random.Random) -> Planted:
    """Nothing says that it ended but that it left nothing: others that left nothing may be named with it."""
    rank = _rank(program, rng)
    _stop(program, rank, rng)
    return Planted(("rank ended",), (rank,), lost=(rank,))


def raised(program: Program, rng: random.Random) -> Planted:
    rank = _rank(program, rng)
    _stop(program, rank, rng)
    return Planted(("rank ended",), (rank,), hosts={rank: {"ended": "exit code 1"}})


def _skipped(dim: str, name: str) -> Callable[[Program, random.Random], Planted]:
    """A rank leaves a call out. Calls that look the same hide it until the end, where the rank is missing."""

    def plant(program: Program, rng: random.Random) -> Planted:
        rank = _rank(program, rng)
        del program.of(rank)[place_of(program, rank, rng, dim, name)]
        pair = program.shape.members(dim, rank)
        may_be = ("missing rank", "different collective", "order of groups", "different sizes", "different types")
        return Planted(("skipped call",), (rank,), pair if len(pair) == 2 else (), may_be=may_be)

    return plant


def extra(program: Program, rng: random.Random) -> Planted:
    rank = _rank(program, rng)
    at = place_of(program, rank, rng, "dp", "_reduce_scatter_base")
    program.of(rank).insert(at, Op("call", "dp", "all_reduce", ((7,),), ((7,),), line=70))
    pair = program.shape.members("dp", rank)
    return Planted(("different collective",), (rank,), pair if len(pair) == 2 else ())


def _changed(cause: str, dim: str, name: str, /, **values: Any) -> Callable[[Program, random.Random], Planted]:
    def plant(program: Program, rng: random.Random) -> Planted:
        rank = _rank(program, rng)
        at = place_of(program, rank, rng, dim, name)
        ops = program.of(rank)
        more = values
        if cause == "different sizes":
            less = rng.randrange(1, 9)
            more = {side: tuple((each[0] - less, *each[1:]) for each in getattr(ops[at], side)) for side in values}
        ops[at] = replace(ops[at], **more)
        pair = program.shape.members(dim, rank)
        if ops[at].is_p2p:
            pair = (rank, pair[ops[at].peer])
        return Planted((cause,), (rank,), pair if len(pair) == 2 else ())

    return plant


def two_roots(program: Program, rng: random.Random) -> Planted:
    """A rank takes itself for the root of a gather: of two of which each is root nobody can tell which is wrong."""
    shape = program.shape
    rank = rng.choice([rank for rank in range(shape.world) if shape.members("tp", rank)[0] != rank])
    at = place_of(program, rank, rng, "tp", "gather")
    ops = program.of(rank)
    ops[at] = replace(ops[at], root=shape.members("tp", rank).index(rank))
    return Planted(("different root",), (rank,), (rank, shape.members("tp", rank)[0]))


def other_root(program: Program, rng: random.Random) -> Planted:
    """No record says the root of a broadcast: that it may be the root, and not who, is all that can be said."""
    rank = _rank(program, rng)
    at = place_of(program, rank, rng, "dp", "broadcast")
    ops = program.of(rank)
    ops[at] = replace(ops[at], root=1)
    return Planted(("different root",), (), at=program.shape.members("dp", rank))


def other_members(program: Program, rng: random.Random) -> Planted:
    """A rank has made a group with one member less."""
    rank = _rank(program, rng)
    dim = rng.choice(["world", "dp"]) if program.shape.dp > 2 else "world"
    members = program.shape.members(dim, rank)
    other = rng.choice([each for each in members if each != rank])
    fewer = tuple(each for each in members if each != other)

    def change(machine: Machine) -> None:
        group = machine.of[dim][rank]
        machine.views[rank, group] = fewer
        machine.fault = lambda calls: {call.rank for call in calls} if calls[0].group == group else set()

    return Planted(("different group",), (rank,), change=change)


def order_of_groups(program: Program, rng: random.Random) -> Planted:
    """Half of the ranks call two groups in the other order, from the first step on."""
    shape = program.shape
    ranks = range(shape.world)
    later = [rank for rank in ranks if shape.place(rank)[0] % 2]
    step = rng.randrange(shape.steps)
    for rank in ranks:
        ops, at = program.of(rank), program.begins[rank][step]
        pair = [
            Op("call", "dp", "all_reduce", ((5,),), ((5,),), line=71),
            Op("call", "world", "all_reduce", ((6,),), ((6,),), line=72),
        ]
        ops[at:at] = reversed(pair) if rank in later else pair
    return Planted(("order of groups",), tuple(ranks), may_be=("skipped call",))


def order_on_one(program: Program, rng: random.Random) -> Planted:
    """One rank calls two groups of a loop in the other order."""
    rank = _rank(program, rng)
    step = rng.randrange(program.shape.steps)
    for each in range(program.shape.world):
        ops, at = program.of(each), program.begins[each][step]
        pair = [
            Op("call", "tp", "all_reduce", ((5,),), ((5,),), line=71),
            Op("call", "world", "all_reduce", ((6,),), ((6,),), line=71),
        ]
        ops[at:at] = reversed(pair) if each == rank else pair
    return Planted(("order of groups",), (rank,), tuple(range(program.shape.world)), may_be=("skipped call",))


def _one_end(kind: str, cause: str) -> Callable[[Program, random.Random], Planted]:
    """A rank leaves a send or a receive out: who of the two is wrong, its past says if it is recorded."""

    def plant(program: Program, rng: random.Random) -> Planted:
        shape = program.shape
        rank = rng.choice([rank for rank in range(shape.world) if any(op.name == kind for op in program.ops[rank])])
        at = place_of(program, rank, rng, "pp", kind)
        ops = program.of(rank)
        peer = shape.members("pp", rank)[ops[at].peer]
        del ops[at]
        return Planted(
            (cause,),
            (rank,),
            (rank, peer),
            may_be=("order of groups", "missing rank", "unmatched send", "unmatched receive"),
        )

    return plant


def dead_link(program: Program, rng: random.Random) -> Planted:
    """All are in it, and it ends on none of them."""
    rank = _rank(program, rng)
    dim = rng.choice(["tp", "dp"])
    seq = _number(program, rank, rng, dim)

    def change(machine: Machine) -> None:
        group = machine.of[dim][rank]
        machine.fault = lambda calls: {call.rank for call in calls} if _is(calls, group, seq) else set()

    members = program.shape.members(dim, rank)
    return Planted(("device or network",), (rank,), members, at=members, may_be=("different root",), change=change)


def slow_link(program: Program, rng: random.Random) -> Planted:
    """All are in it, and it ends on all but one."""
    rank = _rank(program, rng)
    dim = rng.choice(["tp", "dp", "world"])
    seq = _number(program, rank, rng, dim)

    def change(machine: Machine) -> None:
        group = machine.of[dim][rank]
        machine.fault = lambda calls: {rank} if _is(calls, group, seq) else set()

    members = program.shape.members(dim, rank)
    return Planted(("device or network",), (rank,), at=members, may_be=("different root",), change=change)


def stuck_kernel(program: Program, rng: random.Random) -> Planted:
    """A kernel of one rank never ends: the rank has called what comes after it. Its group is named without timing."""
    rank = _rank(program, rng)
    ops = program.of(rank)
    at = rng.choice([at for at, op in enumerate(ops) if op.kind == "compute" and at > program.begins[rank][1]])
    ops[at] = replace(ops[at], time=-1)
    after = next(op for op in ops[at:] if op.kind == "call")
    members = program.shape.members(after.dim, rank)
    return Planted(("device or network",), (rank,), members, at=members, may_be=("missing rank",))


def moving(_: Program, __: random.Random) -> Planted:
    return Planted(("no hang",), is_moving=True)


def finished(_: Program, __: random.Random) -> Planted:
    return Planted(("no hang",))


def slow_host(program: Program, rng: random.Random) -> Planted:
    """One rank loads its data for longer than the others, and comes."""
    rank = _rank(program, rng)
    ops = program.of(rank)
    late = rng.randrange(500, 3000) * MS
    program.ops[rank] = [replace(op, time=op.time + late) if op.name == "load" else op for op in ops]
    return Planted(("slow rank", "no hang"), (rank,), program.shape.members("tp", rank), is_moving=True)


def evaluating(program: Program, rng: random.Random) -> Planted:
    """The ranks of a tensor parallel group still evaluate, and the others wait."""
    rank = _rank(program, rng)
    ranks = program.shape.members("tp", rank)
    times = 400
    for each in ranks:
        ops = program.of(each)
        at = program.begins[each][2]
        loop = [Op("host", time=300 * MS), Op("call", "tp", "all_reduce", ((3,),), ((3,),), line=75), Op("sync")]
        ops[at:at] = loop * times
    return Planted(("slow rank",), ranks, is_moving=True)


def all_save(program: Program, rng: random.Random) -> Planted:
    """All ranks write a checkpoint, after a step in which all is done."""
    hosts = {}
    for rank in range(program.shape.world):
        ops, at = program.of(rank), program.begins[rank][2]
        ops[at:at] = [Op("sync"), Op("stall")]
        hosts[rank] = {"activity": "checkpoint", "stack": "checkpoint.py(12): save", "line": "train.py:97"}
    return Planted(("checkpoint",), tuple(range(program.shape.world)), hosts=hosts)


def one_saves(program: Program, rng: random.Random) -> Planted:
    """One rank writes a checkpoint for longer than the others wait."""
    rank = _rank(program, rng)
    ops, at = program.of(rank), program.begins[rank][2]
    ops[at:at] = [Op("sync"), Op("stall")]
    stack = "train.py(97): <module>;serialization.py(900): save"
    return Planted(("checkpoint",), (rank,), hosts={rank: {"stack": stack, "line": "train.py:97"}})


def exhausted(program: Program, rng: random.Random) -> Planted:
    """The data of one rank end a step before those of the others: it goes on with what comes after the last step."""
    rank = _rank(program, rng)
    ops, begins = program.of(rank), program.begins[rank]
    del ops[begins[-1] : -2]
    pair = program.shape.members("tp", rank)
    may_be = ("missing rank", "different collective", "order of groups", "unmatched send", "unmatched receive")
    return Planted(("skipped call",), (rank,), pair if len(pair) == 2 else (), may_be=may_be)


def _is(calls: list[Call], group: int, seq: int) -> bool:
    return calls[0].group == group and calls[0].seq == seq


def _number(program: Program, rank: int, rng: random.Random, dim: str) -> int:
    ops = program.ops[rank]
    places = [at for at, op in enumerate(ops) if op.kind == "call" and op.dim == dim and not op.is_p2p]
    late = [number + 1 for number, at in enumerate(places) if at >= program.begins[rank][1]]
    return rng.choice(late)


CAUSES: dict[str, Callable[[Program, random.Random], Planted]] = {
    "missing": missing,
    "host-stalled": _busy("host stalled", None, "<module> train.py:22", "acquire threading.py:300"),
    "data-loading": _busy("data loading", "data loading"),
    "data-loading-stack": _busy("data loading", None, "train.py(22): <module>", "dataloader.py(1480): _next_data"),
    "checkpoint": _busy("checkpoint", "checkpoint"),
    "one-saves": one_saves,
    "all-save": all_save,
    "killed": killed,
    "gone": gone,
    "raised": raised,
    "skipped-dp": _skipped("dp", "_reduce_scatter_base"),
    "skipped-tp": _skipped("tp", "all_reduce"),
    "skipped-world": _skipped("world", "all_reduce"),
    "skipped-ep": _skipped("ep", "all_to_all"),
    "skipped-broadcast": _skipped("dp", "broadcast"),
    "exhausted": exhausted,
    "extra": extra,
    "collective-dp": _changed("different collective", "dp", "_reduce_scatter_base", name="all_reduce", line=81),
    "collective-tp": _changed("different collective", "tp", "all_reduce", name="all_gather"),
    "sizes-dp": _changed("different sizes", "dp", "_reduce_scatter_base", sizes_in=0, sizes_out=0),
    "sizes-tp": _changed("different sizes", "tp", "all_reduce", sizes_in=0, sizes_out=0),
    "sizes-gather": _changed("different sizes", "dp", "_all_gather_base", sizes_in=0),
    "sizes-send": _changed("different sizes", "pp", "send", sizes_in=0),
    "types": _changed("different types", "tp", "all_reduce", dtype="Float"),
    "two-roots": two_roots,
    "other-root": other_root,
    "other-members": other_members,
    "order-of-groups": order_of_groups,
    "order-on-one": order_on_one,
    "no-receive": _one_end("recv", "unmatched send"),
    "no-send": _one_end("send", "unmatched receive"),
    "dead-link": dead_link,
    "slow-link": slow_link,
    "stuck-kernel": stuck_kernel,
    "moving": moving,
    "finished": finished,
    "slow-host": slow_host,
    "evaluating": evaluating,
}


def chosen(names: Iterable[str]) -> dict[str, Callable[[Program, random.Random], Planted]]:
    """Causes by name; all without names."""
    wanted = [*names] or [*CAUSES]
    return {name: CAUSES[name] for name in wanted}
