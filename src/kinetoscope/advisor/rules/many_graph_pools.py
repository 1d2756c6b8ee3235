"""MEMORY013: several CUDA graphs keep pools of their own, most of which are unused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, quoted, share
from kinetoscope.views.sentences import measured, say

_MIN_POOLS: Final = 2
_RESERVED_SHARE: Final = 0.05
"""Share of what is reserved that other pools than the largest leave unused, from which on it is reported."""


def many_graph_pools(rank: RankView) -> Iterator[Finding]:
    """Do several graphs keep pools of their own that could be one?

    What it checks. The pools of CUDA graphs when the memory snapshot was taken. What a pool holds without use are the
    intermediate results of a replay. Graphs that never run at the same time could share them: only the largest pool's
    would be needed. The rule reports it where the others' are 5 % or more of what the allocator has reserved.

    Why it matters. That memory is kept as long as the graphs are, and nothing else can have it. A snapshot does not
    measure time, so it is a note.

    What to do. Capture all graphs with one pool, the largest first, and replay them one after the other.
    """
    frame = rank.ask("memory_fragmentation").frame.filter(source="snapshot")
    for (device,), rows in frame.group_by("device", maintain_order=True):
        pools = (
            rows.filter((pl.col("pool") != "default") & (pl.col("private") > 0)).group_by("pool").agg(pl.sum("private"))
        )
        unused = sorted(pools.get_column("private").to_list())
        spare, reserved = sum(unused[:-1]), int(rows.get_column("reserved").sum())
        if len(pools) < _MIN_POOLS or spare < _RESERVED_SHARE * reserved:
            continue
        yield Finding(
            message=say(
                "Graphs keep pools of their own. {pools} of {device} hold {unused} without use; if they shared one,"
                " {spare} ({part} of what the allocator has reserved) would be free.",
                pools=counted(len(pools), "private pool"),
                device=quoted(str(device)),
                unused=measured(sum(unused), "bytes"),
                spare=measured(spare, "bytes"),
                part=share(spare, reserved),
            ),
            change="+ pool = torch.cuda.graph_pool_handle()  # once\n"
            "- with torch.cuda.graph(graph):\n+ with torch.cuda.graph(graph, pool=pool):",
            why="A snapshot does not measure time. Graphs that share a pool must not run at the same time, and results"
            " of one are overwritten by the next.",
            confidence="medium",
            evidence=(Evidence("what each pool holds", "memory_fragmentation"),),
            key=str(device),
        )


RULE = Rule("MEMORY013", "Graphs keep pools of their own", many_graph_pools, unfit=frozenset())
