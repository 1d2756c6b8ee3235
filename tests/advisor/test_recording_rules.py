"""What the rules about the recording itself say, and when they say nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.finding import NO_STAKE, Finding, Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules import our_rules
from kinetoscope.advisor.rules.more_threads_than_cores import more_threads_than_cores
from kinetoscope.advisor.run_rules import rank_findings
from kinetoscope.model.steps.selection import ALL
from kinetoscope.reading import read
from tests.advisor.views import STEP, findings, rank_view, steps
from tests.drawn import Event, annotation, kernel, launch, op, python
from tests.faults.program import Program

SHAPES: dict[str, Any] = {"Input Dims": [[2, 2]], "Input type": ["float"]}
TRACES = Path(__file__).parents[1] / "traces"


def work(count: int, length: int = STEP - 10_000, **args: Any) -> list[Event]:
    """A launch and a kernel a step."""
    events = []
    for n in range(count):
        begin = n * STEP
        events += [op("aten::mm", begin + 1000, 20_000, **args), launch(begin + 2000, 5000, n + 1)]
        events.append(kernel("gemm", begin + 9000, length, n + 1))
    return events


def test_a_whole_recording_is_left_alone(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *steps(5), *work(5, **SHAPES))
    assert findings("RECORDING001", view) == findings("RECORDING002", view) == []


@pytest.mark.parametrize(
    ("events", "top", "said"),
    [
        (work(5), {}, "no steps are marked"),
        ([*steps(2), *work(2)], {}, "only 2 steps"),
        (
            [*steps(5), *work(5)[:11], *work(5)[12:]],
            {},
            "the device's records of 1 launch were lost, so that devices seem idle",
        ),
        ([*steps(5), *work(5)], {"kinetoscope": {"truncated": "the disk was full"}}, "ended early"),
    ],
)
def test_what_says_little_about_an_average_step(
    tmp_path: Path, events: list[Event], top: dict[str, Any], said: str
) -> None:
    (finding,) = findings("RECORDING001", rank_view(tmp_path, *events, **top))
    assert said in finding.message
    assert finding.stake == NO_STAKE


@pytest.mark.parametrize(
    ("truncated", "schedule", "profile"),
    [
        ("its 300000 events take some 1116 MB of memory to stop (limit 1000 MB)", "--max-memory 4GB", "max_memory=4"),
        ("more than 10000000 events", "--max-events 0", "max_events=0"),
        ("a step took longer than 6.1 s, 12 times the longest before it", "--max-step 0", "max_step=0"),
        ("the program ended", "--active 10", "more active steps"),
    ],
)
def test_the_advice_names_the_limit_that_ended_the_recording(
    tmp_path: Path, truncated: str, schedule: str, profile: str
) -> None:
    for reason, helps in (("schedule", schedule), ("profile", profile)):
        view = rank_view(tmp_path, *steps(2), *work(2), kinetoscope={"truncated": truncated, "reason": reason})
        (finding,) = findings("RECORDING001", view)
        assert helps in finding.change


def test_a_file_that_is_not_whole_is_said(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *steps(5), *work(5))
    whole = (tmp_path / "drawn.pt.trace.json").read_text()
    (tmp_path / "drawn.pt.trace.json").write_text(whole[: len(whole) * 9 // 10])
    (found,) = (each for each in advise(read(str(tmp_path), jobs=1)).findings if each.code == "RECORDING001")
    assert "not whole" in found.message
    assert findings("RECORDING001", view) == []


@pytest.mark.parametrize(
    ("events", "top", "options"),
    [
        (work(5), {}, ("record_shapes=True",)),
        (work(5, length=100_000), {}, ("record_shapes=True", "profile_memory=True", "with_stack=True")),
        ([*work(5, length=100_000, **SHAPES), python("train.py(3): step", 0, 50)], {}, ("profile_memory=True",)),
        ([op("aten::mm", 1000, 9000, **SHAPES)], {"deviceProperties": [{"id": 0}]}, ("ProfilerActivity.CUDA",)),
        ([op("aten::mm", 1000, 9000)], {}, ("record_shapes=True",)),
    ],
)
def test_options_that_were_off(
    tmp_path: Path, events: list[Event], top: dict[str, Any], options: tuple[str, ...]
) -> None:
    (finding,) = findings("RECORDING002", rank_view(tmp_path, *steps(5), *events, **top))
    every = ("record_shapes=True", "profile_memory=True", "with_stack=True", "ProfilerActivity.CUDA")
    assert tuple(option for option in every if option in finding.change) == options
    assert finding.message.count("no ") == len(options)


def test_there_are_two_of_them_at_most_and_only_as_notes() -> None:
    for file in sorted(TRACES.glob("*.pt.trace.json.gz")):
        found = [each for each in advise(read(file, jobs=1)).findings if each.code.startswith("RECORDING")]
        assert len(found) <= 2
        assert {each.severity for each in found} <= {"note"}


# --- HOST016


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"cores": 8, "threads": 8}, []),
        ({"cores": 8, "threads": 8, "local_ranks": 4}, ["medium"]),
        ({"cores": 8, "threads": 8, "workers": 4}, ["low"]),  # workers may sleep
        ({"cores": 0, "threads": 8}, []),
        ({"cores": "8", "threads": -1}, []),
        ({}, []),
    ],
)
def test_more_threads_than_cores(facts: dict[str, object], found: list[str], tmp_path: Path) -> None:
    def body(p: Program, n: int) -> None:
        p.call("aten::mm", 900)

    top = {"kinetoscope": {"cpu": facts}}
    Program(seed=1, device=None, top=top).run(body, tmp_path / "rank0.pt.trace.json", steps=4)
    findings = more_threads_than_cores(RankView(read(str(tmp_path), jobs=1).trace(), ALL))
    assert [each.confidence for each in findings] == found


def test_what_is_done_once_is_counted_by_no_other_finding(tmp_path: Path) -> None:
    """Each of six steps launches a kernel anew, of which the code is loaded in a fifth of the step."""
    length = 10 * STEP
    events = []
    for n in range(6):
        begin, late = n * length, n * length + 6 * STEP
        events += [annotation(f"ProfilerStep#{n}", begin, length), op("aten::mm", begin + 1000, 20_000, **SHAPES)]
        for k in range(3):
            events.append(launch(begin + 2000 + 6000 * k, 5000, 100 + 10 * n + k))
            events.append(kernel("gemm", begin + 50_000 + STEP * k, STEP, 100 + 10 * n + k))
        events += [launch(late, 2 * STEP, 900 + n), kernel(f"new {n}", late + 2 * STEP + 5000, 5_000, 900 + n)]
    view = rank_view(tmp_path, *events)
    (finding,) = findings("RECORDING003", view)
    assert "of an average step" in finding.message  # each step does not have it: it happens once
    assert finding.takes is not None
    assert finding.takes == pytest.approx(2 * STEP)
    assert 0 < finding.stake.low < min(finding.stake.high, finding.takes)  # `laws` cuts the upper end
    stake = Stake(3.0 * STEP, 3.0 * STEP)
    other = Finding("Something else. It takes longer.", stake, takes=3.0 * STEP, time=finding.time, code="OTHER")
    kept = rank_findings([other, replace(finding, code="RECORDING003")], view.step_time)
    assert [each.code for each in kept] == ["RECORDING003"]


def test_rules_say_which_recordings_they_do_not_fit() -> None:
    fits = {rule.code for rule in our_rules() if "graph capture" not in rule.unfit}
    assert "RECORDING002" in fits
    assert not fits & {"HOST002", "HOST007", "HOST010", "DATA004", "MEMORY001", "DEVICE006", "RECORDING001"}
