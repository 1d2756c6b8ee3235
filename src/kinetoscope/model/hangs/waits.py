"""Who waits for whom: the ends of the chains of waiting ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kinetoscope.model.hangs.standing import MEETING, Node, Standing

Vertex = int | Node
"""A rank, or a collective that ranks are at."""


@dataclass(frozen=True)
class End:
    """The end of a chain of waiting ranks, or a cycle that it runs into.

    Attributes:
        ranks: one that waits for nothing, those of a cycle, or nobody.
        nodes: the collective that all have come to, or those of a cycle.
        waiting: ranks that wait for these, directly or not.
        last: collectives that wait for the ranks of the end, and rows of sends and receives that do.
    """

    ranks: tuple[int, ...]
    nodes: tuple[Node, ...]
    waiting: tuple[int, ...]
    last: tuple[Node | dict[str, Any], ...] = ()


def missing(standing: Standing, node: Node) -> list[int]:
    """Members that have not come to a collective.

    One that ended on a rank has had all of them. But gloo's records end a call that has failed as one that is done: of
    a rank that has ended without records nothing says there that it had come.
    """
    number, seq = node
    group, called = standing.groups[number], standing.has_called
    every = [row for rows in standing.came[node].values() for row in rows]
    if any(row["state"] == "completed" and row["name"] in MEETING for row in every):
        gone = {*filter(standing.has_ended, group.ranks)} - standing.recorded
        return sorted(gone) if group.is_of_gloo else []
    return [
        rank
        for rank in group.ranks
        if not standing.is_there(rank, node) and (rank in standing.came[node] or called.get((number, rank), 0) < seq)
    ]


def ends(standing: Standing, broken: Collection[Node]) -> list[End]:
    """The ends of the chains of waiting ranks.

    Args:
        standing: where the ranks are.
        broken: collectives that cannot end, whoever comes: ranks that are in them wait for nothing else.
    """
    edges = edges_of(standing, broken)
    back = _reversed(edges)
    # A cycle never ends, whatever else its ranks wait for.
    parts = [part for part in components(edges) if len(part) > 1 or not edges[part[0]]]
    made = [_end(standing, part, back) for part in parts]
    held = standing.at.keys() - standing.stale
    made = [each for each in made if each.waiting or each.nodes or held.intersection(each.ranks)]
    return [*made, *_idle(standing, made)]


def _reversed(edges: Mapping[Vertex, list[Vertex]]) -> dict[Vertex, list[Vertex]]:
    back: dict[Vertex, list[Vertex]] = defaultdict(list)
    for vertex, others in edges.items():
        for other in others:
            back[other].append(vertex)
    return back


def _end(standing: Standing, part: list[Vertex], back: Mapping[Vertex, list[Vertex]]) -> End:
    ranks, nodes = _ranks(part), tuple(vertex for vertex in part if not isinstance(vertex, int))
    return End(ranks, nodes, _ranks(_reach(part, back) - {*part}), tuple(_last(standing, ranks, back)))


def _ranks(vertices: Iterable[Vertex]) -> tuple[int, ...]:
    return tuple(sorted(vertex for vertex in vertices if isinstance(vertex, int)))


def _idle(standing: Standing, made: list[End]) -> list[End]:
    """Ranks for which nobody waits, and which wait for nothing, where others wait for ranks without records.

    Those may wait for these, unless they have ended.
    """
    known = {*(standing.recorded - standing.stale), *filter(standing.has_ended, standing.ranks)}
    unknown = [end for end in made if not {*end.ranks} <= known]
    waiting = tuple(sorted({rank for end in unknown for rank in (*end.ranks, *end.waiting)}))
    named = {rank for end in made for rank in end.ranks}
    idle = [rank for rank in standing.recorded - standing.stale - standing.at.keys() - named if waiting]
    return [End((rank,), (), waiting) for rank in sorted(idle)]


def edges_of(standing: Standing, broken: Collection[Node]) -> dict[Vertex, list[Vertex]]:
    """The things that ranks wait for, collectives or other ends of sends and receives; and whom these wait for."""
    edges: dict[Vertex, list[Vertex]] = {rank: [] for rank in standing.ranks}
    for rank, rows in standing.at.items():
        if rank in standing.stale:
            continue
        node = standing.node(rank)
        if node is None:
            peers = (row["to"] for row in rows if row["to"] in standing.stale or waits_for_peer(standing, row))
            edges[rank] = [peer for peer in peers if peer is not None]
            continue
        edges[rank] = [node]
        if node not in edges:
            late = [] if node in broken else missing(standing, node)
            # Of a rank without records nobody knows whether it has come: where another is missing, that one is why.
            known = [each for each in late if each in standing.recorded and each not in standing.stale]
            edges[node] = [*(known or late)]
    return edges


def waits_for_peer(standing: Standing, row: Mapping[str, Any]) -> bool:
    """The other end of a send or receive is not called, or its rank is held up before it."""
    others = standing.peer_rows(dict(row))
    if not others:
        return True
    here = {each["order"] for each in standing.at.get(row["to"], [])}
    return others[0]["order"] not in here and others[0]["state"] == "scheduled"


def _last(
    standing: Standing, ranks: tuple[int, ...], back: Mapping[Vertex, list[Vertex]]
) -> Iterable[Node | dict[str, Any]]:
    for vertex in dict.fromkeys(before for rank in ranks for before in back.get(rank, [])):
        if isinstance(vertex, int):
            yield from (row for row in standing.at[vertex] if row["to"] in ranks)
        else:
            yield vertex


def _reach(starts: Iterable[Vertex], edges: Mapping[Vertex, list[Vertex]]) -> set[Vertex]:
    reached, open_ = {*starts}, [*starts]
    while open_:
        for other in edges.get(open_.pop(), ()):
            if other not in reached:
                reached.add(other)
                open_.append(other)
    return reached


def components(edges: Mapping[Vertex, list[Vertex]]) -> list[list[Vertex]]:
    """Strongly connected components (Tarjan 1972), without recursion: a chain may be as long as there are ranks."""
    index: dict[Vertex, int] = {}
    low: dict[Vertex, int] = {}
    stack: list[Vertex] = []
    on_stack: set[Vertex] = set()
    made: list[list[Vertex]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            vertex, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in on_stack:
                    low[vertex] = min(low[vertex], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[vertex])
                if low[vertex] == index[vertex]:
                    part = [*_popped(stack, vertex)]
                    on_stack.difference_update(part)
                    made.append(part)
    return made


def _popped(stack: list[Vertex], until: Vertex) -> Iterable[Vertex]:
    while True:
        vertex = stack.pop()
        yield vertex
        if vertex == until:
            return
