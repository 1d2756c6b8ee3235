"""Laws that tie the analyses to each other: what one of them adds up another must give, to the nanosecond."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import polars as pl
import pytest

from kinetoscope import ANALYSES, Result, Selection
from kinetoscope.algorithms.intervals.intervals import union
from kinetoscope.errors import UsageError
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import ALL
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace.event_kinds import HOST_KINDS, EventKind
from tests.catalog.random_job import RandomJob
from tests.catalog.samples import answers_of, everywhere, job_of
from tests.conftest import first_quick

Fact = tuple[str, object, object]
"""What is said, and the two things that must be equal."""


class Asked:
    """A trace, and the answers that were asked of it; each is asked once. `answered`: those that are there already."""

    def __init__(self, file: Path, answered: Mapping[str, Result] = MappingProxyType({})) -> None:
        self.job = job_of(file)
        self.trace = self.job.trace()
        self._answers: dict[Any, pl.DataFrame] = {(name, ALL, ()): answer.frame for name, answer in answered.items()}

    def __call__(self, name: str, select: Selection = ALL, **params: Any) -> pl.DataFrame:
        key = name, select, tuple(sorted(params.items()))
        if key not in self._answers:
            [analysis] = [each for each in ANALYSES if each.name == name]
            self._answers[key] = analysis(self.job, select=select, **params).frame
        return self._answers[key]

    @property
    def work(self) -> DeviceWork:
        return device_work(self.trace)

    @property
    def selections(self) -> list[Selection]:
        """Everything; a range of time; a step, if there are several."""
        numbers = steps(self.trace).number.tolist()
        some = [Selection(steps=(numbers[len(numbers) // 2],))] if len(numbers) > 1 else []
        return [ALL, self.halves[1], *some]

    @property
    def halves(self) -> tuple[Selection, Selection, Selection]:
        """A range of time that covers all, and the two parts of it, cut inside calls and work."""
        origin = origin_of_time(self.trace)
        shown = self.trace.start >= origin
        last = max(int(self.trace.end.max()) - origin, 0) + 1
        middle = int(np.median(self.trace.start[shown])) - origin + 1 if shown.any() else 0
        whole, first, second = (Selection(time=time) for time in ((0, last), (0, middle), (middle, last)))
        return whole, first, second


def sums(frame: pl.DataFrame, *by: str) -> dict[Any, Any]:
    """Sums of the whole-number columns, by the text or number of `by`; what is 0 is left out."""
    numbers = [name for name, dtype in frame.schema.items() if dtype == pl.Int64 and name not in by]
    grouped = frame.with_columns(pl.lit(0).alias("_")).group_by("_", *by).agg(pl.col(numbers).sum())
    found = {}
    for row in grouped.iter_rows(named=True):
        key = tuple(row[name] for name in by)
        found.update({(*key, name): row[name] for name in numbers if row[name]})
    return found


def total(frame: pl.DataFrame, column: str, *by: str) -> dict[Any, int]:
    """Sum of a column by the values of `by`, without those that are 0."""
    grouped = frame.group_by(by or [pl.lit(0).alias("_")]).agg(pl.col(column).sum())
    return {tuple(key): value for *key, value in grouped.iter_rows() if value}


def close(number: Any) -> float | None:
    """Nine digits of a number that is a sum of rounded ones."""
    return None if number is None else float(f"{number:.9g}")


LAWS: list[Callable[[Asked], Iterator[Fact]]] = []


def law(function: Callable[[Asked], Iterator[Fact]]) -> Callable[[Asked], Iterator[Fact]]:
    LAWS.append(function)
    return function


# --- the time of devices


@law
def kinds_sum_to_busy_time(ask: Asked) -> Iterator[Fact]:
    for select in ask.selections:
        yield from _kinds(*(ask(name, select) for name in ("temporal_breakdown", "kernel_kinds", "overlap")))


def _kinds(whole: pl.DataFrame, kinds: pl.DataFrame, hidden: pl.DataFrame) -> Iterator[Fact]:
    yield "devices", whole["device"].to_list(), hidden["device"].to_list()
    for row in whole.iter_rows(named=True):
        here = kinds.filter(pl.col("device") == row["device"])
        exact = dict(here.select("kinds", "time").iter_rows())
        together = dict(here.select("kinds", "total").iter_rows())
        yield "kinds = window - idle", sum(exact.values()), row["window"] - row["idle"]
        yield "memory alone", exact.get("memory", 0), row["exposed_memory"]
        exposed = exact.get("communication", 0) + exact.get("communication+memory", 0)
        yield "communication without computation", exposed, row["exposed_communication"]
        yield "computation", together.get("computation", 0), row["computation"]
        [of_overlap] = hidden.filter(device=row["device"]).iter_rows(named=True)
        for name in ("computation", "exposed_communication"):
            yield f"overlap.{name}", of_overlap[name], row[name]
        yield "overlap", of_overlap["overlap"], together.get("computation+communication", 0)
        yield "communication", of_overlap["communication"], together.get("communication", 0)


@law
def reasons_sum_to_idle_time(ask: Asked) -> Iterator[Fact]:
    for select in ask.selections:
        yield from _reasons(ask("idle_breakdown", select), ask("temporal_breakdown", select))


def _reasons(idle: pl.DataFrame, whole: pl.DataFrame) -> Iterator[Fact]:
    yield "idle time", total(idle, "time", "device"), total(whole, "idle", "device")
    for device, share in idle.group_by("device").agg(pl.col("window_share").sum()).iter_rows():
        [(expected,)] = whole.filter(device=device).select("idle_share").iter_rows()
        yield "share of the window", close(share), close(expected)
    shares = idle.group_by("device").agg(pl.col("share").sum())["share"]
    yield "shares", shares.round(9).to_list(), [1.0] * len(shares)
    yield "longest", idle.filter((pl.col("longest") > pl.col("time")) | (pl.col("time") < 1)).height, 0
    yield "gaps", idle.filter(pl.col("longest") * pl.col("gaps") < pl.col("time")).height, 0


@law
def idle_time_of_each_stream_is_that_of_the_stream_alone(ask: Asked) -> Iterator[Fact]:
    found = total(ask("idle_breakdown", by="stream"), "time", "device", "stream")
    for device, stream in sorted({(int(a), int(b)) for a, b in zip(ask.work.device, ask.work.stream, strict=True)}):
        if device < 0 or stream < 0:
            continue
        alone = ask("temporal_breakdown", Selection(devices=(device,), streams=(stream,)))
        yield f"stream {stream}", found.get((device, stream), 0), alone["idle"].sum()


@law
def steps_sum_up(ask: Asked) -> Iterator[Fact]:
    found = steps(ask.trace)
    whole = ask("step_breakdown")
    yield "duration", whole["duration"].to_list(), (found.device.end - found.device.start).tolist()
    apart = [ask("step_breakdown", Selection(steps=(number,))) for number in set(found.number.tolist())]
    yield "one by one", sums(pl.concat(apart)), sums(whole)


@law
def kernels_sum_to_the_durations_of_device_work(ask: Asked) -> Iterator[Fact]:
    duration, work = int(ask.work.duration.sum()), len(ask.work)
    for group_by in ("name", "launch"):
        frame = ask("kernels", group_by=group_by, copies=True)
        yield "total", frame["total"].sum(), duration
        yield "calls", frame["calls"].sum(), work
        if duration:
            yield "share", close(frame["share"].sum()), 1.0
    kernels = ~np.isin(ask.work.kind, (2, 3))
    yield "without copies", ask("kernels")["total"].sum(), int(ask.work.duration[kernels].sum())
    moved = ask("memory_bandwidth")
    yield (
        "copies",
        (moved["total"].sum(), moved["calls"].sum()),
        (int(ask.work.duration[~kernels].sum()), sum(~kernels)),
    )


@law
def utilization_is_of_kernels(ask: Asked) -> Iterator[Fact]:
    """In the whole range of time the window is the same for all that know it."""
    whole, _, _ = ask.halves
    found = ask("device_utilization", whole)
    series = ask("device_utilization_series", whole)
    series = series.with_columns(busy=pl.col("utilization") * pl.col("duration"))
    for row in found.iter_rows(named=True):
        here = series.filter(pl.col("device") == row["device"])
        inside = Selection(time=(row["start"], row["end"]))
        same = ask("device_utilization_series", inside).filter(pl.col("device") == row["device"])
        for name in ("utilization", "sm_efficiency"):
            if row[name] is not None:
                area, time = (same[name] * same["duration"]).sum(), same["duration"].sum()
                yield f"mean {name}", round(float(area) / max(int(time), 1), 9), round(row[name], 9)
        covered = here["duration"].sum()
        assert whole.time is not None
        yield "buckets cover the range", covered, whole.time[1] - whole.time[0]


# --- launches


@law
def each_piece_of_work_has_one_launch(ask: Asked) -> Iterator[Fact]:
    frame, unlinked = ask("launches"), int((ask.work.launch < 0).sum())
    yield "work", frame["work"].sum() + unlinked, len(ask.work)
    single = frame.filter(work=1)
    rows = ask.work.launch[ask.work.launch >= 0]
    _, count = np.unique(rows, return_counts=True)
    yield "launches", len(frame.filter(pl.col("work") > 0)), len(count)
    yield "launches of one", len(single), int((count == 1).sum())
    alone = np.isin(ask.work.launch, np.unique(rows)[count == 1])
    yield "durations", single["work_duration"].sum(), int(ask.work.duration[alone].sum())
    yield "null without work", frame.filter((pl.col("work") == 0) != pl.col("delay").is_null()).height, 0
    yield "in order", frame["start"].is_sorted(), True


@law
def statistics_are_of_the_launches(ask: Asked) -> Iterator[Fact]:
    frame, found = ask("launches"), ask("launch_statistics")
    if not len(frame):
        yield "nothing", len(found), 0
        return
    everything, named = found[:1].fill_null(0), found[1:]
    added = ("calls", "total", "short_kernels", "short_excess", "slow_calls", "slow_excess", "long_delays")
    yield "(all)", everything.select(added).row(0), named.select(pl.col(added).sum()).row(0)
    linked = frame.filter(pl.col("work") > 0)
    short = linked.filter(pl.col("work_duration") < pl.col("duration"))
    slow = frame.filter(pl.col("duration") > 50_000)
    yield (
        "counts",
        everything.select(added).row(0),
        (
            len(frame),
            frame["duration"].sum(),
            len(short),
            (short["duration"] - short["work_duration"]).sum(),
            len(slow),
            (slow["duration"] - 50_000).sum(),
            len(frame.filter(pl.col("delay") > 100_000)),
        ),
    )
    yield "greatest", found.select("max", "delay_max").row(0), (frame["duration"].max(), frame["delay"].max())


@law
def queues_are_made_of_waits(ask: Asked) -> Iterator[Fact]:
    found, series = ask("queue_length"), ask("queue_length_series")
    place = ["device", "stream"]
    series = series.with_columns(held=(pl.col("time").shift(-1) - pl.col("time")).over(place))
    curve = series.with_columns(area=pl.col("held") * pl.col("length"))
    areas = total(curve, "area", *place)
    yield (
        "area",
        {(row["device"], row["stream"]): round(row["mean"] * row["window"]) for row in _rows(found) if row["mean"]},
        areas,
    )
    yield "queued", total(found, "queued", *place), total(series.filter(pl.col("length") > 0), "held", *place)
    highest = {(row["device"], row["stream"]): row["max"] for row in _rows(found) if row["max"]}
    yield (
        "max",
        highest,
        {tuple(key): high for *key, high in series.group_by(place).agg(pl.col("length").max()).iter_rows()},
    )
    yield "ends at 0", series.group_by(place).last()["length"].sum(), 0
    yield "never negative", series.filter(pl.col("length") < 0).height, 0
    waits = total(_waits(ask), "wait", *place)
    yield "waits", areas, waits


def _waits(ask: Asked) -> pl.DataFrame:
    work, trace = ask.work, ask.trace
    linked = work.launch >= 0
    frame = pl.DataFrame(
        {
            "launch": work.launch[linked],
            "device": work.device[linked],
            "stream": work.stream[linked],
            "start": work.start[linked],
            "called": trace.start[work.launch[linked]],
        }
    )
    frame = frame.group_by("launch", "device", "stream").agg(pl.col("start").min(), pl.col("called").first())
    return frame.with_columns(wait=(pl.col("start") - pl.col("called")).clip(lower_bound=0))


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return frame.to_dicts()


# --- calls of the host


@law
def operators_have_all_device_time_that_is_linked(ask: Asked) -> Iterator[Fact]:
    work = ask.work
    linked = int(work.duration[(work.launch >= 0) | (work.op >= 0)].sum())
    for params in ({}, {"python": True}, {"group_by": "shapes"}, {"group_by": "stack"}):
        frame = ask("operators", **params)
        yield f"device_self {params}", frame["device_self"].sum(), linked
        yield "self <= total", frame.filter(pl.col("device_self") > pl.col("device_total")).height, 0
        yield "busy <= total", frame.filter(pl.col("device_total_busy") > pl.col("device_total")).height, 0
    names, totals = ("calls", "host_self", "device_self"), ("host_total", "device_total")
    at_once = total_of(ask("operators"), totals, "name", "kind")
    for group_by in ("shapes", "stack"):
        apart = ask("operators", group_by=group_by)
        yield (
            f"by {group_by}",
            total_of(apart, names, "name", "kind"),
            total_of(ask("operators"), names, "name", "kind"),
        )
        # Calls in calls of their name count once in a row, and these may be of different stacks.
        more = total_of(apart, totals, "name", "kind")
        yield f"totals by {group_by}", [key for key, time in at_once.items() if time > more[key]], []
    every = ask("operators").filter(pl.col("kind") != "memory")
    for backward in ("thread", "forward"):
        stacks = ask("operator_stacks", backward=backward)
        yield f"operator_stacks, {backward}", total_of(stacks, names), total_of(every, names)


def total_of(frame: pl.DataFrame, names: tuple[str, ...], *by: str) -> dict[Any, Any]:
    return sums(frame.select(*by, *names), *by)


@law
def self_times_of_the_host_have_each_instant_once(ask: Asked) -> Iterator[Fact]:
    trace, tree = ask.trace, call_tree(ask.trace)
    for python, hidden in ((False, [EventKind.PYTHON]), (True, [])):
        shown = tree.member & ~np.isin(trace.kind, hidden)
        tracks = [np.flatnonzero(shown & (trace.track == track)) for track in np.unique(trace.track[shown]).tolist()]
        ran = sum(union(trace.start[rows], trace.end[rows]).length for rows in tracks)
        frame = ask("operators", python=python)
        yield f"host_self, python={python}", frame["host_self"].sum(), ran
        yield "below 0", frame.filter(pl.col("host_self") < 0).height, 0
        synchronous = frame.filter(~pl.col("name").str.starts_with("gloo:"))
        yield "more than there was", synchronous.filter(pl.col("host_total") > ran).height, 0


@law
def sequences_have_what_operators_have(ask: Asked) -> Iterator[Fact]:
    work = ask.work
    everything = ask("operators").filter(pl.col("kind") == "operator")
    for name, calls, time in everything.select("name", "calls", "device_total").head(3).iter_rows():
        if time:
            found = ask("kernel_sequences", operator=name, min_length=0)
            yield name, (found["calls"].sum(), found["device_time"].sum() >= time), (calls, True)
    outermost = ask("kernel_sequences")
    inside = (work.launch >= 0) & (enclosing_op(ask.trace)[work.launch] >= 0)
    of_operators = (work.launch < 0) & (work.op >= 0)
    yield "outermost", outermost["device_time"].sum(), int(work.duration[inside | of_operators].sum())
    delays = ask("operator_launch_delay", operators="")
    yield "delays", delays["device_time"].sum(), int(work.duration[inside].sum())
    yield "whole sequences", delays["names"].list.len().to_list(), delays["kernels"].clip(upper_bound=4096).to_list()
    yield "kernels", (delays["kernels"] * delays["calls"]).sum(), int(inside.sum())


@law
def flames_sum_up(ask: Asked) -> Iterator[Fact]:
    duration = int(ask.work.duration.sum())
    for params in (
        {},
        {"python": "none"},
        {"operators": False},
        {"kernels": False},
        {"python": "modules"},
        {"backward": "forward"},
    ):
        if duration:
            frame = ask("flame", weight="device", **params)
            yield f"device time {params}", frame["value"].sum(), duration
    tree, trace = call_tree(ask.trace), ask.trace
    of_threads = 0
    for low, high in zip(tree.offsets[:-1].tolist(), tree.offsets[1:].tolist(), strict=True):
        rows = tree.order[low:high]
        of_threads += union(trace.start[rows], trace.end[rows]).length
    for backward in ("thread", "forward"):
        yield f"host time, {backward}", ask("flame", weight="host", backward=backward)["value"].sum(), of_threads


@law
def counters_are_the_same_by_kernel(ask: Asked) -> Iterator[Fact]:
    by_operator, by_kernel = (ask("hardware_counters", by=by) for by in ("operator", "kernel"))
    yield "calls", total(by_operator, "calls", "counter"), total(by_kernel, "calls", "counter")
    totals = [
        frame.group_by("counter").agg(pl.col("total").sum()).sort("counter") for frame in (by_operator, by_kernel)
    ]
    yield "totals", totals[0].rows(), totals[1].rows()


@law
def modules_sum_up(ask: Asked) -> Iterator[Fact]:
    frame = ask("modules")
    for where in ("host", "device"):
        roots = frame.filter(depth=0)[f"{where}_total"].sum()
        yield f"{where} of the roots", roots, frame[f"{where}_self"].sum()
        halves = frame.select(pl.sum_horizontal(f"{where}_forward", f"{where}_backward")).to_series()
        yield f"{where} passes", halves.to_list(), frame[f"{where}_total"].fill_null(0).to_list()
    yield "no more than there is", frame["device_self"].sum() <= int(ask.work.duration.sum()), True


@law
def flops_are_the_same_by_anything(ask: Asked) -> Iterator[Fact]:
    by_op, by_module, by_step = (ask("flops", by=by) for by in ("op", "module", "step"))
    if len(by_module):
        yield "modules", close(by_module["flop"].sum()), close(by_op["flop"].sum())
        yield "calls of modules", by_module["calls"].sum(), by_op["calls"].sum()
    numbers = tuple(by_step["step"].to_list())
    inside = ask("flops", Selection(steps=numbers)) if numbers else by_op[:0]
    yield "steps", close(by_step["flop"].sum()), close(inside["flop"].sum())
    yield "calls of steps", by_step["calls"].sum(), inside["calls"].sum()


@law
def ranges_are_rows_of_operators_too(ask: Asked) -> Iterator[Fact]:
    found, work = ask("annotations"), ask.work
    names = ("calls", "host_total", "device_total")
    marked = ask("operators").filter(pl.col("kind") == "annotation")
    here = found.filter(pl.col("name").is_in(marked["name"].implode()))
    yield "annotations", total_of(here.filter(pl.col("calls") > 0), names, "name"), total_of(marked, names, "name")
    yield "self", found["host_self"].sum() <= found["host_total"].sum(), True
    tree, trace = call_tree(ask.trace), ask.trace
    if not tree.partial and set(found["name"]) == set(marked["name"]):
        chosen = np.flatnonzero(tree.member & (trace.kind == EventKind.ANNOTATION))
        tracks = [chosen[trace.track[chosen] == track] for track in np.unique(trace.track[chosen])]
        lengths = [union(trace.start[rows], trace.end[rows]).length for rows in tracks]
        yield "self of all", found["host_self"].sum(), sum(lengths)
    launched = int(work.duration[(work.launch >= 0) | (work.op >= 0)].sum())
    yield "device time of its own", found["device_self"].sum() <= launched, True


# --- what steps follow from


@law
def the_critical_path_fills_the_steps(ask: Asked) -> Iterator[Fact]:
    whole = ask("critical_path")
    lengths = dict(ask("step_breakdown").select("step", "duration").iter_rows())
    causes = whole.columns[whole.columns.index("duration") + 1 : whole.columns.index("inferred_share")]
    yield "steps", dict(whole.select("step", "duration").iter_rows()), lengths
    yield "causes", whole.select(pl.sum_horizontal(causes)).to_series().to_list(), whole["duration"].to_list()
    yield "negative", whole.filter(pl.min_horizontal(causes) < 0).height, 0
    for path in ("step", "run"):
        by_cause = {cause: ask("critical_path", path=path)[cause].sum() for cause in causes}
        by_cause = {cause: time for cause, time in by_cause.items() if time}
        for group_by in ("name", "event"):
            events = ask("critical_path_events", path=path, group_by=group_by)
            found = total(events, "time", "cause")
            yield f"{path} by {group_by}", found, {(cause,): time for cause, time in by_cause.items()}
            if len(events):
                yield "shares", close(events["share"].sum()), 1.0
    pieces = ask("critical_path_events", group_by="event")
    yield "each piece begins where the one before ends", _holes(pieces), 0


@law
def what_if_gains_no_more_than_the_path_has(ask: Asked) -> Iterator[Fact]:
    """Time between the host's steps is in none of them: what moves there looks like a gain."""
    found = steps(ask.trace)
    if (found.device.start[1:] != found.device.end[:-1]).any() or len(ask.trace) > 60_000:
        return
    between = int((found.host.start[1:] - found.host.end[:-1]).sum())
    for cause in ("launch", "computation"):
        scaled = ask("critical_path", path="run", what_if=f"{cause}=0")
        yield cause, 0 <= scaled["gain"].sum() <= scaled[cause].sum() + between, True
        same = ask("critical_path", what_if=f"{cause}=1")
        yield f"{cause} as it is", same["gain"].to_list(), [0] * len(same)


