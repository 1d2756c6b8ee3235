"""Which threads of the host only wait: pools that nobody uses, monitors of progress bars, workers without work."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kinetoscope.algorithms.membership import any_of
from kinetoscope.model import arguments
from kinetoscope.model.calltree import call_tree, main_thread, self_times
from kinetoscope.model.device import device_work
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.naming import rows_named
from kinetoscope.model.runtime_calls import WAITS, call_kinds
from kinetoscope.model.trace import Trace

_WAITS: Final = re.compile(
    r"(?:: |<built-in (?:method|function) |<method ')_?(?:wait\w*|acquire\w*|select|poll|sleep|accept|recv\w*)\b"
    r"|\bqueue\.py\(\d+\): get\b"
)
_WORDS: Final = ("wait", "acquire", "select", "poll", "sleep", "accept", "recv", "queue.py")
_MOST: Final = 0.98
"""Share of a thread's own time from which on it does nothing but wait."""


def waiting_tracks(trace: Trace) -> frozenset[int]:
    """The threads that spend all but 2 % of their time in calls that wait. Ask by `trace.of`.

    The main thread, those of the backward pass and those that launch device work are none of them.
    """
    calls = trace.of(call_tree)
    waits = rows_named(trace, lambda name: bool(_WAITS.search(name)), EventKind.PYTHON, holding=_WORDS)
    waits |= any_of(trace.of(call_kinds), WAITS)
    own = np.maximum(trace.of(self_times), 0)
    tracks = len(trace.tracks)
    all_time = np.bincount(trace.track[calls.order], weights=own[calls.order], minlength=tracks)
    waiting = calls.order[waits[calls.order]]
    waited = np.bincount(trace.track[waiting], weights=own[waiting], minlength=tracks)
    launch = trace.of(device_work).launch
    ops = trace.rows(EventKind.HOST_OP)
    backward = ops[arguments.integers(trace, "forward_thread", ops) > 0]
    busy = {trace.of(main_thread), *np.unique(trace.track[launch[launch >= 0]]), *np.unique(trace.track[backward])}
    found = np.flatnonzero((all_time > 0) & (waited >= _MOST * all_time))
    return frozenset(found.tolist()) - {int(track) for track in busy}
