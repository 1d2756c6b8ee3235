"""Sentences on what a file records: the first ones of each face where that is no program at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import polars as pl

from kinetoscope.model.health.recording_kinds import RecordingKind
from kinetoscope.schema import Result
from kinetoscope.views.sentences import Quantity, Sentence, cell, join, say

_Words = Callable[[Quantity, Quantity, Quantity, Quantity, Quantity], Sentence]
"""The sentence of a kind, of its count, its graphs, its time, the window, and what takes the time."""


def kinds_of_job(kinds: Result, ranks: int) -> frozenset[RecordingKind]:
    """The kinds that the recordings of all ranks are, by the answer of `recording_kinds`."""
    each = kinds.frame.group_by("kind").agg(pl.col("rank").n_unique().alias("ranks"))
    return frozenset(each.filter(pl.col("ranks") == ranks).get_column("kind").to_list())


def what_is_recorded(kinds: Result) -> Sentence:
    """Sentences on what the file records, with the numbers of the first rank of each kind; "" for a program at work."""
    first = kinds.frame.unique(["kind"], keep="first", maintain_order=True)
    several = kinds.frame.get_column("rank").n_unique() > 1
    said = []
    for row in first.iter_rows(named=True):
        where = {name: row[name] for name in ("rank", "kind", "cycle") if name in row}
        parts = [cell(kinds, name, **where) for name in ("count", "graphs", "time", "window", "what")]
        sentence = _WORDS[row["kind"]](*parts)
        said.append(
            say("On rank {rank}: {what}", rank=cell(kinds, "rank", **where), what=sentence) if several else sentence
        )
    return join(said)


def _cut_off(count: Quantity, *_: Quantity) -> Sentence:
    return say("This file ends early: {count} events are left of it, and no device work is among them.", count=count)


def _autograd_profiler(count: Quantity, *_: Quantity) -> Sentence:
    return say(
        "This file is of torch's profiler before Kineto (torch 1.7 and older): {count} operators of the host, and no"
        " times of devices that can be read.",
        count=count,
    )


def _graph_capture(count: Quantity, graphs: Quantity, time: Quantity, window: Quantity, _: Quantity) -> Sentence:
    nodes = "node" if count.value == 1 else "nodes"
    of = say("of a graph of {count} {nodes}", count=count, nodes=nodes)
    if graphs.value != 1:
        of = say("of {graphs} graphs of {count} {nodes} in all", graphs=graphs, count=count, nodes=nodes)
    return say(
        "This file records the capture {of}: it takes {time} of {window}, and what is captured does not run.",
        of=of,
        time=time,
        window=window,
    )


def _collectives_only(count: Quantity, *_: Quantity) -> Sentence:
    return say(
        "This file records {count} collectives, and nothing else of the program: `kinetoscope show collectives` says"
        " how long they took.",
        count=count,
    )


def _sums_only(count: Quantity, *_: Quantity) -> Sentence:
    frames = "frame" if count.value == 1 else "frames"
    return say(
        "This file records sums in a tree of {count} {frames}, and no times: `kinetoscope show kernels`, `operators`,"
        " `flame` and `roofline` say what took how long; steps, idle time and overlap cannot be told.",
        count=count,
        frames=frames,
    )


def _warm_up(count: Quantity, graphs: Quantity, time: Quantity, window: Quantity, what: Quantity) -> Sentence:
    del count, graphs
    return say(
        "This file records a warm-up: {time} of {window} goes to {what}, once.", time=time, window=window, what=what
    )


def _lost_device_work(count: Quantity, *_: Quantity) -> Sentence:
    if count.value == 1:
        return say("{count} launch was recorded without its kernel: the recorder lost the device's work.", count=count)
    return say("{count} launches were recorded, and no kernel: the recorder lost the device's work.", count=count)


def _no_operators(count: Quantity, *_: Quantity) -> Sentence:
    return say(
        "No operators were recorded, only {count} calls of the runtime and the device's work; torch's profiler records"
        " them with ProfilerActivity.CPU.",
        count=count,
    )


_WORDS: Final[dict[RecordingKind, _Words]] = {
    "cut off": _cut_off,
    "autograd profiler": _autograd_profiler,
    "sums only": _sums_only,
    "graph capture": _graph_capture,
    "collectives only": _collectives_only,
    "warm-up": _warm_up,
    "lost device work": _lost_device_work,
    "no operators": _no_operators,
}

NO_RULE_FITS: Final = say("Rules about steps of a program do not fit such a recording.")
"""Where no rule that fits has a finding."""
