"""Where to look: evidence that is an event, with its time and, where Python stacks were recorded, its source line."""

from __future__ import annotations

import numpy as np

from kinetoscope.advisor.finding import Evidence
from kinetoscope.advisor.rule import RankView
from kinetoscope.model import arguments
from kinetoscope.model.calltree import call_tree
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.stacks import DEEPEST, SEPARATOR, Source, frame_text, user_source
from kinetoscope.model.trace import Trace


def source_of(trace: Trace, row: int) -> Source:
    """The line of the user's own code that an event of the host was called from; nothing where that is not known.

    Found by climbing from the one event, where `model.stacks.call_stacks` puts together those of all.
    """
    parent = trace.of(call_tree).parent
    for _ in range(DEEPEST):
        if row < 0:
            break
        if trace.kind[row] == EventKind.PYTHON:
            stack = frame_text(trace.strings.label(int(trace.name[row])))
        else:
            code = int(arguments.codes(trace, "call_stack", np.array([row], np.int32))[0])
            stack = SEPARATOR.join(reversed(trace.strings.label(code).split(SEPARATOR))) if code >= 0 else ""
        if stack and (source := user_source(stack)).file is not None:
            return source
        row = int(parent[row])
    return Source(None, None, None)


def seen(look: RankView, row: int, text: str, analysis: str = "", **params: str) -> Evidence:
    """An event as evidence: `text` says what is to be seen there."""
    trace = look.trace
    source = source_of(trace, row)
    return Evidence(
        text,
        analysis,
        params,
        start=int(trace.start[row]) - look.origin,
        end=int(max(trace.end[row], trace.start[row])) - look.origin,
        row=row,
        file=source.file or "",
        line=source.line or 0,
    )
