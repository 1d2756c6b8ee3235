"""What each rank of a job would have in its dump (format 2.10), and the same as the tables that the verdict sees."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import polars as pl

from kinetoscope.model.hangs.of_dumps import LAST_CALLS
from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS
from tests.hangs.causes import Planted
from tests.hangs.machine import Call, Group, Machine
from tests.hangs.program import MS, S

TIMEOUT = 600
POLL = 100 * MS


@dataclass(frozen=True)
class Form:
    """How a job is recorded.

    Attributes:
        ring: entries of the ring buffer.
        has_timing: the start of a collective is recorded, which `TORCH_NCCL_ENABLE_TIMING` asks for.
        has_stacks: entries have frames.
        has_written: something says when the dumps were written.
        lost: ranks whose dumps are missing.
        early: ranks that dumped before the job stood still.
        spread: how far apart dumps are taken, ns.
    """

    ring: int
    has_timing: bool
    has_stacks: bool
    has_written: bool
    lost: frozenset[int]
    early: frozenset[int]
    spread: int


def drawn_form(world: int, planted: Planted, rng: random.Random) -> Form:
    """A form; one dump of twenty is missing, but the planted rank's."""
    spared = {*planted.ranks} - {*planted.lost} if len(planted.ranks) < world else set()
    lost = {rank for rank in range(world) if rng.random() < 0.05 and rank not in spared}
    early = {rank for rank in range(world) if rng.random() < 0.03 and rank not in spared} if rng.random() < 0.2 else ()
    return Form(
        rng.choice([64, 100, 150, 400]),
        has_timing=rng.random() < 0.5,
        has_stacks=rng.random() < 0.7,
        has_written=planted.is_moving or planted.causes[0] in ("no hang", "checkpoint") or rng.random() < 0.9,
        lost=frozenset({*lost, *planted.lost}),
        early=frozenset(early),
        spread=rng.choice([200 * MS, 5 * S]),
    )


@dataclass(frozen=True)
class Recorded:
    """A job as its dumps show it: `dumps` and `written` by rank."""

    dumps: dict[int, dict[str, Any]]
    written: dict[int, int]
    hosts: dict[int, dict[str, Any]]
    world: int
    has_written: bool

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """CALLS, GROUPS, HOSTS."""
        calls: list[tuple[Any, ...]] = []
        groups: list[tuple[Any, ...]] = []
        hosts = []
        for rank in sorted({*self.dumps, *self.hosts}):
            dump = self.dumps.get(rank)
            last = 0
            if dump is not None:
                rows = [_row(rank, place, entry) for place, entry in enumerate(dump["entries"])]
                calls += _last_ones(rows)
                groups += _groups(rank, dump, rows)
                last = max((max(filter(None, row[13:16])) for row in rows), default=0)
            known = self.hosts.get(rank, {})
            written = self.written[rank] if dump is not None and self.has_written else None
            more = tuple(known.get(name) for name in ("activity", "line", "stack", "ended"))
            hosts.append((rank, self.world, last, written, *more, "flight recorder" if dump else "log", None))
        return CALLS.frame(calls), GROUPS.frame(groups), HOSTS.frame(hosts)


