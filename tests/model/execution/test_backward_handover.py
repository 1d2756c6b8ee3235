from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import Trace, read
from kinetoscope.model.execution.backward_handover import handovers
from tests import drawn
from tests.catalog.samples import SHARED, required


def backward(called: str, start: int, duration: int) -> drawn.Event:
    """A call of the backward thread, of the forward thread's operator number 5."""
    return drawn.op(called, start, duration, tid=2, **{"Sequence number": 5, "Fwd thread id": 1})


STEP = [drawn.annotation("ProfilerStep#1", 0, 100), drawn.op("forward", 0, 20, **{"Sequence number": 5})]


def found(trace: Trace) -> list[tuple[object, ...]]:
    hands = handovers(trace)

    def name(row: int) -> str | None:
        return trace.strings.label(int(trace.name[row])) if row >= 0 else None

    return [
        (int(begin), int(end), name(inside), name(first), name(last))
        for begin, end, inside, first, last in zip(
            hands.begin, hands.end, hands.inside, hands.first, hands.last, strict=True
        )
    ]


def test_the_thread_that_falls_silent_waits_for_the_backward_thread(tmp_path: Path) -> None:
    after = drawn.op("optimizer", 80, 10)
    trace = drawn.job(tmp_path, *STEP, backward("b1", 25, 20), backward("b2", 50, 28), after).trace()
    assert found(trace) == [(20, 80, "ProfilerStep#1", "b1", "b2")]


def test_what_runs_on_the_waiting_thread_divides_the_wait(tmp_path: Path) -> None:
    between = drawn.op("accumulate on the host", 46, 3)
    trace = drawn.job(tmp_path, *STEP, backward("b1", 25, 20), between, backward("b2", 50, 28)).trace()
    assert found(trace) == [(20, 46, "ProfilerStep#1", "b1", "b1"), (49, 100, "ProfilerStep#1", "b2", "b2")]


def test_a_thread_that_is_at_work_is_handed_nothing_and_gives_nothing_back(tmp_path: Path) -> None:
    between = drawn.op("accumulate on the host", 40, 3)
    trace = drawn.job(tmp_path, *STEP, backward("b1", 25, 20), between, backward("b2", 47, 28)).trace()
    assert found(trace) == [(20, 40, "ProfilerStep#1", "b1", None), (43, 100, "ProfilerStep#1", None, "b2")]


def test_threads_without_a_backward_pass_are_not_waited_for(tmp_path: Path) -> None:
    assert found(drawn.job(tmp_path, *STEP, drawn.op("loader", 25, 20, tid=2)).trace()) == []


def test_a_backward_pass_on_the_same_thread_is_no_handover(tmp_path: Path) -> None:
    own = drawn.op("b1", 25, 20, **{"Sequence number": 5, "Fwd thread id": 1})
    assert found(drawn.job(tmp_path, *STEP, own).trace()) == []


@pytest.mark.parametrize(
    ("path", "steps"),
    [("ddp_nccl_a100", 3), ("resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz", 6)],
)
def test_each_step_of_real_traces_waits_once(path: str, steps: int) -> None:
    hands = handovers(read(required(SHARED) / path, jobs=1).trace())
    assert len(hands.thread) == steps
    assert (hands.first >= 0).all()
    assert (hands.last >= 0).all()
