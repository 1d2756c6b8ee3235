"""What ranks of a training with data, tensor, pipeline and expert parallel groups call."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

MS = 1_000_000
S = 1000 * MS


@dataclass(frozen=True, slots=True)
class Op:
    """Something that a rank's host does, or gives to its device.

    Attributes:
        kind: call, compute, host, sync (the host waits for the device), wait (the device waits for its asynchronous
            calls), stall (the host does nothing ever after).
        dim: which of the rank's groups; "pp" calls have `peer`, a stage.
        sizes_in, sizes_out: sizes of tensors.
        root: where it begins or ends; no record has it.
        time: of the device, or of the host; of a call its least.
    """

    kind: str
    dim: str = ""
    name: str = ""
    sizes_in: tuple[tuple[int, ...], ...] = ()
    sizes_out: tuple[tuple[int, ...], ...] = ()
    dtype: str = "Float"
    line: int = 0
    peer: int = -1
    root: int = 0
    time: int = MS
    is_async: bool = False
    is_coalesced: bool = False

    @property
    def is_p2p(self) -> bool:
        return self.name in ("send", "recv")


@dataclass(frozen=True)
class Shape:
    """How a job is laid out.

    Attributes:
        dp, pp, tp, ep: ranks of a group of each kind.
        size: elements of an activation.
    """

    dp: int
    pp: int
    tp: int
    ep: int
    layers: int
    microbatches: int
    steps: int
    size: int
    has_coalesced: bool
    is_one_name: bool
    """All groups of a kind have one name, as after `split_group`."""

    @property
    def world(self) -> int:
        return self.dp * self.pp * self.tp

    def place(self, rank: int) -> tuple[int, int, int]:
        """Numbers in dp, pp and tp."""
        return rank // (self.pp * self.tp), rank // self.tp % self.pp, rank % self.tp

    def rank(self, dp: int, pp: int, tp: int) -> int:
        return (dp * self.pp + pp) * self.tp + tp

    def members(self, dim: str, rank: int) -> tuple[int, ...]:
        """The rank's group of a kind."""
        d, p, t = self.place(rank)
        if dim == "world":
            return tuple(range(self.world))
        if dim == "tp":
            return tuple(self.rank(d, p, each) for each in range(self.tp))
        if dim == "pp":
            return tuple(self.rank(d, each, t) for each in range(self.pp))
        many = range(self.dp) if dim == "dp" else range(d // self.ep * self.ep, d // self.ep * self.ep + self.ep)
        return tuple(self.rank(each, p, t) for each in many)


def drawn_shape(world: int, rng: random.Random) -> Shape:
    """A layout of so many ranks, a power of two."""
    tp = rng.choice([2, 4, 8] if world >= 64 else [2])
    pp = rng.choice([2, 4] if world >= 64 else [2])
    dp = world // tp // pp
    return Shape(
        dp,
        pp,
        tp,
        min(dp, rng.choice([2, 4])),
        layers=rng.choice([1, 2, 3]),
        microbatches=rng.choice([2, 3]),
        steps=rng.choice([4, 5]),
        size=rng.choice([512, 1024, 4096]),
        has_coalesced=rng.random() < 0.4,
        is_one_name=rng.random() < 0.3,
    )


@dataclass
class Program:
    """What each rank does; ranks of one pipeline stage share the list, until something is planted.

    Attributes:
        begins: place of the first op of each step.
    """

    shape: Shape
    ops: list[list[Op]]
    begins: list[list[int]]
    own: set[int] = field(default_factory=set)

    def of(self, rank: int) -> list[Op]:
        """A rank's list, to be changed."""
        if rank not in self.own:
            self.ops[rank] = [*self.ops[rank]]
            self.own.add(rank)
        return self.ops[rank]


def training(shape: Shape, rng: random.Random) -> Program:
    """A training; what it calls by step and stage is drawn."""
    timings = [rng.randrange(2, 12) * MS for _ in range(4)]
    stages = []
    for stage in range(shape.pp):
        ops: list[Op] = []
        begins = []
        for step in range(shape.steps):
            begins.append(len(ops))
            ops += _step(shape, stage, step, timings)
        ops += [Op("call", "world", "barrier", line=99), Op("sync")]
        stages.append((ops, begins))
    of_ranks = [stages[shape.place(rank)[1]] for rank in range(shape.world)]
    return Program(shape, [ops for ops, _ in of_ranks], [begins for _, begins in of_ranks])


def _step(shape: Shape, stage: int, step: int, timings: list[int]) -> list[Op]:
    act = ((shape.size, 64),)
    ops = [Op("host", "", "load", time=timings[0], line=20)]
    for forward in (True, False):
        line = 40 if forward else 60
        before, after = (stage - 1, stage + 1) if forward else (stage + 1, stage - 1)
        for _ in range(shape.microbatches):
            if 0 <= before < shape.pp:
                ops.append(
                    Op("call", "pp", "recv", (), act, "BFloat16", line, before, is_coalesced=shape.has_coalesced)
                )
            for layer in range(shape.layers):
                ops.append(Op("compute", time=timings[1]))
                ops.append(Op("call", "tp", "all_reduce", act, act, "BFloat16", line + 1))
                if shape.ep > 1 and layer == 0:
                    split = ((shape.size // 2, 64),)
                    ops.append(Op("call", "ep", "all_to_all", split, split, "BFloat16", line + 2))
            if 0 <= after < shape.pp:
                ops.append(
                    Op("call", "pp", "send", act, (), "BFloat16", line + 3, after, is_coalesced=shape.has_coalesced)
                )
    for bucket, width in enumerate((32, 16, 8)):
        whole = ((width * shape.size * shape.dp,),)
        part = ((width * shape.size,),)
        ops.append(Op("call", "dp", "_reduce_scatter_base", whole, part, line=80 + bucket, is_async=True))
        ops.append(Op("compute", time=timings[2]))
    ops.append(Op("wait"))
    ops.append(Op("call", "world", "all_reduce", ((1,),), ((1,),), line=90))
    ops.append(Op("sync"))
    ops.append(Op("host", "", "optimizer", time=timings[3], line=91))
    ops.append(Op("call", "dp", "_all_gather_base", ((8 * shape.size,),), ((8 * shape.size * shape.dp,),), line=92))
    ops.append(Op("call", "dp", "broadcast", ((shape.size,),), ((shape.size,),), line=93))
    parts = ((4,),) * shape.tp
    ops.append(Op("call", "tp", "gather", ((4,),), parts, line=94))
    if step % 2 == 1:
        ops.append(Op("call", "world", "barrier", line=95))
        ops.append(Op("sync"))
    return ops


def of_rank(shape: Shape, rank: int, op: Op) -> Op:
    """An op as this rank records it: only the root of a gather gets something."""
    if op.name == "gather" and shape.members(op.dim, rank)[op.root] != rank:
        return replace(op, sizes_out=())
    return op
