"""The capture that each replay replays, and the node that each piece of work is.

A capture must fit the work (`fit`). Where several do, what else is known decides, in this order: the size that the step
of an engine needs, the order of graph ids, which is that of the captures, and the order of the replays, which is that
of the captures of one round. Where even then several are left that differ, the replay keeps its launch alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinetoscope.algorithms.alignment.cheapest_walk import cheapest_walk
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.engines import parsed
from kinetoscope.model.graphs.captures import CapturedGraph, nodes_of_work
from kinetoscope.model.graphs.fit import NodesOfWork, fit, untold_part
from kinetoscope.model.graphs.replays import Replays, replays
from kinetoscope.model.graphs.templates import templates
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note


@dataclass(frozen=True)
class JoinedReplays:
    """Replays of one capture with the same work.

    Attributes:
        graph: the capture.
        launch: int32 [replays], row of the launch of each.
        work: int32 [replays, nodes], rows of the device work of each.
        node: int32 [nodes], which nodes of the capture they are runs of.
        same: bool [nodes], whose kernel has the name, or the grid and block, of the capture.
    """

    graph: CapturedGraph
    launch: Int32s
    work: Int32s
    node: Int32s
    same: Bools

    @property
    def is_whole(self) -> bool:
        """Does the work have all kernels of the capture? Copies and sets may be recorded on one side only."""
        kernels = np.flatnonzero(self.graph.nodes.event == EventKind.KERNEL)
        return bool(np.isin(kernels, self.node).all())


@dataclass(frozen=True)
class Joins:
    """The replays that are joined, and sentences on them and on the others."""

    replays: tuple[JoinedReplays, ...] = ()
    notes: tuple[Note, ...] = ()


def joined(trace: Trace, graphs: Iterable[CapturedGraph]) -> Joins:
    """The replays of a trace that some captures, of the trace itself or of other recordings, made."""
    every, known = replays(trace), _by_time(graphs)
    if not len(every) or not known:
        return Joins()
    sequence = _sequences(every)
    fits = _fits(trace, every, sequence, known)
    allowed = np.array([[each is not None for each in of_sequence] for of_sequence in fits])
    chosen, several = _chosen(trace, every, sequence, known, allowed)
    work, result = device_work(trace), list[JoinedReplays]()
    group_of, first = group(sequence, chosen)
    for number, model in enumerate(first.tolist()):
        fitting = fits[sequence[model]][chosen[model]] if chosen[model] >= 0 else None
        if fitting is not None:
            members, is_node = np.flatnonzero(group_of == number), fitting.node >= 0
            rows = np.stack([work.rows[every.work_of(member)] for member in members.tolist()])[:, is_node]
            graph, launch = known[chosen[model]], every.launch[members]
            several[members] |= not is_node.any()
            if is_node.any():
                result.append(JoinedReplays(graph, launch, rows, fitting.node[is_node], fitting.same[is_node]))
    return Joins(tuple(result), tuple(_notes(every, result, chosen, several)))


def _by_time(graphs: Iterable[CapturedGraph]) -> list[CapturedGraph]:
    """Captures by their beginning, those of a recording together."""
    known = sorted(graphs, key=lambda graph: graph.begin)
    first = {graph.recording: graph.begin for graph in reversed(known)}
    return sorted(known, key=lambda graph: (first[graph.recording], graph.recording))


def _sequences(every: Replays) -> Int32s:
    """`Replays.template`, but that the last replay has a number of its own: without ids of nodes, it may be cut off."""
    result = every.template.copy()
    if every.node[every.offsets[-2] :].min() <= 0:
        result[-1] = result.max() + 1
    return group(result)[0]


def _fits(
    trace: Trace, every: Replays, sequence: Int32s, graphs: Sequence[CapturedGraph]
) -> list[list[NodesOfWork | None]]:
    """The nodes of each capture that the work of each sequence of replays is.

    Captures with the same nodes fit alike. A truncated replay is matched to a part of the nodes: by ids of nodes where
    these were recorded; else only the last replay may be truncated, or one that no capture fits as a whole.
    """
    work, kinds = device_work(trace), templates(trace)
    pattern = [
        hash((graph.is_stated.tobytes(), *(part.tobytes() for part in vars(graph.nodes).values()))) for graph in graphs
    ]
    patterns = dict(zip(pattern, graphs, strict=True))

    def fits_of(replay: int) -> dict[int, NodesOfWork | None]:
        places = every.work_of(replay)
        nodes, stream = nodes_of_work(trace, work.rows[places]), work.stream[places]
        return {number: fit(nodes, stream, graph) for number, graph in patterns.items()}

    result = list[list[NodesOfWork | None]]()
    for replay in np.unique(sequence, return_index=True)[1].tolist():
        pieces = slice(int(every.offsets[replay]), int(every.offsets[replay + 1]))
        is_part, has_ids = not kinds.is_whole[replay], bool(every.node[pieces].min() > 0)
        fitting = {} if is_part and has_ids else fits_of(replay)
        if is_part and (has_ids or replay == len(every) - 1 or not any(fitting.values())):
            template = kinds.of_replay[replay]
            part = kinds.node[pieces] - kinds.offsets[template]
            for number, each in fits_of(int(kinds.model[template])).items():
                fitting[number] = fitting.get(number) or (each and NodesOfWork(each.node[part], each.same[part]))
        if replay == len(every) - 1 and not (is_part and has_ids):
            nodes = nodes_of_work(trace, work.rows[every.work_of(replay)])
            fitting = {number: fitting[number] or untold_part(nodes, graph) for number, graph in patterns.items()}
        result.append([fitting[number] for number in pattern])
    return result


def _chosen(
    trace: Trace, every: Replays, sequence: Int32s, graphs: Sequence[CapturedGraph], allowed: Bools
) -> tuple[Int32s, Bools]:
    """The capture of each replay, −1 for none: int32 [replays]; and those that several captures are left for."""
    launched = every.launch >= 0
    begins = np.where(launched, trace.start[every.launch] + trace.base, 0)
    own_ends = np.sort([graph.end for graph in graphs if graph.recording < 0])
    step, sizes = _steps(trace, every.launch)
    kind, model = group(sequence, step, np.searchsorted(own_ends, begins, "right").astype(np.int64))
    is_late = np.array([[graph.recording < 0 and graph.end > begins[at] for graph in graphs] for at in model.tolist()])
    allowed = allowed[sequence[model]] & ~is_late
    size = np.array([graph.size for graph in graphs], np.int64)
    for place, at in enumerate(model.tolist()):
        allowed[place] = _of_size(allowed[place], size, sizes[step[at]])
    chosen, several = np.full(len(every), -1, np.int32), np.zeros(len(every), np.bool_)
    candidates = np.flatnonzero(launched & allowed[kind].any(axis=1))
    ids, of_id = np.unique(every.graph[candidates], return_inverse=True)
    numbered = ids[of_id] >= 0
    if numbered.any():
        of_graph = np.array([_of_all(allowed, kind[candidates[of_id == number]]) for number in range(len(ids))])
        of_graph = _in_order(of_graph[ids >= 0])
        fitting, is_sole = _walked(np.arange(len(of_graph), dtype=np.int32), of_graph, graphs)
        own = of_id[numbered] - int((ids < 0).sum())
        chosen[candidates[numbered]], several[candidates[numbered]] = fitting[own], ~is_sole[own]
    candidates = candidates[~numbered]
    track = trace.track[every.launch[candidates]]
    for thread in np.unique(track).tolist():
        here = candidates[track == thread]
        here = here[np.argsort(begins[here], kind="stable")]
        chosen[here], stated = _walked(kind[here], allowed, graphs)
        several[here] = ~stated
    return chosen, several


def _of_all(allowed: Bools, kinds: Int32s) -> Bools:
    """The captures that all replays of a graph may be of."""
    common: Bools = np.logical_and.reduce(allowed[np.unique(kinds)], axis=0)
    return common


def _in_order(of_graph: Bools) -> Bools:
    """The captures of graphs, by id, that are left where ids grow from capture to capture; all where they cannot."""
    known, captures = np.flatnonzero(of_graph.any(axis=1)), of_graph.shape[1]
    earliest, latest = np.zeros(len(of_graph), np.int64), np.full(len(of_graph), captures)
    at = -1
    for place in known.tolist():
        later = np.flatnonzero(of_graph[place][at + 1 :])
        if not len(later):
            return of_graph
        earliest[place] = at = at + 1 + int(later[0])
    at = captures
    for place in reversed(known.tolist()):
        latest[place] = at = int(np.flatnonzero(of_graph[place][:at])[-1])
    capture = np.arange(captures)
    left: Bools = of_graph & (capture >= earliest[:, None]) & (capture <= latest[:, None])
    return left


def _walked(kind: Int32s, allowed: Bools, graphs: Sequence[CapturedGraph]) -> tuple[Int32s, Bools]:
    """The capture of each of some replays, or graphs, in order, −1 for none; and where no other one is left.

    Their order tells captures apart where they go through the captures of one annotation, from the first to the last,
    at least once. Captures with the same operators and shapes need no telling apart.
    """
    content = np.array([graph.content for graph in graphs], np.int64)
    rounds = np.array([graph.round for graph in graphs], np.int64)
    is_sole = np.ones(len(kind), np.bool_)
    chosen = np.full(len(kind), -1, np.int32)
    some = np.flatnonzero(allowed[kind].any(axis=1))
    if not len(some):
        return chosen, is_sole
    walk = cheapest_walk(kind[some], allowed, rounds, content)
    first = np.append(True, rounds[1:] != rounds[:-1])
    last, state = np.append(first[1:], True), walk.state
    begins = np.append(True, ~((state[1:] == state[:-1] + 1) & ~first[state[1:]]))
    bounds = np.flatnonzero(np.append(begins, True))
    whole = first[state[bounds[:-1]]] & last[state[bounds[1:] - 1]]
    gone_through = np.isin(rounds[state[bounds[:-1]]], rounds[state[bounds[:-1]]][whole])
    at_end = np.zeros(len(whole), np.bool_)
    at_end[[0, -1]] = True
    tells = np.repeat((whole | at_end) & gone_through, np.diff(bounds))
    is_same = np.array([len(np.unique(content[allowed[each]])) == 1 for each in kind[some].tolist()])
    labelled = np.array([bool(graph.label) for graph in graphs])[state]
    is_sole[some] = is_same | (walk.is_sole & labelled & tells)
    chosen[some] = np.where(is_sole[some], state, -1)
    return chosen, is_sole


def _steps(trace: Trace, launch: Int32s) -> tuple[Int64s, list[tuple[int, ...]]]:
    """The sizes that the steps of an engine around some launches need: the place of each launch in a list of them.

    An engine names the tokens or the requests of a step, and replays the graph of the next size that it captured.
    """
    parent, is_annotation = call_tree(trace).parent, trace.kind == EventKind.ANNOTATION
    sizes: dict[tuple[int, ...], int] = {(): 0}
    by_name: dict[int, tuple[int, ...]] = {}
    places = np.zeros(len(launch), np.int64)
    for place, row in enumerate(launch.tolist()):
        fitting: tuple[int, ...] = ()
        while row >= 0 and not fitting:
            if is_annotation[row]:
                name = int(trace.name[row])
                if name not in by_name:
                    by_name[name] = _needed(trace.strings.label(name))
                fitting = by_name[name]
            row = int(parent[row])
        places[place] = sizes.setdefault(fitting, len(sizes))
    return places, list(sizes)


def _needed(name: str) -> tuple[int, ...]:
    step = parsed(name)
    return () if step is None else tuple(n for n in (step.padded_batch, step.tokens, step.batch) if n)


def _of_size(allowed: Bools, size: Int64s, needed: tuple[int, ...]) -> Bools:
    """The captures that fit and have the smallest size that is large enough; all that fit if no size is known."""
    for number in needed:
        enough = allowed & (size >= number)
        if enough.any():
            smallest: Bools = enough & (size == size[enough].min())
            return smallest
    return allowed


def _notes(every: Replays, fitting: Sequence[JoinedReplays], chosen: Int32s, several: Bools) -> Iterable[Note]:
    pieces = sum(each.work.size for each in fitting)
    if pieces:
        checked = sum(int(each.same.sum()) * len(each.launch) for each in fitting)
        parts = [(checked, "by the kernel's name, or its grid and block"), (pieces - checked, "by order and kind")]
        yield Note(
            "REPLAYS_JOINED",
            f"{pieces} of {len(every.work)} kernels, copies and sets in replays of CUDA graphs have the operators of "
            f"their capture: {', '.join(f'{count} {how}' for count, how in parts if count)}.",
        )
    if count := int(several.sum()):
        yield Note(
            "REPLAYS_AMBIGUOUS",
            f"{number_of(count, 'replay')} of CUDA graphs may be of several captures that differ: no operators are "
            "assigned. --capture with the trace of the one that was replayed decides.",
        )
    if count := int(((chosen < 0) & ~several & (every.launch >= 0)).sum()):
        match = "matches" if count == 1 else "match"
        yield Note(
            "REPLAYS_UNMATCHED",
            f"{number_of(count, 'replay')} of CUDA graphs {match} no capture trace: no operators are assigned.",
        )
    if count := int((every.launch < 0).sum()):
        yield Note(
            "REPLAYS_BEFORE",
            f"{number_of(count, 'replay')} of CUDA graphs began before the recording: no operators are assigned.",
        )


def relabelled(graphs: Iterable[CapturedGraph], recording: int) -> list[CapturedGraph]:
    """The same captures as those of another recording by number; rounds of two recordings are not one."""
    return [replace(graph, recording=recording, round=hash((recording, graph.round))) for graph in graphs]
