"""Which capture each replay replays, and which node of it each piece of work is.

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
from kinetoscope.model.graphs.fit import NodesOfWork, fit
from kinetoscope.model.graphs.replays import Replays, replays
from kinetoscope.model.graphs.templates import Templates, templates
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class JoinedReplays:
    """Replays of one capture with the same work.

    Attributes:
        graph: the capture.
        launch: int32 [replays], row of the launch of each.
        work: int32 [replays, nodes], rows of the device work of each.
        node: int32 [nodes], which nodes of the capture they are runs of.
        validated: nodes whose kernel has the name, or the grid and block, of the capture.
    """

    graph: CapturedGraph
    launch: Int32s
    work: Int32s
    node: Int32s
    validated: int


@dataclass(frozen=True)
class Joins:
    """The replays that are joined, and sentences on them and on the others."""

    replays: tuple[JoinedReplays, ...] = ()
    notes: tuple[str, ...] = ()


def joined(trace: Trace, graphs: Iterable[CapturedGraph]) -> Joins:
    """The replays of a trace that some captures, of the trace itself or of other recordings, made."""
    every, kinds, known = replays(trace), templates(trace), sorted(graphs, key=lambda graph: graph.begin)
    if not len(every) or not known:
        return Joins()
    fits = _fits(trace, every, kinds, known)
    allowed = np.array([[each is not None for each in of_template] for of_template in fits])
    chosen, several = _chosen(trace, every, kinds, known, allowed)
    work, result = device_work(trace), list[JoinedReplays]()
    alike, first = group(every.template, kinds.of_replay, chosen)
    for number, model in enumerate(first.tolist()):
        template, capture = int(kinds.of_replay[model]), int(chosen[model])
        found = fits[template][capture] if capture >= 0 else None
        if found is not None:
            members = np.flatnonzero(alike == number)
            pieces = slice(int(every.offsets[model]), int(every.offsets[model + 1]))
            node = found.node[kinds.node[pieces] - kinds.offsets[template]]
            rows = np.stack([work.rows[every.work_of(member)] for member in members.tolist()])[:, node >= 0]
            validated = min(found.validated, int((node >= 0).sum()))
            result.append(
                JoinedReplays(known[capture], every.launch[members], rows, node[node >= 0].astype(np.int32), validated)
            )
    return Joins(tuple(result), tuple(_notes(every, result, chosen, several)))


def _fits(
    trace: Trace, every: Replays, kinds: Templates, graphs: Sequence[CapturedGraph]
) -> list[list[NodesOfWork | None]]:
    """How each capture fits each template; captures with the same nodes fit alike."""
    work = device_work(trace)
    pattern = [
        hash((graph.is_stated.tobytes(), *(part.tobytes() for part in vars(graph.nodes).values()))) for graph in graphs
    ]
    first = dict(zip(pattern, graphs, strict=True))
    result = list[list[NodesOfWork | None]]()
    for model in kinds.model.tolist():
        places = every.work_of(model)
        nodes, stream = nodes_of_work(trace, work.rows[places]), work.stream[places]
        found = {number: fit(nodes, stream, graph) for number, graph in first.items()}
        if model == len(every) - 1 and not any(found.values()):  # the last one may have been cut off
            found = {number: fit(nodes, stream, graph, cut=True) for number, graph in first.items()}
        result.append([found[number] for number in pattern])
    return result


def _chosen(
    trace: Trace, every: Replays, kinds: Templates, graphs: Sequence[CapturedGraph], allowed: Bools
) -> tuple[Int32s, Bools]:
    """The capture of each replay, −1 for none: int32 [replays]; and those that several captures are left for."""
    launched = every.launch >= 0
    begins = np.where(launched, trace.start[every.launch] + trace.base, 0)
    own_ends = np.sort([graph.end for graph in graphs if graph.recording < 0])
    step, sizes = _steps(trace, every.launch)
    kind, model = group(kinds.of_replay, step, np.searchsorted(own_ends, begins, "right").astype(np.int64))
    is_late = np.array([[graph.recording < 0 and graph.end > begins[at] for graph in graphs] for at in model.tolist()])
    allowed = allowed[kinds.of_replay[model]] & ~is_late
    size = np.array([graph.size for graph in graphs], np.int64)
    for place, at in enumerate(model.tolist()):
        allowed[place] = _of_size(allowed[place], size, sizes[step[at]])
    allowed = _in_order_of_ids(allowed, kind, every.graph)
    chosen, several = np.full(len(every), -1, np.int32), np.zeros(len(every), np.bool_)
    rounds = np.array([graph.round for graph in graphs], np.int64)
    content = np.array([graph.content for graph in graphs], np.int64)
    candidates = np.flatnonzero(launched & allowed[kind].any(axis=1))
    track = trace.track[every.launch[candidates]]
    for thread in np.unique(track).tolist():
        here = candidates[track == thread]
        here = here[np.argsort(begins[here], kind="stable")]
        walk = cheapest_walk(kind[here], allowed, rounds, content)
        chosen[here] = np.where(walk.is_sole, walk.state, -1)
        several[here] = ~walk.is_sole
    return _one_a_graph(chosen, several, every.graph, content)


def _steps(trace: Trace, launch: Int32s) -> tuple[Int64s, list[tuple[int, ...]]]:
    """The sizes that the steps of an engine around some launches need: the place of each launch in a list of them.

    An engine names the tokens or the requests of a step, and replays the graph of the next size that it captured.
    """
    parent, is_annotation = call_tree(trace).parent, trace.kind == EventKind.ANNOTATION
    sizes: dict[tuple[int, ...], int] = {(): 0}
    by_name: dict[int, tuple[int, ...]] = {}
    places = np.zeros(len(launch), np.int64)
    for place, row in enumerate(launch.tolist()):
        found: tuple[int, ...] = ()
        while row >= 0 and not found:
            if is_annotation[row]:
                name = int(trace.name[row])
                if name not in by_name:
                    by_name[name] = _needed(trace.strings.label(name))
                found = by_name[name]
            row = int(parent[row])
        places[place] = sizes.setdefault(found, len(sizes))
    return places, list(sizes)


def _needed(name: str) -> tuple[int, ...]:
    step = parsed(name)
    return () if step is None else tuple(n for n in (step.padded_batch, step.tokens, step.batch) if n)


def _of_size(allowed: Bools, size: Int64s, needed: tuple[int, ...]) -> Bools:
    """Of the captures that fit, those of the smallest size that is large enough; all if no size is known."""
    for number in needed:
        enough = allowed & (size >= number)
        if enough.any():
            smallest: Bools = enough & (size == size[enough].min())
            return smallest
    return allowed


def _in_order_of_ids(allowed: Bools, kind: Int32s, graph: Int64s) -> Bools:
    """The captures that are left where graph ids grow from capture to capture; all if they do not."""
    ids = np.unique(graph[graph >= 0])
    of_graph = [allowed[np.unique(kind[graph == number])] for number in ids.tolist()]
    of_graph = [each[each.any(axis=1)] for each in of_graph]
    of_graph = [each.all(axis=0) if len(each) else np.zeros(allowed.shape[1], np.bool_) for each in of_graph]
    known = [place for place, each in enumerate(of_graph) if each.any()]
    if len(known) < 2:
        return allowed
    earliest, at = list[int](), -1
    for place in known:
        later = np.flatnonzero(of_graph[place][at + 1 :])
        if not len(later):
            return allowed
        at += 1 + int(later[0])
        earliest.append(at)
    latest, at = list[int](), allowed.shape[1]
    for place in reversed(known):
        at = int(np.flatnonzero(of_graph[place][:at])[-1])
        latest.append(at)
    capture = np.arange(allowed.shape[1])
    result = allowed.copy()
    for place, low, high in zip(known, earliest, reversed(latest), strict=True):
        of_kinds = np.unique(kind[graph == ids[place]])
        result[of_kinds] &= (capture >= low) & (capture <= high)
    return result


def _one_a_graph(chosen: Int32s, several: Bools, graph: Int64s, content: Int64s) -> tuple[Int32s, Bools]:
    """Replays of one graph replay one capture: what is known of some holds for all; where they disagree, for none."""
    for number in np.unique(graph[graph >= 0]).tolist():
        members = np.flatnonzero(graph == number)
        found = chosen[members][chosen[members] >= 0]
        if not len(found):
            continue
        agrees = len(np.unique(content[found])) == 1
        chosen[members[several[members] | (chosen[members] >= 0)]] = np.bincount(found).argmax() if agrees else -1
        several[members] = not agrees
    return chosen, several


def _notes(every: Replays, found: Sequence[JoinedReplays], chosen: Int32s, several: Bools) -> Iterable[str]:
    pieces = sum(each.work.size for each in found)
    if pieces:
        checked = sum(each.validated * len(each.launch) for each in found)
        how = "all" if checked == pieces else str(checked) if checked else "none"
        yield (
            f"{pieces} of {len(every.work)} kernels, copies and sets in replays of CUDA graphs have the operators of "
            f"their capture; {how} of them have the kernel, or the grid and block, that it recorded."
        )
    if count := int(several.sum()):
        yield (
            f"{number_of(count, 'replay')} of CUDA graphs may be of several captures that differ: no operators are "
            "assigned. --capture with the trace of the one that was replayed decides."
        )
    if count := int(((chosen < 0) & ~several & (every.launch >= 0)).sum()):
        yield f"{number_of(count, 'replay')} of CUDA graphs match no capture trace: no operators are assigned."
    if count := int((every.launch < 0).sum()):
        yield f"{number_of(count, 'replay')} of CUDA graphs began before the recording: no operators are assigned."


def relabelled(graphs: Iterable[CapturedGraph], recording: int) -> list[CapturedGraph]:
    """The same captures as those of another recording by number."""
    return [replace(graph, recording=recording) for graph in graphs]
