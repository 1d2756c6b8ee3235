"""Runs a model, writes its traces, and tells what really happened."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tests.simulator.clocks import Clocks, clocks, host_name
from tests.simulator.dialects import FACTS, distributed, words
from tests.simulator.groups import Family, families
from tests.simulator.machine import ORIGIN, Collective, Machine
from tests.simulator.model import Cause, Fault, Model
from tests.simulator.training import train
from tests.simulator.writing import BASE, Lines, Writer

_CUT: Final = 0.7
"""Share of the events that a file has that ends in the middle."""

_PLACE: Final = {"match": pl.Int64, "rank": pl.Int64}


@dataclass(frozen=True)
class Straggler:
    """The rank that makes the others wait: why, and by how many ns each step is longer because of it.

    lasting: the same without the first step that the fault is in: what happened once may have been an accident.
    """

    rank: int
    cause: Cause
    loss: int
    lasting: int


@dataclass(frozen=True)
class Truth:
    """What really happened.

    Attributes:
        model: what was simulated.
        files: by rank; without those that are missing.
        collectives: one row for each rank in each collective or point-to-point exchange, by match and rank: match,
            rank, purpose, group_name, group_ranks ("0,1,2"), group_size, kind (all_reduce, …; send or recv), name
            (`Collective name`), bytes, seq, peer, step, arrival, begin, end (true time, ns since 1970: when the rank's
            kernel began; when the last rank's did, of a broadcast when root and rank had; when the rank left), transfer
            (from begin until the first left), start_recorded, end_recorded (as in the file), recorded (false where no
            file has it).
        clocks: one row for each host: what its clock shows too much (`offset`, ns) when the job begins at `origin`, and
            by how much more for each ns since (`rate`).
        hosts: the host of each rank.
        step_time: mean ns of a step.
        straggler: who makes others wait because of `Model.fault`, if that one does; a slow link is no rank's fault.
        other: the same of `Model.other`.
    """

    model: Model
    files: dict[int, Path]
    collectives: pl.DataFrame
    clocks: pl.DataFrame
    hosts: dict[int, str]
    origin: int
    step_time: float
    straggler: Straggler | None
    other: Straggler | None


def simulate(model: Model, folder: Path) -> Truth:
    """Run the job that a model describes and write the traces of its ranks into a folder."""
    machine, clock = train(model), clocks(model)
    groups = families(model)
    files: dict[int, Path] = {}
    recorded: list[tuple[int, int]] = []
    folder.mkdir(parents=True, exist_ok=True)
    for block in Writer(machine, clock).blocks():
        for place in range(len(block.events)):
            rank = block.first + place
            if rank not in model.missing:
                files[rank] = _file(folder, model, rank)
                recorded += _written(files[rank], model, rank, block, place, groups)
    return _truth(machine, clock, files, pl.DataFrame(recorded, schema=_PLACE, orient="row"))


def happened(model: Model) -> Truth:
    """The truth of a job, without its traces."""
    machine = train(model)
    return _truth(machine, clocks(model), {}, pl.DataFrame(schema=_PLACE))


def _truth(machine: Machine, clock: Clocks, files: dict[int, Path], recorded: pl.DataFrame) -> Truth:
    model, took = machine.model, _step_time(machine)
    hosts = {rank: host_name(rank // model.ranks_per_host) for rank in range(model.ranks)}
    collectives = _collectives(machine, clock, recorded)
    return Truth(model, files, collectives, clock.frame, hosts, ORIGIN, took, *_stragglers(model, took))


def _file(folder: Path, model: Model, rank: int) -> Path:
    suffix = ".gz" if model.compressed else ""
    return folder / f"rank{rank}.pt.trace.json{suffix}"


def _written(
    file: Path, model: Model, rank: int, block: Lines, place: int, groups: dict[str, Family]
) -> list[tuple[int, int]]:
    """Write one rank's file; the matches of the collectives that are in it, each with the rank."""
    events, collectives = block.events[place], block.collectives[place]
    kept = np.ones(len(events), np.bool_)
    if model.sampled < 1:
        drawn = np.random.default_rng([model.seed, 4, rank]).random(len(events)) < model.sampled
        kept = drawn | np.array(["ProfilerStep#" in event for event in events])
    beyond = int(len(events) * _CUT) if rank in model.cut else len(events)
    lines = [event for event, keep in zip(events[:beyond], kept[:beyond].tolist(), strict=True) if keep]
    before, after = _around(model, rank, groups)
    text = before + ",\n".join(lines)
    text = text + ',\n{"ph": "X", "cat": "cpu_op", "na' if rank in model.cut else text + after
    data = text.encode()
    file.write_bytes(gzip.compress(data, 1, mtime=0) if model.compressed else data)
    return [(match, rank) for match, event in collectives if event < beyond and kept[event]]


def _around(model: Model, rank: int, groups: dict[str, Family]) -> tuple[str, str]:
    """What stands before and after the events."""
    facts = FACTS[model.dialect]
    backend = "gloo" if model.dialect == "gloo" or model.staged else "nccl"
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_493_504, "numSms": 132}
    devices = [] if model.dialect == "gloo" else [{**device, "id": number} for number in range(model.ranks_per_host)]
    top = [f'"deviceProperties": {json.dumps(devices)}']
    top.append(f'"distributedInfo": {distributed(facts, backend, rank, model.ranks, groups)}')
    if facts.host_name:
        top.append(f'"host_name": "{host_name(rank // model.ranks_per_host)}"')
    last = ['"traceName": "trace.json"']
    timing = ['"displayTimeUnit": "ms"', f'"baseTimeNanoseconds": {BASE}'] if facts.base else []
    (top if facts.first else last).extend(timing)
    before = '{\n"schemaVersion": 1,\n' + ",\n".join(top) + ',\n"traceEvents": [\n'
    return before, "\n],\n" + ",\n".join(last) + "\n}\n"


