"""Where findings point to: an event, its time, and the line of the user's own code that it was called from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kinetoscope.advisor.evidence.source_location import event_evidence, row_of_most, source_of, user_source_of
from kinetoscope.advisor.rule import RankView
from tests.advisor.views import rank_view
from tests.drawn import Event, op, python


def nested() -> list[Event]:
    """A call of the user's, in it torch's own, in it an operator."""
    return [
        python("train.py(7): main", 0, 10_000),
        python("model/block.py(31): forward", 1000, 8000),
        python("torch/nn/modules/linear.py(116): forward", 2000, 6000),
        op("aten::linear", 3000, 4000),
    ]


def row(view: RankView, name: str) -> int:
    return int(np.flatnonzero(view.trace.name == view.trace.strings.code(name))[0])


def test_the_innermost_call_of_the_users_own_counts(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *nested())
    assert source_of(view.trace, row(view, "aten::linear")) == ("model/block.py", 31, "forward")
    assert source_of(view.trace, row(view, "train.py(7): main")) == ("train.py", 7, "main")
    assert source_of(view.trace, -1) == (None, None, None)


def test_a_stack_that_the_file_spells_out_counts(tmp_path: Path) -> None:
    stack: dict[str, Any] = {"Call stack": "torch/nn/functional.py(10): relu;model.py(5): forward;train.py(3): main"}
    view = rank_view(tmp_path, op("aten::relu", 0, 1000, **stack))
    assert source_of(view.trace, row(view, "aten::relu")) == ("model.py", 5, "forward")


def test_evidence_is_an_event_from_the_first_one_on(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *nested())
    found = event_evidence(view, row(view, "aten::linear"), "this one", "operators", sort="calls")
    assert (found.start, found.end) == (3000, 7000)
    assert (found.file, found.line) == ("model/block.py", 31)
    assert (found.analysis, found.params) == ("operators", {"sort": "calls"})


def test_without_stacks_there_is_no_place(tmp_path: Path) -> None:
    view = rank_view(tmp_path, op("aten::relu", 0, 1000))
    assert event_evidence(view, 0, "this one").file is None


def test_the_line_of_some_calls_is_that_of_most_of_their_time(tmp_path: Path) -> None:
    """The longest call stands alone; another line calls often."""
    once = [python("head.py(9): logits", 0, 1000), op("aten::mm", 100, 100)]
    often = [
        event
        for n in range(3)
        for event in (python("layer.py(5): linear", 2000 + 1000 * n, 900), op("aten::mm", 2100 + 1000 * n, 100))
    ]
    view = rank_view(tmp_path, *once, *often)
    rows = np.flatnonzero(view.trace.name == view.trace.strings.code("aten::mm")).astype(np.int32)
    found = row_of_most(view.trace, rows, np.array([50, 30, 40, 30]))
    assert found == rows[2]
    assert user_source_of(view.trace, found) == ("layer.py", 5, "linear")
