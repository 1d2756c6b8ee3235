"""Distributed: who waits for whom, and why; what the network delivers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.text import listed
from kinetoscope.pages.blocks import (
    Block,
    ChartBlock,
    ColumnsBlock,
    Link,
    NoteBlock,
    Page,
    Part,
    Stack,
    TableBlock,
)
from kinetoscope.pages.pictures.charts import POINTS, Axis, Dot, heat, points
from kinetoscope.pages.sections.tables import with_values
from kinetoscope.pages.sentences.steps import who_waits
from kinetoscope.schema import Result
from kinetoscope.views.charts.chart import specification
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.sentences import EMPTY, Sentence, greatest, join, say
from kinetoscope.views.text import printable

_ROWS: Final = 64
"""Rows and columns of a picture; of more ranks or steps, neighbours share one."""

_KINDS: Final = {
    "computation": ("computation", "Computation"),
    "overlap": ("runtime", "Communication, hidden"),
    "exposed_transfer": ("communication", "Communication, exposed"),
    "exposed_waiting": ("waiting", "Waiting for other ranks"),
    "split_unknown": ("communication", "Communication, exposed, split unknown"),
    "exposed_memory": ("memory", "Copies"),
    "other": ("idle", "Nothing to run"),
}
"""Parts of a rank's step, each with its kind of time and its words."""

_PALE: Final = {"exposed_waiting": 0.35}
"""Parts that are paler than their kind: those who wait must not be seen before those whom they wait for."""

_LATE_COLLECTIVES: Final = "late collectives"

_RANKS: Final = 5
"""Ranks that have a colour of their own among the late ones."""

_LATE_COLUMNS: Final = (
    "rank",
    "step",
    "kind",
    "process_group",
    "start",
    "late",
    "lost",
    "cause",
    "charged_to",
    "straggler",
)

_SPLIT_UNKNOWN_DOC: Final = (
    "Communication and no computation; how much of it is waiting is unknown without the other ranks."
)