def _holes(pieces: pl.DataFrame) -> int:
    """How many pieces of a step do not follow the piece before."""
    end = (pl.col("start") + pl.col("time")).shift(1).over("step")
    return pieces.filter(pl.col("start") != end).height


@law
def waits_are_no_longer_than_calls(ask: Asked) -> Iterator[Fact]:
    found = ask("synchronizations")
    yield "waiting", found.filter(pl.col("waiting") > pl.col("time")).height, 0
    yield "longest", found.filter(pl.col("longest") > pl.col("time")).height, 0
    yield "waits", found.filter(pl.col("waits") > pl.col("calls")).height, 0
    yield "idle", found["device_idle"].sum() <= ask("temporal_breakdown")["idle"].sum(), True
    runtime = dict(ask("operators").filter(kind="runtime").select("name", "host_total").iter_rows())
    for call, time in found.group_by("call").agg(pl.col("time").sum()).iter_rows():
        yield call, time <= runtime.get(call, time), True


# --- memory


@law
def memory_sums_to_its_changes(ask: Asked) -> Iterator[Fact]:
    curve, by_operator = ask("memory_curve"), ask("memory_by_operator")
    taken = curve.filter(pl.col("change") > 0)
    yield "increase", total(by_operator, "self_size_increase", "device"), total(curve, "change", "device")
    yield "taken", total(by_operator, "self_allocation_size", "device"), total(taken, "change", "device")
    how_often = {(device,): count for device, count in taken.group_by("device").len().iter_rows()}
    yield "how often", total(by_operator, "self_allocations", "device"), how_often
    by_device = {True: 0, False: 0}
    for (device,), value in total(curve, "change", "device").items():
        by_device[device == "cpu"] += value
    if np.count_nonzero(np.diff(call_tree(ask.trace).offsets)) == 1:  # there, what any thread does counts
        operators = ask("operators")
        yield "operators", operators["host_memory_self"].sum(), by_device[True]
        yield "operators on devices", operators["device_memory_self"].sum(), by_device[False]


