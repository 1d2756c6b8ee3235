"""Where the next thing begins that can be believed, in text that is broken: an event, a member, the end of the events.

All searches are linear in the size of the buffer.
"""

from __future__ import annotations

import re
from typing import Final

Buffer = bytes | bytearray | memoryview

TOP_LEVEL_KEYS: Final = frozenset(
    b"schemaVersion deviceProperties displayTimeUnit baseTimeNanoseconds traceEvents traceName distributedInfo "
    b"record_shapes with_stack profile_memory with_modules with_flops trace_id group_trace_id host_name username "
    b"cupti_version cuda_runtime_version cuda_driver_version hip_runtime_version hip_driver_version roctracer_version "
    b"INFO WARNING ERROR STAGE DISABLE_CUPTI_LAZY_REINIT metadata otherData stackFrames samples".split()
)
"""Keys that PyTorch and the Chrome format write beside `traceEvents`."""

_WS = rb"[ \t\n\r]*+"
_KEY = rb'"([^\s,:{}\[\]"\\][^"\\\n]*+)"' + _WS + b":"
_SEAM = re.compile(
    rb"(\A|[^ \t\n\r])" + _WS + rb"(\{)" + _WS + b'"(ph|cat|name|ts|dur|pid|tid|args|id|s|bp)"' + _WS + b":"
)
_PH = re.compile(rb"(\{" + _WS + b')?"ph"' + _WS + b":")
_END = re.compile(rb"([^ \t\n\r])" + _WS + rb"(\])" + _WS + rb"(?:," + _WS + _KEY + rb"|\}" + _WS + rb"\Z|\Z)")
_MEMBER = re.compile(rb"([^ \t\n\r])([ \t\n\r]*+)(" + _KEY + b")")


def next_event(buffer: Buffer, after: int) -> int:
    """Offset of the next `{` behind `after` that begins an event, -1 if there is none in the buffer.

    An event begins with "ph", or stands in a list, begins with another key of events and has its "ph" further on:
    a list of objects among the arguments of the broken event looks the same, but has none.
    """
    ph: re.Match[bytes] | None = None
    searched = False
    for seam in _SEAM.finditer(buffer, max(after, 0)):
        if seam.start(2) <= after or seam[1] == b":":
            continue
        if seam[3] == b"ph":
            return seam.start(2)
        if seam[1] not in (b",", b"[", b""):
            continue
        if not searched or (ph and ph.start() < seam.end()):
            ph, searched = _PH.search(buffer, seam.end()), True
        if ph and ph[1] is None:
            return seam.start(2)
    return -1


def end_of_events(buffer: Buffer, after: int, *, final: bool = False) -> int:
    """Offset of the `]` behind `after` that ends the list of events, -1 if it is not known to be in the buffer.

    Unless `final`, only the end of an object, a `]` and a key of `TOP_LEVEL_KEYS` prove it. `final` says that the input
    ends where the buffer ends and that no event follows (`next_event` found none); then the likeliest place is taken: a
    `]` that ends the input, or that any key follows.
    """
    best, best_rank = -1, 0
    for end in _END.finditer(buffer, max(after, 0)):
        if end.start(2) <= after:
            continue
        known = end[3] in TOP_LEVEL_KEYS or (end[3] is None and final)
        complete = end[1] in (b"}", b"[")  # the event before it is
        rank = 3 if known and complete else 2 if complete else 1 if known else 0
        if rank > best_rank and (final or rank == 3):
            best, best_rank = end.start(2), rank
        if best_rank == 3:
            break
    return best


def next_member(buffer: Buffer, after: int) -> int:
    """Offset of the next top-level `"key":` behind `after`, -1 if there is none in the buffer.

    It stands behind a comma or at the start of a line, and outside brackets opened since `after`, or is one of
    `TOP_LEVEL_KEYS`.
    """
    view = memoryview(buffer)
    seen, depth = max(after, 0), 0
    for member in _MEMBER.finditer(view, seen):
        start = member.start(3)
        if start <= after or not (member[1] == b"," or b"\n" in member[2]):
            continue
        skipped = bytes(view[seen:start])
        depth += sum(map(skipped.count, (b"{", b"["))) - sum(map(skipped.count, (b"}", b"]")))
        seen = start
        if depth <= 0 or member[4] in TOP_LEVEL_KEYS:
            return start
    return -1
