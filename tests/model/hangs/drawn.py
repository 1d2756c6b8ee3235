"""Jobs of some ranks drawn by hand, as the tables of `records`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS
from kinetoscope.model.hangs.verdict import HangVerdict, verdicts

S = 1_000_000_000
STATES = {"": "completed", "?": "scheduled", "!": "started"}
CALL = re.compile(r"(?P<group>\w+):(?P<name>\w+?)(?:@(?P<peer>\d+))?(?:\[(?P<size>\d+)\])?(?P<state>[?!]?)")


def rank_calls(rank: int, text: str, *, begin: int = 0, step: int = S // 10, **values: Any) -> list[dict[str, Any]]:
    """Calls of a rank, such as "dp:all_reduce[16] tp:barrier?": `?` is scheduled, `!` started, `@1` the peer of a send.

    Each is called `step` after the one before, and lasts a hundredth of a second.
    """
    numbers: dict[tuple[str, bool], int] = {}
    rows = []
    for order, word in enumerate(text.split()):
        parts = CALL.fullmatch(word)
        assert parts is not None, word
        is_p2p = parts["name"] in ("send", "recv")
        numbers[parts["group"], is_p2p] = seq = numbers.get((parts["group"], is_p2p), 0) + 1
        size = int(parts["size"] or 16)
        created = begin + order * step
        gives, gets = parts["name"] not in ("recv", "barrier"), parts["name"] not in ("send", "barrier")
        row = {
            "rank": rank,
            "group": f"nccl:{parts['group']}",
            "seq": seq,
            "order": order,
            "is_p2p": is_p2p,
            "peer": None if parts["peer"] is None else int(parts["peer"]),
            "name": parts["name"],
            "input_sizes": f"[{size}]" if gives else None,
            "output_sizes": f"[{size}]" if gets else None,
            "input_elements": size if gives else 0,
            "output_elements": size if gets else 0,
            "types": "Float",
            "state": STATES[parts["state"]],
            "created": created,
            "started": created + S // 200 if parts["state"] != "?" else None,
            "completed": created + S // 100 if not parts["state"] else None,
            "timeout": 600 * S,
            "line": f"train.py:{parts['name']}",
        }
        rows.append(row | values)
    return rows


def job(
    texts: Mapping[int, str | list[dict[str, Any]]],
    members: Mapping[str, Sequence[int] | None],
    *,
    written: int | None = 1000 * S,
    hosts: Mapping[int, Mapping[str, Any]] | None = None,
    world: int | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """A job: calls by rank, as texts of `rank_calls`; and who belongs to each group."""
    of_ranks = {rank: text if isinstance(text, list) else rank_calls(rank, text) for rank, text in texts.items()}
    rows = [row for each in of_ranks.values() for row in each]
    groups = [
        {"rank": rank, "group": f"nccl:{name}", "backend": "nccl", "ranks": ranks and [*ranks]}
        for name, ranks in members.items()
        for rank in of_ranks
        if (ranks is None or rank in ranks)
    ]
    of_hosts = [
        {"rank": rank, "world": world, "written": written, "last_time": 0} | dict((hosts or {}).get(rank, {}))
        for rank in sorted({*of_ranks, *(hosts or {})})
    ]
    frames = ((CALLS, rows), (GROUPS, groups), (HOSTS, of_hosts))
    calls, of_groups, host_rows = (
        pl.DataFrame(each, schema=schema.types) if each else schema.empty() for schema, each in frames
    )
    return calls, of_groups, host_rows


def first(*frames: pl.DataFrame) -> HangVerdict:
    """The first verdict on a job."""
    return verdicts(*frames)[0]
