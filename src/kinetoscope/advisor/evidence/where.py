"""Where to look: evidence that is an event, with its time and, where Python stacks were recorded, its source line."""

from __future__ import annotations

from kinetoscope.advisor.evidence.source_location import source_of
from kinetoscope.advisor.finding import Evidence
from kinetoscope.advisor.rule import RankView


def seen(look: RankView, row: int, text: str, analysis: str = "", **params: str) -> Evidence:
    """An event as evidence: `text` says what is to be seen there."""
    trace = look.trace
    source = source_of(trace, row)
    start, end = look.shown(trace.start[row], max(trace.end[row], trace.start[row]))
    return Evidence(
        text,
        analysis,
        params,
        start=start,
        end=end,
        row=row,
        file=source.file or "",
        line=source.line or 0,
    )
