"""Everything about one event, as the panel beneath the timeline shows it."""

from __future__ import annotations

import json
from typing import Any, Final

from kinetoscope.model.timeline.event import Arrow, Details, End, details
from kinetoscope.model.timeline.layout import lane_of, timeline
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import MissingError

_DEEPEST: Final = 20
"""Levels of nested arguments that are shown as such; what is deeper is text."""


def event_answer(trace: Trace, row: int, steps_by: str | None = None) -> dict[str, Any]:
    """The event at a row of the trace.

    Raises:
        MissingError: it is not drawn in the timeline.
    """
    if timeline(trace).layer[row] < 0:
        raise MissingError(f"event {row} is not in the timeline", "It is a name, a flow, a counter or memory.")
    found = details(trace, row, steps_by)
    return {
        "row": row,
        "name": found.name,
        "category": found.category,
        "kind": found.kind,
        "lane": _lane(trace, row),
        "depth": found.depth,
        "start": found.start,
        "end": found.end,
        "duration": found.duration,
        "self": found.own,
        "step": found.step,
        "arguments": {key: _shallow(value, _DEEPEST) for key, value in found.arguments.items()},
        "stack": [{"name": frame.name, "file": frame.file, "line": frame.line} for frame in found.around.stack],
        "stack_note": _stack_note(found),
        "module": found.around.module or None,
        "parent": _known(found.parent),
        "launched": list(found.launched),
        "launched_by": _known(found.launched_by),
        "forward": _known(found.forward),
        "backward": _known(found.backward),
        "device_total": found.device_total,
        "device_kernels": found.device_kernels,
        "launch_delay": found.launch_delay,
        "same": {
            "calls": found.same.calls,
            "per_step": found.same.per_step,
            "total": found.same.total,
            "share": found.same.share,
            "on_device": found.same.on_device,
        },
        "arrows": [_arrow(trace, arrow) for arrow in found.arrows],
    }


def _known(row: int) -> int | None:
    return row if row >= 0 else None


def _lane(trace: Trace, row: int) -> str | None:
    lane = lane_of(trace, row)
    return lane.id if lane else None


def _stack_note(found: Details) -> str:
    if found.around.stack and found.around.of_forward:
        return "From the forward pass: the backward pass runs without a Python stack."
    return "" if found.around.stack else "No stack was recorded here (with_stack=True records them)."


def _arrow(trace: Trace, arrow: Arrow) -> dict[str, Any]:
    return {"from": _end(trace, arrow.start), "to": _end(trace, arrow.end), "kind": arrow.kind}


def _end(trace: Trace, end: End) -> dict[str, Any]:
    depth = int(timeline(trace).depth[end.row])
    return {"row": end.row, "lane": _lane(trace, end.row), "depth": depth, "time": end.time}


def _shallow(value: Any, levels: int) -> Any:
    if isinstance(value, (dict, list)) and not levels:
        try:
            return json.dumps(value)
        except RecursionError:
            return "…"
    if isinstance(value, dict):
        return {key: _shallow(each, levels - 1) for key, each in value.items()}
    return [_shallow(each, levels - 1) for each in value] if isinstance(value, list) else value
