"""Windows of a run that show its changes, and what is different in them: the operator or kernel that a sentence names.

Compared are the last window before a change and the first one after it, of a rank that has it. Numbers of a window are
sums over a step, in which a call counts with what it calls: of those that grew by about as much the smallest is named,
which is the innermost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.schema import Column, Schema

WINDOWS: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the first step that it recorded."),
    Column("file", pl.String, "Name of its trace."),
    Column("reason", pl.String, "Why it was opened."),
    Column("change", pl.Int64, "Number of the change that it shows, as the first whose numbers are known; else null."),
    Column("spike", pl.Int64, "Number of the spikes of which it recorded one; null where it recorded none."),
    Column("before_file", pl.String, "The trace of the last window before the change; null where there is none."),
    Column("shows", pl.String, "Operator or kernel whose time differs most from that window; null where none does."),
    Column("before", pl.Float64, "Its time in a step of that window.", "ns"),
    Column("after", pl.Float64, "Its time in a step of this one.", "ns"),
)
"""The windows of a run, by step and rank."""

WindowNumbers = Callable[[str], Mapping[str, float] | None]
"""A function that gives the mean of each metric in a step of a window, ns, by `op:NAME` and `kernel:NAME`, if known."""

_TRIED: Final = 4
"""Windows on each side of a change of which numbers are asked for, at most: some are gone."""

_PREFIXES: Final = ("op:", "kernel:")

_SHOWN_SHARE_OF_CHANGE: Final = 0.25
"""Share of a change by which something differs that explains it."""

_INNERMOST_SHARE: Final = 0.8
"""Share of the greatest difference that what it calls has, if it is in there."""


def windows_of(
    marks: pl.DataFrame,
    changes: pl.DataFrame,
    spikes: pl.DataFrame,
    events: pl.DataFrame,
    numbers: WindowNumbers,
    *,
    steps: int = 3,
) -> pl.DataFrame:
    """The rows of WINDOWS.

    Args:
        marks: of MARKS.
        changes: of CHANGES.
        spikes: of SPIKES.
        events: of `spike_events`: step, cause, part.
        numbers: of a window, by the name of its file.
        steps: how many a window records.
    """
    windows = marks.filter(kind="window").sort("step", "rank")
    rows = [
        {
            "rank": each["rank"],
            "step": each["step"],
            "file": each["detail"],
            "reason": each["reason"],
            "spike": _spike(each["step"], each["step"] + steps, spikes, events),
        }
        for each in windows.iter_rows(named=True)
    ]
    for change in changes.iter_rows(named=True):
        earlier, later = _around(rows, change)
        (before, old), (after, new) = _known(earlier, numbers), _known(later, numbers)
        if after is not None and after.get("change") is None:
            after["change"] = change["number"]
            if before is not None:
                after["before_file"] = before["file"]
                after |= _difference(change, old, new)
    return WINDOWS.frame([dict.fromkeys(WINDOWS.names) | row for row in rows])


def _spike(first: int, until: int, spikes: pl.DataFrame, events: pl.DataFrame) -> int | None:
    """The number of the spikes of which one is in these steps."""
    for cause, part in events.filter(pl.col("step").is_between(first, until - 1)).select("cause", "part").iter_rows():
        group = spikes.filter(
            pl.col("cause").fill_null("") == (cause or ""),
            pl.col("part").fill_null("") == (part or ""),
            pl.col("first") < until,
            pl.col("last") >= first,
        )
        if group.height:
            return int(group["number"][0])
    return None


def _around(
    rows: Sequence[dict[str, Any]], change: Mapping[str, Any]
) -> tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]:
    """The windows before a change, the last one first, and those after it, of a rank that has it."""
    first = re.match(r"\d+", change["who"] or "")
    ranks = [change["rank"], int(first[0]) if first else None, *sorted({row["rank"] for row in rows})]
    rank = next((each for each in ranks if each is not None and any(row["rank"] == each for row in rows)), None)
    own = [row for row in rows if row["rank"] == rank]
    after = [row for row in own if change["step"] <= row["step"] <= change["until"]]
    if change["kind"] != "shift":  # it has no place: its beginning and its end are compared
        return after[:1], after[:0:-1]
    return [row for row in reversed(own) if row["step"] < change["step_low"]], after


def _known(
    rows: Sequence[dict[str, Any]], numbers: WindowNumbers
) -> tuple[dict[str, Any] | None, Mapping[str, float] | None]:
    """The first window of which numbers are known, with these; else the first one."""
    for row in rows[:_TRIED]:
        if values := numbers(row["file"] or ""):
            return row, values
    return (rows[0] if rows else None), None


def _difference(
    change: Mapping[str, Any], before: Mapping[str, float] | None, after: Mapping[str, float] | None
) -> dict[str, Any]:
    """The operator or kernel that differs most in the direction of a change."""
    if not before or not after or change["before"] is None:
        return {}
    size = change["after"] - change["before"]
    grown = {
        name: (after.get(name, 0.0) - before.get(name, 0.0)) / size
        for name in {**before, **after}
        if name.startswith(_PREFIXES) and size
    }
    most = max(grown.values(), default=0.0)
    if most < _SHOWN_SHARE_OF_CHANGE:
        return {}
    name = min(
        (each for each, share in grown.items() if share >= _INNERMOST_SHARE * most),
        key=lambda each: (max(before.get(each, 0.0), after.get(each, 0.0)), each),
    )
    return {
        "shows": name.partition(":")[2],
        "before": before.get(name, 0.0),
        "after": after.get(name, 0.0),
    }