@law
def the_peak_is_the_highest_point(ask: Asked) -> Iterator[Fact]:
    curve, peak, events = ask("memory_curve"), ask("memory_peak"), ask("memory_events")
    for device in curve["device"].unique().sort():
        here = curve.filter(device=device)
        first = here["allocated"][0] - here["change"][0]
        parts = peak.filter(device=device)
        yield f"peak of {device}", parts["size"].sum(), max(here["allocated"].max(), first)
        if not len(parts):
            continue
        time = parts["time"][0]
        if here.filter(time=time).height > 1:
            continue  # several records at that instant: which of them is meant is not said
        blocks = events.filter((pl.col("device") == device) & (pl.col("allocated_at") <= time))
        alive = blocks.filter(pl.col("freed_at").is_null() | (pl.col("freed_at") > time))
        held = parts.filter(~pl.col("kind").is_in(["before", "unpaired"]))
        yield f"alive on {device}", held["size"].sum(), alive["size"].sum()
        yield f"blocks on {device}", held["blocks"].sum(), len(alive)


@law
def growth_is_between_the_ends_of_steps(ask: Asked) -> Iterator[Fact]:
    """The first step is left out."""
    curve, origin = ask("memory_curve"), origin_of_time(ask.trace)
    ends = (steps(ask.trace).host.end[1:] - origin).tolist()
    for row in ask("memory_growth").filter(pl.col("kind") == "device", pl.col("size").is_not_null()).to_dicts():
        here = curve.filter(device=row["device"])
        levels: list[Any] = [here.filter(pl.col("time") < end)["allocated"].last() for end in (ends[0], ends[-1])]
        if None not in levels:
            yield f"growth of {row['device']}", row["size"], levels[1] - levels[0]
        kept = ask("memory_growth").filter(pl.col("kind") != "device", device=row["device"])["size"].sum()
        highest: Any = here["allocated"].max()
        yield "kept is alive at the end", kept <= highest, True


