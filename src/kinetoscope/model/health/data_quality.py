"""Checks of data quality: impossible times, and device work without links to the host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.ordering import track_order
from kinetoscope.algorithms.trees.tree import Cut, enclosing, nest
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.graphs.replay_gaps import MAX_MEDIAN_NS, replay_gaps
from kinetoscope.model.graphs.replays import replays_graphs
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.counters import counters
from kinetoscope.model.trace.event_kinds import END, SPANS, EventKind
from kinetoscope.model.trace.shapes import FALSE
from kinetoscope.model.trace.text import duration_text, number_of
from kinetoscope.model.trace.trace import Trace, stray
from kinetoscope.notes import Note, Severity

_WARNING_SHARE: Final = 0.01
"""Share of the device time beyond which a symptom is a warning instead of a note."""

_DAY_NS: Final = 86_400_000_000_000
_MICROSECOND_NS: Final = 1_000

_COARSE_TICK_NS: Final = 100
"""Distance of possible times that shows rounding: clocks tick every 32 or 40 ns at most."""

_MIN_GRID_EVENTS: Final = 30
"""Events whose times on a grid cannot be chance."""

_MAX_WORDS, _MAX_WORD_LENGTH = 5, 40
"""Categories and phases that a message names, and characters of each."""


def stray_times(trace: Trace) -> Iterator[Note]:
    """Events so far from all others that their time cannot be: 0, null or damaged among times since 1970."""
    count = len(stray(trace))
    if count:
        message = f"{number_of(count, 'event lies', 'events lie')} over a day from the middle of the recording (the "
        message += "time is 0, missing or damaged): left out of all questions."
        yield Note("STRAY_TIMES", message, "warning", count)


def unknown_events(trace: Trace) -> Iterator[Note]:
    """Events of categories or phases that no question counts."""
    unknown = (trace.kind == EventKind.OTHER) & (trace.ph != END)
    unknown[stray(trace)] = False
    rows = np.flatnonzero(unknown)
    if len(rows):
        spans = np.isin(trace.ph[rows], SPANS)
        words = [trace.strings.label(code) or "none" for code in np.unique(trace.category[rows[spans]]).tolist()]
        words += [f"phase {chr(phase) if phase else 'none'}" for phase in np.unique(trace.ph[rows[~spans]]).tolist()]
        message = f"{number_of(len(rows), 'event is', 'events are')} of no category or phase that is known "
        message += f"({some_of(words)}): "
        yield Note("UNKNOWN_EVENTS", f"{message}no question counts them.", "note", len(rows))


def empty_keys(trace: Trace) -> Iterator[Note]:
    """Counters whose value has no name of its own."""
    samples = counters(trace)
    rows = samples.rows[samples.key == trace.strings.code("")]
    if len(rows):
        named = some_of(trace.strings.labels(np.unique(trace.name[rows]).tolist()))
        message = f"{number_of(len(rows), 'sample')} of counters ({named}) stand under an empty key: the name counts."
        yield Note("EMPTY_KEYS", message, "note", len(rows))


def negative_durations(trace: Trace) -> Iterator[Note]:
    """Events that end before they start."""
    count = int(np.count_nonzero(trace.end < trace.start))
    if count:
        message = (
            f"{number_of(count, 'event ends before it starts', 'events end before they start')}: counted as empty."
        )
        yield Note("NEGATIVE_DURATIONS", message, "warning", count)


def impossible_durations(trace: Trace) -> Iterator[Note]:
    """Events over a day long, and device work longer than all that was recorded besides."""
    duration = trace.end - trace.start
    impossible = duration > _DAY_NS
    work = device_work(trace)
    # Work no longer than the distance of the first and the last start is possible, which is nearly always so.
    if len(work) and int(work.duration.max()) > int(work.start.max() - work.start.min()):
        host = call_tree(trace).order
        host = host[~impossible[host]]
        window = int(trace.end[host].max() - trace.start[host].min()) if len(host) else _DAY_NS
        impossible[work.rows] |= work.duration > max(window, int(work.start.max() - work.start.min()))
    count = int(np.count_nonzero(impossible))
    if count:
        message = f"{number_of(count, 'event lasts', 'events last')} longer than the recording itself, up to "
        message += f"{duration_text(int(duration[impossible].max()))}: sums that hold them are wrong."
        yield Note("IMPOSSIBLE_DURATIONS", message, "warning", count)


def grid_of_times(trace: Trace) -> Iterator[Note]:
    """Times that are all multiples of something: whole microseconds, or the steps of a float64 of that size."""
    start = trace.start[np.isin(trace.kind, (EventKind.METADATA, EventKind.OTHER), invert=True)]
    step = _common_step(start - start[0]) if len(start) >= _MIN_GRID_EVENTS else 1
    if step % _MICROSECOND_NS == 0 and step:
        work = device_work(trace)
        none = int(np.count_nonzero(work.duration == 0))
        what = f"; {none:,} of {len(work):,} pieces of device work seem to take no time" if none else ""
        yield Note("WHOLE_MICROSECONDS", f"Times are whole microseconds{what}.", "note", len(start))
    elif step >= _COARSE_TICK_NS:
        message = (
            f"All times are multiples of {step} ns: a program that kept them as floating-point numbers has rounded "
        )
        message += "them, and neighbours may seem to overlap by as much."
        yield Note("COARSE_TIMES", message, "warning", len(start))


def _common_step(times: Int64s) -> int:
    """Greatest common divisor of all times; 1 as soon as that is certain, nearly always after a few."""
    step = int(np.gcd.reduce(times[:: len(times) // _MIN_GRID_EVENTS]))
    while step > 1:
        rest = times % step
        odd = np.flatnonzero(rest)
        if not len(odd):
            return step
        step = math.gcd(step, int(rest[odd[0]]))
    return 1 if step == 1 else int(np.gcd.reduce(times))


def overlapping_work(trace: Trace) -> Iterator[Note]:
    """Device work that starts before the work before it on its stream is over."""
    work = device_work(trace)
    streams, _ = group(work.device, work.stream)
    order = np.lexsort((work.end, work.start, streams))
    start, end = work.start[order], work.end[order]
    borders = np.flatnonzero(np.diff(streams[order], prepend=-1, append=-1))
    count = twice = 0
    for low, high in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        reach = np.maximum.accumulate(end[low : high - 1])
        common = np.minimum(reach, end[low + 1 : high]) - start[low + 1 : high]
        count += int(np.count_nonzero(common > 0))
        twice += int(common[common > 0].sum())
    if count:
        starts = "starts" if count == 1 else "start"
        message = f"{pieces_of_work(count)} {starts} while earlier work still runs on the same stream: "
        message += f"sums of durations count {duration_text(twice)} twice ({share_of_device_time(twice, work)})."
        yield Note("OVERLAPPING_WORK", message, severity_of(twice, work), count)


def partial_overlap(trace: Trace) -> Iterator[Note]:
    """Host calls that overlap another one of their thread without lying inside it, and what the call tree loses."""
    count = call_tree(trace).partial
    if not count:
        return
    work = device_work(trace)
    spent = int(work.duration[_launched_in_pieces(trace, work)].sum())
    message = (
        f"{number_of(count, 'host call ends', 'host calls end')} after a call that began before: the shorter piece of "
    )
    message += "the two is cut off. "
    if spent:
        message += f"{duration_text(spent)} of device work ({share_of_device_time(spent, work)}) was launched in such "
        message += "pieces, and counts to one of the two calls only."
    else:
        message += "No device work was launched in such a piece."
    yield Note("PARTIAL_OVERLAP", message, severity_of(spent, work), count)


def _launched_in_pieces(trace: Trace, work: DeviceWork) -> Bools:
    """Work that was launched in a piece of a call that the call tree cuts off: bool [work]."""
    calls = call_tree(trace)
    track, start, end = trace.track[calls.cut], calls.cut_at, trace.end[calls.cut]
    order, offsets = track_order(track, start, end, tracks=len(trace.tracks))
    cut_pieces = nest(start, end, order, offsets, cut=Cut.EARLIER)
    linked = np.flatnonzero(work.launch >= 0)
    launch = work.launch[linked]
    in_pieces = np.zeros(len(work), np.bool_)
    at = trace.track[launch], trace.start[launch]
    in_pieces[linked] = enclosing(order, offsets, start, cut_pieces.until, cut_pieces.parent, *at) >= 0
    return in_pieces


def unlinked_work(trace: Trace) -> Iterator[Note]:
    """Device work without a recorded launch, and whether it was launched before the recording began."""
    work = device_work(trace)
    if len(work) and not np.any(arguments.integers(trace, "correlation", work.rows) > 0):
        message = (
            f"None of {pieces_of_work(len(work))} carries a correlation id: launches, delays and queues are unknown."
        )
        yield Note("NO_CORRELATION", message, "warning", len(work))
        return
    unlinked = work.launch < 0
    count = int(np.count_nonzero(unlinked))
    if not count:
        return
    early = int(np.count_nonzero(_before_linked(work) & unlinked))
    unknown = int(np.count_nonzero(work.op[unlinked] < 0))
    spent = int(work.duration[unlinked].sum())
    message = (
        f"{count:,} of {pieces_of_work(len(work))} ({share_of_device_time(spent, work)}) have no recorded launch; "
    )
    if not len(trace.rows(EventKind.RUNTIME)):
        message += "no call of the runtime was recorded. "
    elif early:
        message += f"{early:,} of them run before all others of their stream, so they were launched before the "
        message += "recording began. "
    message += f"{unknown:,} count to no operator."
    yield Note("UNLINKED_WORK", message, severity_of(spent, work), count)


def _before_linked(work: DeviceWork) -> Bools:
    """Work that starts before the first piece of its stream with a known launch: bool [work]."""
    streams, first_of = group(work.device, work.stream)
    never = np.iinfo(np.int64).min
    first = np.full(len(first_of), np.iinfo(np.int64).max)
    linked = work.launch >= 0
    np.minimum.at(first, streams[linked], work.start[linked])
    first[first == np.iinfo(np.int64).max] = never  # a stream without any launch tells nothing
    return np.asarray(work.start < first[streams])


def no_device_number(trace: Trace) -> Iterator[Note]:
    """Device work of which nobody can say on which device it ran."""
    work = device_work(trace)
    count = int(np.count_nonzero(work.device < 0))
    if count:
        message = f"{count:,} of {pieces_of_work(len(work))} do not say on which device; they are shown as device −1."
        yield Note("NO_DEVICE_NUMBER", message, "warning", count)


def note_of_gaps(trace: Trace) -> Note | None:
    """The note on idle time if the recording may have made gaps inside replays; None if not."""
    gaps = replay_gaps(trace)
    if not gaps.are_suspect:
        return None
    return Note(
        "GAPS_IN_REPLAYS",
        f"Between the kernels of replayed graphs the device idles for {duration_text(gaps.median)} (median),"
        f" {gaps.total / gaps.span:.0%} of the time of the replays. A replay needs nothing of the host there, and"
        f" devices start the next kernel within {duration_text(MAX_MEDIAN_NS)}: the recording may make these gaps"
        " itself. Time a step without the profiler before you act on that idle time.",
        number=gaps.count,
    )


def gaps_in_replays(trace: Trace) -> Iterator[Note]:
    """Gaps between the kernels of replays that a device does not need: the recording may make them."""
    if note := note_of_gaps(trace):
        yield note


def graphs(trace: Trace) -> Iterator[Note]:
    """Launches of more than one piece of device work."""
    work = device_work(trace)
    linked = work.launch >= 0
    _, place, counts = np.unique(work.launch[linked], return_inverse=True, return_counts=True)
    several = counts[counts > 1]
    if len(several):
        known = int(np.count_nonzero((counts[place] > 1) & (work.captured[linked] >= 0)))
        message = (
            f"{number_of(len(several), 'launch', 'launches')} started {pieces_of_work(int(several.sum()))}, up to "
        )
        message += f"{several.max():,} each: graphs, as a rule. Their work is linked to that launch"
        if known:
            message += f", and {known:,} of its pieces to the operators that it was captured in."
        else:
            message += " and not to operators of its own"
            message += "; a capture trace (--capture) has these." if replays_graphs(trace) else "."
        yield Note("GRAPHS", message, "note", len(several))


def unfinished(trace: Trace) -> Iterator[Note]:
    """Spans that were open when the recording ended; on instants of memory the mark means nothing."""
    cut = (arguments.kinds(trace, "finished") == FALSE) & (trace.kind != EventKind.MEMORY)
    count = int(np.count_nonzero(cut))
    if count:
        message = f"{number_of(count, 'span was', 'spans were')} open when the recording ended, and cut off there."
        yield Note("UNFINISHED", message, "note", count)


def kernel_replay(trace: Trace) -> Iterator[Note]:
    """Kernels of which hardware counters were read, for which they are replayed or run one by one."""
    count = int(np.count_nonzero(trace.kind == EventKind.COUNTER_RANGE))
    if count:
        message = f"Hardware counters were read of {number_of(count, 'kernel')}: times are not those of a normal run."
        yield Note("KERNEL_REPLAY", message, "warning", count)


# --- words


def some_of(words: Sequence[str]) -> str:
    """The first few words, each cut to a length that a sentence bears."""
    return ", ".join([word[:_MAX_WORD_LENGTH] for word in words[:_MAX_WORDS]] + ["…"] * (len(words) > _MAX_WORDS))


def pieces_of_work(count: int) -> str:
    """`1 piece of device work`."""
    return number_of(count, "piece of device work", "pieces of device work")


def share_of_device_time(spent: int, work: DeviceWork) -> str:
    """The share of a time in the device time, as text."""
    total = int(work.duration.sum())
    return f"{spent / total:.1%} of the device time" if total else "no device time"


def severity_of(spent: int, work: DeviceWork) -> Severity:
    """A warning for more than 1 % of the device time, else a note."""
    return "warning" if spent > _WARNING_SHARE * int(work.duration.sum()) else "note"
