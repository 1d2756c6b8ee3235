"""Which calls are counted: against plain counting on calls that nest at will."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.calls import costed_calls
from tests import drawn

TOLD, UNKNOWN_PRECISION, OTHER = "aten::mm", "aten::conv2d", "other"


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Calls that nest: name, start and end."""
    found: list[tuple[str, int, int]] = []

    def inside(start: int, end: int, depth: int) -> None:
        at = start + 1
        for _ in range(draw(st.integers(0, 3)) if depth < 4 else 0):
            length = draw(st.integers(3, 12)) * 2 ** (3 - depth)
            if at + length >= end:
                return
            found.append((draw(st.sampled_from([TOLD, UNKNOWN_PRECISION, OTHER])), at, at + length))
            inside(at, at + length, depth + 1)
            at += length + draw(st.integers(1, 5))

    inside(0, 400, 0)
    return found


@given(calls=trees())
def test_the_innermost_calls_that_tell_are_counted(tmp_path: Path, calls: list[tuple[str, int, int]]) -> None:
    args: dict[str, Any] = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    events = [drawn.op(name, 2 * start, 2 * (end - start), **args) for name, start, end in calls]
    events += [drawn.launch(2 * start + 1, 0, k + 1) for k, (_, start, _) in enumerate(calls)]
    events += [drawn.kernel("k", 1000 + k, 1, k + 1) for k in range(len(calls))]
    counts = costed_calls(drawn.job(tmp_path, *events).trace())

    def within(name: str, around: tuple[str, int, int]) -> bool:
        return any(each[0] == name and around[1] < each[1] < around[2] for each in calls)

    told = [place for place, call in enumerate(calls) if call[0] == TOLD and not within(TOLD, call)]
    assert counts.rows.tolist() == told
    assert counts.flop.tolist() == [48] * len(told)
    launched = [
        next((k for k, place in enumerate(told) if calls[place][1] <= call[1] < calls[place][2]), -1) for call in calls
    ]
    assert counts.call.tolist() == launched
    missed = [
        place
        for place, call in enumerate(calls)
        if call[0] == UNKNOWN_PRECISION
        and not within(TOLD, call)
        and not within(UNKNOWN_PRECISION, call)
        and not any(calls[each][1] < call[1] < calls[each][2] for each in told)
    ]
    assert counts.uncounted.tolist() == missed