@law
def each_change_of_memory_is_in_one_block(ask: Asked) -> Iterator[Fact]:
    events, curve = ask("memory_events"), ask("memory_curve")
    if not len(events):
        return
    given = events.filter(pl.col("freed_at").is_not_null())
    taken = events.filter(pl.col("allocated_at").is_not_null())
    without = memory_without_address(ask)
    if without:
        return
    up, down = curve.filter(pl.col("change") > 0), curve.filter(pl.col("change") < 0)
    yield "taken", total(taken, "size", "device"), total(up, "change", "device")
    yield "given back", len(given), len(down)
    yield "how long", events.filter(pl.col("duration") < 0).height, 0


def memory_without_address(ask: Asked) -> bool:
    [analysis] = [each for each in ANALYSES if each.name == "memory_events"]
    return any("no address" in note for note in analysis(ask.job).notes)


# --- selections

PARTS_IN_TIME: Final = {
    "device_utilization": ("kernel_time",),
    "flame": ("value",),
    "flops": ("calls", "flop"),
    "kernel_kinds": ("time",),
    "kernels": ("calls", "total"),
    "critical_path": ("duration", "host", "computation"),
    "launches": ("duration", "work"),
    "memory_bandwidth": ("calls", "bytes", "total", "busy"),
    "step_breakdown": ("duration", "computation", "communication", "memcpy", "memset", "runtime", "host", "other"),
    "synchronizations": ("calls",),
    "annotations": ("calls", "host_total", "host_self", "device_total", "device_self"),
    "memory_by_operator": ("self_size_increase", "self_allocation_size", "self_allocations"),
    "memory_curve": ("change",),
    "modules": ("host_self", "device_self", "calls"),
    "operators": ("calls", "host_total", "host_self", "device_total", "device_self", "device_self_busy"),
    "operator_stacks": ("calls", "host_self", "device_self"),
    "overlap": ("computation", "communication", "overlap"),
    "queue_length": ("calls", "queued"),
    "temporal_breakdown": ("computation", "exposed_communication", "exposed_memory"),
}
"""What of two ranges of time that touch adds up to what is in both of them."""

