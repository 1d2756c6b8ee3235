"""What has to be so of every recording, whatever the program. Each function gives sentences on what is not."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import polars as pl

import kinetoscope
from kinetoscope.advisor.advice import Advice
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages import sources
from kinetoscope.pages.blocks import to_plain
from tests.advisor.laws import keep_the_laws
from tests.zoo.recording import Recording

OURS: Final = re.compile(r"(?:^|/)kinetoscope/(?:record|errors|__init__)|zoo/runner\.py|sitecustomize")
"""A file of the recorder, or of what runs the program."""

_HOST: Final = frozenset({"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "xpu_runtime"})
_BESIDE: Final = ("gloo:", "nccl:")
"""Collectives on their way: spans of no call."""

_UPDATE: Final = re.compile(r"Optimizer\.step#\w+\.step")
_RIGHT: Final = (
    re.compile(r"\d+ traces? in \S+; `kinetoscope summary \S+` says where the time goes"),
    re.compile(r"trace: \S+ \(next: kinetoscope summary \S+\)"),
    re.compile(r"step\(\) was never called, so all of the block was recorded, without shapes"),
    re.compile(r"several threads train: the steps of one are recorded, .*"),
)
"""Lines of the recorder that are true of every program of the zoo."""

_ROUNDING: Final = 0.001
_ACTIVE: Final = 3


def broken(job: Job, advice: Advice) -> Iterator[str]:
    """What needs only the trace."""
    yield from self_times(job)
    yield from steps_apart(job)
    yield from laws(advice)
    yield from named_files(job, advice)


def broken_recording(recording: Recording, plain: tuple[str, ...] | None) -> Iterator[str]:
    """What is known of the run: how it ended, what the recorder said, what the program computed."""
    if recording.code:
        yield f"it ended with {recording.code}: {recording.errors[-300:]}"
    if plain is not None and recording.result != plain:
        yield f"its result is {recording.result}, without recording {plain}"
    for line in recording.said:
        if not any(each.fullmatch(line) for each in _RIGHT):
            yield f"the recorder said: {line}"


def self_times(job: Job) -> Iterator[str]:
    """Self times of the operators sum to the time in which the threads called anything, read from the file itself."""
    operators = kinetoscope.operators(job, python=False).frame
    calls = operators.filter(pl.col("kind") != "python")
    by_rank: dict[int, int] = dict(calls.group_by("rank").agg(pl.col("host_self").sum()).iter_rows())
    yield from (f"a self time is {each} ns" for each in operators.get_column("host_self").to_list() if each < 0)
    busy = Counter[int]()
    for source in job.sources:  # several of a rank: a thread that is no main thread has a file for each call
        busy[source.rank] += _busy(document(Path(source.url)))
    for rank, covered in busy.items():
        total = by_rank.get(rank, 0)
        if abs(total - covered) > _ROUNDING * covered + 1000:
            yield f"self times sum to {total / 1e6:.3f} ms, the calls cover {covered / 1e6:.3f} ms"


def steps_apart(job: Job) -> Iterator[str]:
    """No step overlaps another of its rank, and each is as long as it says."""
    frame = kinetoscope.step_breakdown(job).frame
    of_file = ["rank", "cycle"] if "cycle" in frame.columns else ["rank"]
    for _, of_rank in frame.sort(*of_file, "start").group_by(of_file, maintain_order=True):
        rows = of_rank.select("step", "start", "duration").rows()
        for (step, start, duration), (other, later, _) in pairwise(rows):
            if start + duration > later:
                yield f"step {step} ends {start + duration - later} ns after step {other} began"


def own_steps(job: Job, recording: Recording) -> Iterator[str]:
    """As many steps as were asked for, numbered as the program counts them, with the same updates in each."""
    program = recording.program
    if program.steps is None or any("was never called" in each for each in recording.said):
        return
    for source in job.sources:
        events = document(Path(source.url))["traceEvents"]
        marks = [each for each in events if str(each.get("name", "")).startswith("ProfilerStep#")]
        marks = [each for each in marks if each.get("cat") == "user_annotation"]
        if program.steps > _ACTIVE + 2 and len(marks) < _ACTIVE:
            yield f"{len(marks)} steps were recorded"
        if any(int(each["name"].partition("#")[2]) >= program.steps for each in marks):
            yield f"a step is beyond the {program.steps} of the program"
        updates = [_updates(events, mark) for mark in marks]
        marked = any(_UPDATE.fullmatch(str(each.get("name", ""))) for each in events)  # none where it is compiled
        if marked and (not all(updates) or any(each != updates[0] for each in updates)):
            yield f"the steps hold different updates: {[dict(each) for each in updates]}"


def laws(advice: Advice) -> Iterator[str]:
    """The laws of promises."""
    try:
        keep_the_laws(advice)
    except AssertionError as error:
        yield f"a promise breaks a law: {str(error)[:300]}"


def named_files(job: Job, advice: Advice) -> Iterator[str]:
    """No file of the recorder is named as the user's."""
    if OURS.search(told := str(advice)):
        yield f"advice names a file of ours: {_around(told)}"
    places = kinetoscope.operator_stacks(job, backward="forward", group_by="line").frame
    for file in places.get_column("file").drop_nulls().unique().to_list():
        if OURS.search(file):
            yield f"operators are of a file of ours: {file}"
    if OURS.search(told := json.dumps(to_plain(sources.page(job, ALL, {})))):
        yield f"the page of sources names a file of ours: {_around(told)}"


def document(file: Path) -> Mapping[str, Any]:
    """A trace as its file has it."""
    content = file.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    return found


def _busy(trace: Mapping[str, Any]) -> int:
    """ns in which a thread is in a call that is none of Python, over all threads."""
    spans = defaultdict[tuple[Any, Any], list[tuple[float, float]]](list)
    for each in trace["traceEvents"]:
        is_call = each.get("cat") in _HOST and not str(each["name"]).startswith(_BESIDE)
        if each.get("ph") == "X" and is_call:
            spans[each["pid"], each["tid"]].append((each["ts"], each["ts"] + each["dur"]))
    return round(sum(_covered(of_thread) for of_thread in spans.values()) * 1000)


def _covered(spans: list[tuple[float, float]]) -> float:
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def _updates(events: list[dict[str, Any]], mark: Mapping[str, Any]) -> Counter[str]:
    begin, end = mark["ts"], mark["ts"] + mark["dur"]
    inside = (each for each in events if each.get("ph") == "X" and _UPDATE.fullmatch(str(each.get("name", ""))))
    return Counter(each["name"] for each in inside if begin <= each["ts"] < end and each["pid"] == mark["pid"])


def _around(text: str) -> str:
    found = OURS.search(text)
    assert found is not None
    return text[max(0, found.start() - 60) : found.end() + 40]