_SAID: Final = ("STRAGGLERS", "NO_COLLECTIVES")
"""Codes of notes that the sentence, or another note, says."""


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of how the ranks work together."""
    del params
    questions = ("stragglers", "rank_balance", "collectives", "overlap", "kernel_spread")
    results = {name: named(name)(job, select=select) for name in questions}
    results[_LATE_COLLECTIVES] = named("stragglers")(job, select=select, by="collective")
    ranks = len(job.ranks)
    return Page(
        "distributed",
        "Distributed",
        _sentence(results, ranks),
        (f"{grouped(ranks)} rank{'s' * (ranks > 1)}", *_groups(results["collectives"])),
        tuple(_blocks(results)),
        tuple(dict.fromkeys(note for each in results.values() for note in each.notes if note.code not in _SAID)),
    )


def _groups(collectives: Result) -> Iterator[str]:
    calls = collectives.frame.get_column("calls").sum()
    groups = collectives.frame.get_column("process_group").drop_nulls().n_unique()
    if calls:
        yield f"{grouped(int(calls))} collectives" + (f" in {groups} process groups" if groups > 1 else "")


def _sentence(results: Mapping[str, Result], ranks: int) -> str:
    if ranks > 1:
        return who_waits(results["stragglers"], results["rank_balance"])
    if not results["collectives"].frame.height:
        return "One rank is here, without collectives: it works alone, or they were not recorded."
    return "Only one rank was read: the traces of the others would show what it waited for."


def _blocks(results: Mapping[str, Result]) -> Iterator[Block]:
    balance = results["rank_balance"]
    one = balance.frame.n_unique("rank") < 2
    if balance.frame.height:
        late = results["stragglers"].frame
        stragglers = set(late.filter(pl.col("straggler")).get_column("rank")) if late.height else set()
        yield _of_ranks(balance, stragglers, host=not results["overlap"].frame.height)
        if min(balance.frame.n_unique("rank"), balance.frame.n_unique("step")) > 1:
            yield _waiting(balance)
        yield from _late_collectives(results[_LATE_COLLECTIVES], stragglers)
    if results["collectives"].frame.height:
        yield from _bandwidth(results["collectives"])
    if one:
        yield NoteBlock(
            "Stragglers, steps that start apart and kernels that differ between ranks need other ranks' files."
        )
    else:
        note = "A row leads to the collective in which the others lost most because of that rank."
        yield TableBlock("Stragglers", "stragglers", sort="-lost", links={"rank": "rank", "row": "row"}, note=note)
        yield TableBlock(
            "Late collectives", "stragglers", {"by": "collective"}, _LATE_COLUMNS, sort="-lost",
            links={"rank": "rank", "row": "row"}, note="By the rank that arrived last; a row leads to its event.",
        )  # fmt: skip
    if results["collectives"].frame.height:
        note = "" if one else "Calls, bytes and times are sums over the ranks that took part."
        names = [name for name in results["collectives"].schema.names if name != "rank"]
        columns = with_values(results["collectives"].frame, names)
        yield TableBlock("Collectives", "collectives", columns=columns, sort="-duration", note=note)
        of_groups = [name for name in named("process_groups").schema.names if name != "rank"]
        yield TableBlock("Process groups", "process_groups", columns=of_groups, note=note)
        yield TableBlock("Overlap", "overlap", {"by": "group"})
    if one:
        return
    yield TableBlock("Start of each step", "step_skew", links={"rank": "rank", "step": "step"})
    if results["kernel_spread"].frame.height:
        spec = specification(results["kernel_spread"], width=None)
        note = "A line goes from the shortest call on any rank to the longest; a dot is the mean of a rank."
        yield ChartBlock("The same kernels on all ranks", spec, note=note)
    yield TableBlock(
        "Kernels that differ between ranks", "kernel_spread", sort="-ratio", links={"rank": "rank", "name": "name"}
    )
    yield TableBlock("Devices", "devices", links={"rank": "rank"})


# --- ranks


def _places(numbers: Sequence[int]) -> tuple[dict[int, int], list[str]]:
    """The row of each number, and the words for each row: neighbours share one where there are too many."""
    ordered = sorted(set(numbers))
    rows = min(len(ordered), _ROWS)
    of = {number: place * rows // len(ordered) for place, number in enumerate(ordered)}
    together: list[list[int]] = [[] for _ in range(rows)]
    for number, row in of.items():
        together[row].append(number)
    return of, [listed(members) for members in together]


def _of_ranks(balance: Result, stragglers: Collection[int], *, host: bool) -> ColumnsBlock:
    """The average step of each rank; `host`: no device work was recorded, and operators are the computation."""
    of, words = _places(balance.frame.get_column("rank").to_list())
    waited = pl.col("exposed_waiting")
    rows = balance.frame.with_columns(
        pl.col("exposed_transfer").fill_null(0),
        waited.fill_null(0),
        place=pl.col("rank").replace_strict(of, return_dtype=pl.Int64),
        split_unknown=pl.when(waited.is_null()).then("exposed_communication").otherwise(0),
    )
    means = rows.group_by("place").agg(pl.col(*_KINDS).cast(pl.Float64).mean(), pl.col("rank").first()).sort("place")
    marked = {of[rank] for rank in stragglers if rank in of}
    stacks = [
        Stack(words[place], times, Link(view="overview", rank=rank), mark="straggler" if place in marked else "")
        for place, *times, rank in means.select("place", *_KINDS, "rank").iter_rows()
    ]
    labels = {name: label for name, (_, label) in _KINDS.items()}
    labels |= {"computation": "Operators of the host"} if host else {}
    docs = {name: balance.schema[name].doc for name in _KINDS if name in balance.schema}
    parts = [
        Part(kind, labels[name], 0.0, docs.get(name, _SPLIT_UNKNOWN_DOC), shade=_PALE.get(name, 1.0))
        for name, (kind, _) in _KINDS.items()
    ]
    together = " Neighbours share a column, which is their mean." if len(of) > len(words) else ""
    return ColumnsBlock(
        "The average step of each rank",
        parts,
        stacks,
        note=f"By rank; the others wait for stragglers.{together}" if marked else f"By rank.{together}",
    )


def _waiting(balance: Result) -> ChartBlock:
    frame = balance.frame
    column = "exposed_waiting" if frame.get_column("exposed_waiting").count() else "exposed_communication"
    of_rank, ranks = _places(frame.get_column("rank").to_list())
    of_step, steps = _places(frame.get_column("step").to_list())
    cells = frame.select(
        pl.col("rank").replace_strict(of_rank, return_dtype=pl.Int64),
        pl.col("step").replace_strict(of_step, return_dtype=pl.Int64),
        pl.col(column).cast(pl.Float64),
    )
    values: list[list[float | None]] = [[None] * len(steps) for _ in ranks]
    for rank, step, mean in cells.group_by("rank", "step").agg(pl.col(column).mean()).iter_rows():
        values[rank][step] = mean
    single = len(of_rank) == len(ranks) and len(of_step) == len(steps)
    first_rank = {place: rank for rank, place in reversed(of_rank.items())}
    first_step = {place: step for step, place in reversed(of_step.items())}
    links = [
        [
            Link(view="timeline", rank=first_rank[i], steps=str(first_step[j])) if single else None
            for j in range(len(steps))
        ]
        for i in range(len(ranks))
    ]
    title = "Waiting for other ranks" if column == "exposed_waiting" else "Exposed communication"
    kind = "waiting" if column == "exposed_waiting" else "communication"
    note = f"{balance.schema[column].doc} The rank that waits least is the one for whom the others wait."
    return heat(
        title,
        ranks,
        steps,
        values,
        axes=("rank", "step"),
        unit="ns",
        kind=kind,
        links=links if single else None,
        note=note,
    )


def _late_collectives(late: Result, stragglers: Collection[int]) -> Iterator[ChartBlock]:
    """Each collective that cost something, over time: since when is a rank late, and how late is it?"""
    costly = late.frame.filter(pl.col("lost") > 0).sort("lost", descending=True).head(POINTS)
    if not costly.height:
        return
    totals = costly.group_by("rank").agg(pl.col("lost").sum()).with_columns(named=pl.col("rank").is_in([*stragglers]))
    worst = totals.sort("named", "lost", "rank", descending=[True, True, False])["rank"].head(_RANKS).to_list()
    dots = [
        Dot(
            row["start"],
            row["late"],
            name=_words_of_late(row),
            link=Link(view="timeline", rank=row["rank"], row=row["row"]),
            group=f"rank {row['rank']}" if row["rank"] in worst else "other ranks",
            owner=worst.index(row["rank"]) if row["rank"] in worst else _RANKS,
        )
        for row in costly.sort("start").iter_rows(named=True)
    ]
    doc = "Each collective in which the others lost time, by the rank that arrived last; a dot leads to its event."
    yield points("Who is late, and since when", dots, Axis("time", "ns"), Axis("late", "ns"), note=doc)


def _words_of_late(row: Mapping[str, Any]) -> str:
    why = f" ({row['cause']})" if row["cause"] else ""
    step = "" if row["step"] is None else f" of step {row['step']}"
    return f"{row['kind']}{step}: rank {row['rank']} is last, the others lose {shown(row['lost'], 'ns')}{why}"


# --- the network


def _bandwidth(collectives: Result) -> Iterator[ChartBlock]:
    known = pl.col("bus_bandwidth").is_finite() & (pl.col("bus_bandwidth") > 0) & (pl.col("bytes") > 0)
    rows = collectives.frame.filter(known).sort("bytes").head(POINTS)
    if not rows.height:
        return
    dots = [
        Dot(size, bandwidth, "communication", ", ".join(filter(None, (
            f"{kind}, {calls} call{'' if calls == 1 else 's'}",
            f"{shown(efficiency, 'fraction')} of its links" if efficiency is not None else "",
            printable(group or ""),
        ))))
        for size, bandwidth, kind, calls, group, efficiency in rows.select(
            "bytes", "bus_bandwidth", "kind", "calls", "process_group", "efficiency"
        ).iter_rows()
    ]  # fmt: skip
    seen = rows.group_by("bytes").agg(pl.col("bus_bandwidth").max()).sort("bytes")
    best = [Dot(size, bandwidth) for size, bandwidth in seen.iter_rows()] if seen.height > 1 else []
    size, speed = Axis("size", "bytes", log=True), Axis("bus bandwidth", "bytes/s", log=True)
    note = join(
        [
            f"{collectives.schema['bus_bandwidth'].doc} The dashed line joins the best of each size.",
            _of_links(collectives, known),
        ]
    )
    yield points("Bandwidth by size of the message", dots, size, speed, best=best, note=note)


def _of_links(collectives: Result, known: pl.Expr) -> Sentence:
    """How near the best comes to the peak of its links; "" where that is unknown."""
    share = greatest(collectives, "efficiency", known)
    if share.value is None:
        return EMPTY
    peak = greatest(collectives, "link_bandwidth", known, pl.col("efficiency") == share.number)
    return say("The best reaches {share} of the {peak} that these links do at most.", share=share, peak=peak)