PARTS_OF_STREAMS: Final = {
    "flame": ("value",),
    "kernels": ("calls", "total"),
    "launches": ("duration", "work"),
    "memory_bandwidth": ("calls", "bytes", "total"),
    "modules": ("device_self",),
    "operators": ("device_self", "device_total"),
    "queue_length": ("calls", "queued"),
}
"""What of all streams of all devices, one by one, adds up to what is in all of them."""

PARTS_OF_STEPS: Final = {
    "flops": ("calls", "flop"),
    "kernels": ("calls", "total"),
    "launches": ("duration", "work"),
    "memory_bandwidth": ("calls", "bytes", "total"),
    "memory_by_operator": ("self_size_increase", "self_allocation_size", "self_allocations"),
    "modules": ("calls", "host_self", "device_self"),
    "operators": ("calls", "host_self", "host_total", "device_self", "device_total"),
    "queue_length": ("calls",),
    "critical_path": ("duration", "host", "computation"),
    "annotations": ("calls", "host_total", "host_self", "device_total", "device_self"),
    "synchronizations": ("calls", "time", "waits", "waiting"),
}
"""What of all steps, one by one, adds up to what is in all of them."""

PARTS_OF_THREADS: Final = {
    "launches": ("duration", "work"),
    "launch_statistics": ("calls", "total"),
    "memory_by_operator": ("self_size_increase", "self_allocation_size"),
    "operators": ("calls", "host_self", "host_total"),
    "synchronizations": ("calls", "time", "waits"),
    "annotations": ("calls", "host_total", "host_self", "device_total", "device_self"),
}
"""What of all threads of the host, one by one, adds up to what is in all of them."""