def _step_time(machine: Machine) -> float:
    """Mean, until all is done on all ranks."""
    latest = max(int(busy.max()) for busy in (machine.host, *machine.streams.values()))
    return (latest - ORIGIN) / machine.model.steps


def _stragglers(model: Model, took: float) -> tuple[Straggler | None, Straggler | None]:
    """Who is behind either fault: steps are longer than without it."""
    none = Fault()
    first, other = model.fault, model.other
    return (
        _straggler(first, took, replace(model, fault=none), replace(model, fault=first.later())),
        _straggler(other, took, replace(model, other=none), replace(model, other=other.later())),
    )


def _straggler(fault: Fault, took: float, without: Model, later: Model) -> Straggler | None:
    """Whose fault it is that steps are longer than without it; nobody's if it is a link's, or if they are not."""
    if fault.cause in ("none", "slow_link"):
        return None
    usual = _step_time(train(without))
    if took <= usual:
        return None
    return Straggler(fault.rank, fault.cause, round(took - usual), round(_step_time(train(later)) - usual))


def _collectives(machine: Machine, clock: Clocks, recorded: pl.DataFrame) -> pl.DataFrame:
    facts = FACTS[machine.model.dialect]
    frames = [_rows(record, clock) for record in machine.records if isinstance(record, Collective)]
    if not frames:
        return pl.DataFrame(schema=_PLACE)
    frame = pl.concat(frames)
    times = pl.col("start_recorded", "end_recorded")
    if facts.whole:
        frame = frame.with_columns(times // 1000 * 1000)
    if facts.base and not facts.first:  # what times count from is behind the cut
        frame = frame.with_columns(times - pl.when(pl.col("rank").is_in(machine.model.cut)).then(BASE).otherwise(0))
    transfer = (pl.col("end") - pl.col("begin")).min().over("match")
    return (
        frame.with_columns(transfer.alias("transfer"))
        .join(recorded.with_columns(recorded=True), on=["match", "rank"], how="left")
        .with_columns(pl.col("recorded").fill_null(False))
        .sort("match", "rank")
    )


def _rows(record: Collective, clock: Clocks) -> pl.DataFrame:
    family = record.family
    kinds = [record.kind] * len(record.ranks)
    if record.sends is not None:
        kinds = ["send" if sends else "recv" for sends in record.sends.tolist()]
    return pl.DataFrame(
        {
            "match": record.match,
            "rank": record.ranks,
            "purpose": [family.purpose] * len(kinds),
            "group_name": pl.Series(family.names)[record.group],
            "group_ranks": pl.Series([",".join(map(str, ranks)) for ranks in family.ranks.tolist()])[record.group],
            "group_size": [family.size] * len(kinds),
            "kind": kinds,
            "name": [words(kind).argument for kind in kinds],
            "bytes": [record.bytes] * len(kinds),
            "seq": record.sequence,
            "peer": record.peer,
            "step": [record.step] * len(kinds),
            "arrival": record.start,
            "begin": record.begin,
            "end": record.end,
            "start_recorded": clock.read(record.ranks, record.start),
            "end_recorded": clock.read(record.ranks, record.end),
        }
    )