def _last_ones(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The last calls of each group, and all that are not done, as a reader of dumps keeps them."""
    later: Counter[tuple[str, bool]] = Counter()
    done = {row[1:3] + row[4:5] for row in rows if row[6] == "coalesced" and row[12] == "completed"}
    made = []
    for row in reversed(rows):
        later[row[1], row[4]] += 1
        is_done = row[12] == "completed" or row[1:3] + row[4:5] in done
        if later[row[1], row[4]] <= LAST_CALLS or not is_done:
            made.append((*row[:12], "completed", *row[13:]) if is_done else row)
    return made[::-1]


def recorded(machine: Machine, planted: Planted, form: Form, rng: random.Random) -> Recorded:
    """The dumps of a job that has run."""
    world = machine.shape.world
    last = max(max(filter(None, (call.created, call.start, call.end))) for calls in machine.calls for call in calls)
    first = min(calls[0].created for calls in machine.calls if calls)
    after = rng.choice([30, 120, TIMEOUT]) * S
    moment = first + int((last - first) * rng.uniform(0.5, 0.9)) if planted.is_moving else last + after
    dumps, written = {}, {}
    for rank in range(world):
        # A job that moves is asked at once; ranks that dumped early did so within a second before all stood still.
        when = moment + rng.randrange(300 * MS if planted.is_moving else form.spread)
        if rank in form.early and not planted.is_moving:
            when = last - rng.randrange(S)
        off = rng.randrange(-5 * MS, 5 * MS)
        if rank not in form.lost:
            dumps[rank] = _dump(machine, rank, form, when, off)
            written[rank] = when + off
    return Recorded(dumps, written, planted.hosts, world, form.has_written)


def _dump(machine: Machine, rank: int, form: Form, when: int, off: int) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    config: dict[str, dict[str, str]] = {}
    status: dict[str, dict[str, int]] = {}
    operations: dict[int, int] = {}
    sequences: dict[tuple[int, bool], int] = {}
    for call in machine.calls[rank]:
        if call.created > when:
            break
        group = machine.groups[call.group]
        if group.name not in config:
            members = machine.views.get((rank, call.group), group.ranks)
            config[group.name] = {"name": group.name, "desc": group.desc, "ranks": str([*members])}
        operations[call.group] = operations.get(call.group, 0) + 1
        sequences[call.group, call.op.is_p2p] = call.seq
        numbers = (sequences.get((call.group, False), 0), sequences.get((call.group, True), 0), operations[call.group])
        for each in _entries(call, group, numbers, form, when, off):
            entries.append(each | {"record_id": len(entries)})
        at = status.setdefault(str(call.group), dict.fromkeys(_STATUS, -1))
        for name, is_so in zip(_STATUS, _reached(call, form, when), strict=True):
            at[name] = operations[call.group] if is_so else at[name]
    return {"version": "2.10", "entries": entries[-form.ring :], "pg_config": config, "pg_status": status}


_STATUS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")


def _reached(call: Call, form: Form, when: int) -> tuple[bool, bool, bool]:
    has_started = form.has_timing and call.start is not None and call.start <= when
    return True, has_started, call.end is not None and call.end + POLL // 2 <= when


def _entries(
    call: Call, group: Group, numbers: tuple[int, int, int], form: Form, when: int, off: int
) -> list[dict[str, Any]]:
    op = call.op
    _, has_started, has_ended = _reached(call, form, when)
    name = op.name
    if op.is_p2p:
        own = group.ranks.index(call.rank)
        name += f" {own}->{op.peer}" if op.name == "send" else f" {own}<-{op.peer}"
    entry = {
        "record_id": 0,
        "pg_id": group.number,
        "process_group": (group.name, group.desc),
        "collective_seq_id": numbers[0],
        "p2p_seq_id": numbers[1],
        "op_id": numbers[2],
        "is_p2p": op.is_p2p,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": call.created + off,
        "input_sizes": [[*size] for size in op.sizes_in],
        "input_dtypes": [op.dtype] * len(op.sizes_in),
        "output_sizes": [[*size] for size in op.sizes_out],
        "output_dtypes": [op.dtype] * len(op.sizes_out),
        "state": "completed" if has_ended else "started" if has_started else "scheduled",
        "time_discovered_started_ns": call.start + off + POLL // 4 if has_started and call.start else None,
        "time_discovered_completed_ns": call.end + off + POLL // 2 if has_ended and call.end else None,
        "retired": has_ended,
        "timeout_ms": TIMEOUT * 1000,
        "thread_id": "140000000000000",
        "thread_name": "pt_main_thread",
    }
    if form.has_stacks:
        entry["frames"] = [
            {"name": op.name, "filename": "torch/distributed/distributed_c10d.py", "line": 3000},
            {"name": "step", "filename": "/job/train.py", "line": op.line},
        ]
    if not op.is_coalesced:
        return [entry]
    # Members of a coalesced group have no events of their own: they stay as they were called.
    never = {"state": "scheduled", "time_discovered_started_ns": None, "time_discovered_completed_ns": None}
    whole: dict[str, Any] = {"profiling_name": "nccl:coalesced", "input_sizes": [], "output_sizes": []}
    whole |= {"input_dtypes": [], "output_dtypes": []}
    return [entry | never | {"retired": False}, entry | whole]


def _row(rank: int, order: int, entry: Mapping[str, Any]) -> tuple[Any, ...]:
    _, name = entry["profiling_name"].split(":")
    name, _, ends = name.partition(" ")
    peer = int(ends.split("->" if name == "send" else "<-")[1]) if ends else None
    frames = entry.get("frames", ())
    line = next((f"train.py:{each['line']}" for each in frames if "/job/" in each["filename"]), None)
    stack = ";".join(f"{each['filename']}({each['line']}): {each['name']}" for each in reversed(frames)) or None
    types = ", ".join(dict.fromkeys(entry["input_dtypes"] + entry["output_dtypes"])) or None
    return (
        rank,
        _key(*entry["process_group"]),
        entry["p2p_seq_id"] if entry["is_p2p"] else entry["collective_seq_id"],
        order,
        entry["is_p2p"],
        peer,
        name,
        _text(entry["input_sizes"]),
        _text(entry["output_sizes"]),
        _elements(entry["input_sizes"]),
        _elements(entry["output_sizes"]),
        types,
        entry["state"],
        *(entry[f"time_{each}_ns"] for each in ("created", "discovered_started", "discovered_completed")),
        entry["timeout_ms"] * MS,
        line,
        stack,
    )


def _key(name: str, desc: str) -> str:
    return f"nccl:{name} ({desc})"


def _text(sizes: list[list[int]]) -> str | None:
    return ", ".join(map(str, sizes)) or None


def _elements(sizes: list[list[int]]) -> int:
    return sum(prod(size) for size in sizes)


def _groups(rank: int, dump: Mapping[str, Any], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    made = []
    for config in dump["pg_config"].values():
        key = _key(config["name"], config["desc"])
        seqs = [row[2] for row in rows if row[1] == key and not row[4]]
        done = [row[2] for row in rows if row[1] == key and not row[4] and row[12] == "completed"]
        ranks = [int(each) for each in config["ranks"].strip("[]").split(",")]
        ends = (max(seqs, default=None), max(done, default=None), min(seqs, default=None))
        made.append((rank, key, config["desc"], "nccl", ranks, *ends))
    return made