def _added(frames: list[pl.DataFrame], names: tuple[str, ...]) -> list[float | None]:
    found = pl.concat([frame.select(names) for frame in frames])
    return [close(found[name].sum()) for name in names]


@law
def ranges_of_time_add_up(ask: Asked) -> Iterator[Fact]:
    whole, *parts = ask.halves
    for analysis, names in PARTS_IN_TIME.items():
        params = {"copies": True} if analysis == "kernels" else {"weight": "host"} if analysis == "flame" else {}
        together = _added([ask(analysis, whole, **params)], names)
        apart = _added([ask(analysis, part, **params) for part in parts], names)
        yield analysis, dict(zip(names, apart, strict=True)), dict(zip(names, together, strict=True))


@law
def the_range_of_all_time_changes_nothing(ask: Asked) -> Iterator[Fact]:
    whole, _, _ = ask.halves
    for analysis, names in PARTS_IN_TIME.items():
        if analysis == "device_utilization":
            continue  # its window is that of the steps
        params = {"copies": True} if analysis == "kernels" else {"weight": "host"} if analysis == "flame" else {}
        yield analysis, _added([ask(analysis, whole, **params)], names), _added([ask(analysis, **params)], names)


@law
def streams_add_up(ask: Asked) -> Iterator[Fact]:
    places = sorted({(int(a), int(b)) for a, b in zip(ask.work.device, ask.work.stream, strict=True)})
    if not places or len(places) > 12:
        return
    for analysis, names in PARTS_OF_STREAMS.items():
        params = {"copies": True} if analysis == "kernels" else {"weight": "device"} if analysis == "flame" else {}
        apart = [ask(analysis, Selection(devices=(device,), streams=(stream,)), **params) for device, stream in places]
        together = ask(analysis, **params)
        if analysis == "launches":
            together = together.filter(pl.col("work") > 0)
        yield analysis, _added(apart, names), _added([together], names)


