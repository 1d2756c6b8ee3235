"""The tree of the calls of a thread, the slow and plain way, for the twins of analyses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Spans = Sequence[tuple[int, int]]


def whole(events: Sequence[dict[str, Any]]) -> tuple[list[int], list[int]]:
    """The place of the call that each lies in as a whole, −1 for none, and until when no longer one begins in each."""
    spans, order = _ordered(events)
    return _nested(spans, order, cuts_earlier=lambda outside, common: True)


def around(events: Sequence[dict[str, Any]]) -> list[int]:
    """The place of the call directly around each, −1 for none."""
    spans, order = _ordered(events)
    frames = [k for k in order if events[k]["cat"] == "python_function"]
    ends = _nested(spans, frames, cuts_earlier=lambda outside, common: False)[1]
    spans = [(start, end) for (start, _), end in zip(spans, ends, strict=True)]
    return _nested(spans, order, cuts_earlier=lambda outside, common: outside > common)[0]


def _ordered(events: Sequence[dict[str, Any]]) -> tuple[list[tuple[int, int]], list[int]]:
    spans = []
    for event in events:
        start = round(event["ts"] * 1000)
        spans.append((start, start + round(event["dur"] * 1000)))
    return spans, sorted(range(len(spans)), key=lambda k: (spans[k][0], -spans[k][1]))


def _nested(
    spans: Spans, order: Sequence[int], cuts_earlier: Callable[[int, int], bool]
) -> tuple[list[int], list[int]]:
    parents, until = [-1] * len(spans), [end for _, end in spans]
    for place, k in enumerate(order):
        start, end = spans[k]
        for above in reversed(order[:place]):
            if until[above] <= start:
                continue
            common, outside = spans[above][1] - start, end - spans[above][1]
            if outside <= 0 or not cuts_earlier(outside, common):
                parents[k], until[k] = above, min(end, until[above])
                break
            until[above] = start
    return parents, until
