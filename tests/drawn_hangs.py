"""Jobs that hang, drawn as the records that their ranks would leave: small frames, without files.

`Drawn` is a job of them: its engine gives each rank's records to whoever asks about a hang.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kinetoscope.engines.fold_tree import Tree
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Answer, Partial
from kinetoscope.model.hangs.of_job import both, packed
from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS, Records
from kinetoscope.model.job import Job
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace

SECOND: Final = 1_000_000_000
NOW: Final = 1_764_000_000 * SECOND
"""When the records were written, ns since 1970."""

Row = dict[str, Any]


def call(rank: int, group: str, seq: int, state: str = "completed", **more: Any) -> Row:
    """A call of a rank, of 16 numbers; `ago`: how many seconds before the records were written."""
    ago = more.pop("ago", 600 if state != "completed" else 601)
    usual = {
        "order": seq,
        "is_p2p": False,
        "name": "all_reduce",
        "input_sizes": "[16]",
        "output_sizes": "[16]",
        "types": "Float",
        "created": NOW - ago * SECOND,
        "timeout": 600 * SECOND,
        "line": "train.py:88",
    }
    return dict.fromkeys(CALLS.names) | usual | {"rank": rank, "group": group, "seq": seq, "state": state} | more


def group(rank: int, key: str, ranks: Iterable[int] | None, called: int | None, done: int | None, **more: Any) -> Row:
    """A process group as a rank has it."""
    members = None if ranks is None else list(ranks)
    own = {"rank": rank, "group": key, "ranks": members, "called": called, "done": done, "first_seq": 1}
    return dict.fromkeys(GROUPS.names) | {"backend": key.partition(":")[0]} | own | more


def host(rank: int, world: int, **more: Any) -> Row:
    """What is known of a host."""
    usual = {"last_time": NOW, "written": NOW, "source": "flight recorder"}
    return dict.fromkeys(HOSTS.names) | usual | {"rank": rank, "world": world} | more


def records(calls: Sequence[Row], groups: Sequence[Row], hosts: Sequence[Row]) -> Records:
    """The tables."""
    return CALLS.frame(calls), GROUPS.frame(groups), HOSTS.frame(hosts)


@dataclass
class DrawnEngine:
    """Answers questions about a hang from records; it is asked none that needs more of a trace."""

    records: Records

    def ask(self, sources: Sequence[Source], questions: Sequence[Question]) -> tuple[Answer, ...]:
        """The records of each rank, folded as by any engine."""
        tree = Tree[Partial](len(sources), lambda one, other: one.folded(other, both))
        of_ranks = [frame.partition_by("rank", as_dict=True) for frame in self.records]
        for place, source in enumerate(sources):
            own = [of.get((source.rank,), frame.clear()) for of, frame in zip(of_ranks, self.records, strict=True)]
            tree.put(place, Partial(packed(*own)))
        return tuple(Answer({}, tree.root) for _ in questions)

    def trace(self, source: Source) -> Trace:
        """There is none."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


def drawn_job(of: Records) -> Job:
    """The job whose ranks have left these records."""
    ranks = of[2].get_column("rank").to_list()
    return Job("drawn", tuple(Source(f"rank{rank}", rank) for rank in ranks), DrawnEngine(of))


def stalled(ranks: int, missing: int = 3, *, degree: int = 4, stuck: int = 1204, **of_host: Any) -> Records:
    """A job of tensor and data parallel groups; a rank does not come to a collective of its tensor group.

    The others of that group wait for it, and those that meet them in data parallel groups wait for them.
    """
    calls: list[Row] = []
    groups: list[Row] = []
    for rank in range(ranks):
        first = rank // degree * degree
        tensor = f"nccl:{1 + first // degree} (mesh_tp)"
        data = f"nccl:{1000 + rank % degree} (mesh_dp)"
        is_in_team = missing // degree == rank // degree
        called = stuck - (rank == missing)
        done = stuck - 1 if is_in_team else stuck
        groups.append(group(rank, tensor, range(first, first + degree), called, done, desc="mesh_tp"))
        groups.append(group(rank, data, range(rank % degree, ranks, degree), 300 - is_in_team, 299, desc="mesh_dp"))
        calls += [call(rank, tensor, seq, order=2 * seq) for seq in range(stuck - 6, done + 1)]
        if is_in_team and rank != missing:
            calls.append(call(rank, tensor, stuck, "started", order=2 * stuck))
        calls += [call(rank, data, seq, order=2 * stuck + seq - 300) for seq in range(296, 300)]
        if not is_in_team:
            calls.append(call(rank, data, 300, "scheduled", order=2 * stuck + 1, line="train.py:93"))
    hosts = [host(rank, ranks, **(of_host if rank == missing else {})) for rank in range(ranks)]
    return records(calls, groups, hosts)
