"""Where graphs of torch.compile break, why, and what lies between their pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from kinetoscope.algorithms.grouping import reduce_by, sum_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.compile.breaks import UNKNOWN_SITE, broken_calls
from kinetoscope.model.compile.log import NOTHING_COMPILED, log_entries, no_log
from kinetoscope.model.compile.regions import compiled_regions
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("file", pl.String, "File of the place where the graph breaks; null if unknown."),
    Column("line", pl.Int64, "Its line."),
    Column("function", pl.String, "Its function."),
    Column("code", pl.String, "Text of the line."),
    Column("reason", pl.String, "Why, in torch's words."),
    Column("explanation", pl.String, "What torch adds to it."),
    Column("hint", pl.String, "What torch advises."),
    Column("skipped", pl.Boolean, "Nothing of the function was compiled, as torch could not go on behind the break."),
    Column("compile_ids", pl.String, "Compilations that broke there."),
    Column("calls", pl.Int64, "Calls in the selection that went on in another piece behind it."),
    Column("between", pl.Int64, "Time of the host between the pieces, without compiling.", "ns"),
    Column("longest", pl.Int64, "The longest of these times.", "ns"),
    Column("row", pl.Int64, "Row of the piece behind the longest, among the events of the trace."),
    across={
        "key": "file line function reason",
        "agreed": "code explanation hint skipped compile_ids",
        "sum": "calls between",
        "greatest": "longest",
        "own": "row",
    },
)


def graph_breaks(trace: Trace, select: Selection) -> Partial:
    """Where do the graphs of torch.compile break, why, and how much time passes between their pieces?

    Method. A row for each place that torch's structured log names (see `compilations` for where it comes from), the
    most time first. A compiled region that lies in another one goes on behind a break of that one, whose compile id
    says which break it is. The time between is counted from the end of the graph, or of the region, before it;
    compiling in between does not count. Without the log the place follows from the name of the function that goes on
    (`torch_dynamo_resume_in_forward_at_20`), if Python calls were recorded; else it is unknown.

    How to read it. In between Python runs, the guards of the next piece are checked, and nothing is fused across.
    `torch.compile(fullgraph=True)` raises at each break, `hint` says how it goes away. A skipped function runs as if it
    was never compiled.

    Limits. A break behind which nothing is compiled has no second piece, and so no calls. Graphs of other backends than
    AOTAutograd's and Inductor's leave no span: the time before the next piece is then 0. What a larger graph would gain
    by fusion is not known.
    """
    view, breaks, regions = scope(trace, select), broken_calls(trace), compiled_regions(trace)
    count, site = len(breaks.sites), breaks.site
    after = regions.rows[breaks.between.region]
    chosen = view.host_mask[after]
    gap = np.where(chosen, breaks.time, 0)
    between = reduce_by(site, count, gap)
    _, once = np.unique(breaks.call, return_index=True)
    calls = sum_by(site[once], count, chosen[once].astype(np.int64))
    longest, row = between.greatest, np.full(count, -1, np.int64)
    is_longest = chosen & (gap == longest[site])
    row[site[is_longest]] = after[is_longest]
    rows = [
        (
            site.file or None,
            site.line,
            site.function or None,
            site.code or None,
            site.reason or None,
            site.explanation or None,
            site.hint or None,
            site.is_skipped if site.reason else None,
            ", ".join(breaks.compile_ids[place]) or None,
            int(calls[place]),
            int(between.total[place]),
            int(longest[place]) if calls[place] else None,
            int(row[place]) if calls[place] else None,
        )
        for place, site in enumerate(breaks.sites)
        if site.reason or calls[place]
    ]
    frame = RESULT.per_rank.frame(rows).sort(
        ["between", "file", "line"], descending=[True, False, False], nulls_last=True
    )
    return Partial(frame, tuple(_notes(trace, len(rows))))


ANALYSIS = Analysis("Graph breaks", graph_breaks, RESULT, chart=Bars("line", "between"), of_device_work=False)


def _notes(trace: Trace, count: int) -> Iterator[Note]:
    has_log = bool(log_entries(trace))
    if not count:
        regions = len(compiled_regions(trace).rows)
        none = Note("NO_BREAKS", "No graph break was recorded.")
        yield none if regions or has_log else NOTHING_COMPILED
    elif not has_log:
        yield no_log("reasons are not known")
    elif UNKNOWN_SITE in broken_calls(trace).sites:
        yield Note("BREAKS_WITHOUT_PLACE", "Breaks without a place are of code that was compiled before the log began.")