@law
def steps_add_up(ask: Asked) -> Iterator[Fact]:
    numbers = steps(ask.trace).number.tolist()
    if not 2 <= len(set(numbers)) <= 12:
        return
    for analysis, names in PARTS_OF_STEPS.items():
        params = {"copies": True} if analysis == "kernels" else {}
        apart = [ask(analysis, Selection(steps=(number,)), **params) for number in sorted(set(numbers))]
        together = ask(analysis, Selection(steps=tuple(numbers)), **params)
        yield analysis, _added(apart, names), _added([together], names)


@law
def threads_add_up(ask: Asked) -> Iterator[Fact]:
    host = np.unique(ask.trace.track[np.isin(ask.trace.kind, HOST_KINDS)])
    threads = np.unique(ask.trace.tracks.integer_tids()[host]).tolist()
    if not 2 <= len(threads) <= 6:
        return
    for analysis, names in PARTS_OF_THREADS.items():
        apart = [ask(analysis, Selection(threads=(thread,))) for thread in threads]
        together = ask(analysis)
        if analysis in ("operators", "memory_by_operator"):
            apart = [frame.filter(pl.col("kind") != "memory") for frame in apart]
            together = together.filter(pl.col("kind") != "memory")
        yield analysis, _added(apart, names), _added([together], names)


# --- all laws over all traces


def broken(ask: Asked) -> list[str]:
    """The facts that do not hold, one line each."""
    found = []
    for each in LAWS:
        try:
            for what, one, other in each(ask):
                if one != other:
                    found.append(f"{each.__name__}: {what}: {one} is not {other}")
        except UsageError as error:
            found.append(f"{each.__name__}: {error}")
    return found


@pytest.mark.parametrize("file", everywhere())
def test_what_one_analysis_adds_up_another_gives(file: Path) -> None:
    assert not broken(Asked(file, answers_of(file)))


@pytest.mark.parametrize("seed", first_quick(range(8)))
def test_what_one_analysis_adds_up_another_gives_in_a_drawn_trace(tmp_path: Path, seed: int) -> None:
    assert not broken(Asked(RandomJob(seed).written(tmp_path)))
