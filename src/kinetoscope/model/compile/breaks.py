"""Graph breaks: the places in the source that the log names, and the calls of compiled code that they part."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, union
from kinetoscope.model.compile.log import GRAPH_BREAK, LogEntry, first_line, log_entries
from kinetoscope.model.compile.regions import (
    RESUMED,
    TimeBetweenPieces,
    compiled_regions,
    compiler_spans,
    time_between_pieces,
)
from kinetoscope.model.execution.call_tree import enclosing_frame
from kinetoscope.model.execution.frames import frame_text, user_source
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class BreakSite:
    """A place in the source at which a graph breaks.

    Attributes:
        file, line, function: the place; "" and None where the log does not say.
        code: the text of the line.
        reason: torch's, in a line.
        explanation, hint: what it adds to that.
        is_skipped: nothing of the function is compiled, as torch could not go on behind the break.
    """

    file: str
    line: int | None
    function: str
    code: str
    reason: str
    explanation: str = ""
    hint: str = ""
    is_skipped: bool = False


UNKNOWN_SITE: Final = BreakSite("", None, "", "", "")

_BREAK: Final = re.compile(r"Graph break in user code at (.+):(\d{1,9})\n(?:Graph Break )?Reason: (.*)")
_FRAME: Final = re.compile(r'  File "([^"\n]+)", line (\d{1,9}), in ([^\n]+)\n    ([^\n]*)')
_RAISED: Final = re.compile(r"^[\w.]*(?:Unsupported|UserError|Error|Exception|Skip\w*): (.+)", re.MULTILINE)
_INTRODUCTIONS: Final = ("Encountered graph break when attempting to trace", "Failed to handle graph break gracefully")
"""How torch 2.11 and newer begins: the reason follows."""

_SKIPS: Final = "Skipping the function"
_TRACEBACK: Final = "\nTraceback (most recent call last):\n"


def sites_of_log(entries: Iterable[LogEntry]) -> dict[BreakSite, tuple[str, ...]]:
    """The places of the graph breaks of a log, and the compilations that broke there.

    Of several breaks of a compilation the last counts: it was begun anew after the others.
    """
    last = {entry.compile_id: break_site(entry.payload) for entry in entries if entry.name == GRAPH_BREAK}
    sites: dict[BreakSite, tuple[str, ...]] = {}
    for compile_id, site in last.items():
        if site is not None:
            sites[site] = (*sites.get(site, ()), compile_id)
    return sites


def break_site(payload: str) -> BreakSite | None:
    """The graph break that a record describes; None where it says nothing that is known here."""
    before, _, raised = payload.partition(_TRACEBACK)
    frames = _FRAME.findall(before)
    at = _BREAK.search(before)
    if at is None and not frames:
        return None
    file, line, function, code = frames[-1] if frames else ("", "", "", "")
    if at is not None:
        if (file, line) != (at[1], at[2]):
            function = code = ""
        file, line = at[1], at[2]
    error = list(_RAISED.finditer(raised))
    reason = at[3] if at is not None else error[-1][1] if error else before.partition("\n")[0]
    skips = at is None or _SKIPS in reason
    if reason.startswith(_INTRODUCTIONS):
        reason = next((line for line in before[at.end() if at else 0 :].split("\n") if line.strip()), reason)
    text = before if at is not None else raised
    return BreakSite(
        file,
        int(line) if line.isdecimal() else None,
        function,
        code.strip(),
        first_line(reason),
        _labelled(text, "Explanation"),
        _labelled(text, "Hint"),
        is_skipped=skips,
    )


def _labelled(text: str, label: str) -> str:
    match = re.search(rf"^\s*{label}: (.+)", text, re.MULTILINE)
    return first_line(match[1]) if match else ""


# --- in the trace


@dataclass(frozen=True)
class BrokenCalls:
    """The times between the pieces of broken graphs, and the place in the source of each.

    Attributes:
        between: the times.
        time: int64 [times], their lengths less what the compiler took of them, ns.
        call: int32 [times], place in `CompiledRegions` of the call whose graph is broken.
        site: int32 [times], place in `sites`.
        sites: the places in the source; those that the log names first, whether or not they were called.
        compile_ids: of each site the compilations that break there.
    """

    between: TimeBetweenPieces
    time: Int64s
    call: Int32s
    site: Int32s
    sites: tuple[BreakSite, ...]
    compile_ids: tuple[tuple[str, ...], ...]


@derived
def broken_calls(trace: Trace) -> BrokenCalls:
    """The graph breaks of a trace, by what the log says, else by the names of functions that go on behind a break."""
    sites = sites_of_log(log_entries(trace))
    known = {compile_id: site for site, ids in sites.items() for compile_id in ids}
    regions, between = compiled_regions(trace), time_between_pieces(trace)
    call = regions.around[between.region]
    frame = enclosing_frame(trace)[regions.rows[between.region]]
    function = np.where(frame >= 0, trace.name[frame], np.int32(-1)) if len(trace) else frame
    codes, first = group(regions.compile_id[call].astype(np.int64), function.astype(np.int64))
    kinds: list[BreakSite] = []
    for at in first.tolist():
        of_id = int(regions.compile_id[call[at]])
        compile_id = regions.compile_ids[of_id] if of_id >= 0 else ""
        site = known.get(compile_id) or _resumed_site(trace, int(function[at]))
        sites[site] = tuple(dict.fromkeys((*sites.get(site, ()), *filter(None, (compile_id,)))))
        kinds.append(site)
    places = {site: place for place, site in enumerate(sites)}
    site_of = np.array([places[site] for site in kinds], np.int32)[codes]
    return BrokenCalls(between, _less_compiling(trace, between), call, site_of, tuple(sites), tuple(sites.values()))


def _less_compiling(trace: Trace, between: TimeBetweenPieces) -> Int64s:
    """Lengths of the times, ns, less what outermost spans of the compiler on any thread take of them."""
    rows = compiler_spans(trace).rows
    compiling = union(trace.start[rows], trace.end[rows])
    return between.end - between.start - covered(Intervals(between.start, between.end), compiling)


_RESUMED: Final = re.compile(rf"{RESUMED}(.*)_at_(\d{{1,9}})")


def _resumed_site(trace: Trace, name: int) -> BreakSite:
    """The place of a break, by the name of the Python call that goes on behind it; of code −1 it is not known.

    Such as `model.py(20): torch_dynamo_resume_in_forward_at_20`.
    """
    source = user_source(frame_text(trace.strings.label(name))) if name >= 0 else None
    match = _RESUMED.search(source.function or "") if source is not None else None
    if source is None or match is None:
        return UNKNOWN_SITE
    return BreakSite(source.file or "", int(match[2]), match[1], "", "")
