"""What our recorder left in a trace: what is taken from it, and what a hostile file cannot do with it."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.model.steps.steps import steps, throughput
from kinetoscope.model.trace.recording import Recording, Unrecorded, not_recorded, recording
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.sentences.recorded import facts
from tests import drawn

STEPS = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in (4, 5, 6)]
WHOLE: dict[str, Any] = {
    "run": "baseline",
    "command": ["python", "train.py"],
    "git": {"commit": "a" * 40, "branch": "main"},
    "versions": {"torch": "2.13.0", "odd": 3},
    "about": {"batch_size": 32},
    "steps": [{"step": 4, "samples": 32}, {"step": 5, "samples": 16}],
    "first_step": 4,
    "last_step": 5,
    "truncated": "",
}


def trace(folder: Path, known: Any, *events: drawn.Event) -> Trace:
    return drawn.job(folder, *STEPS, *events, kinetoscope=known).trace()


def test_what_the_recorder_knew(tmp_path: Path) -> None:
    assert recording(trace(tmp_path, WHOLE)) == Recording(
        run="baseline",
        command=("python", "train.py"),
        commit="a" * 40,
        branch="main",
        versions={"torch": "2.13.0"},
        about={"batch_size": 32},
        samples={4: 32, 5: 16},
        first_step=4,
        last_step=5,
    )


def test_a_trace_of_another_recorder_has_none(tmp_path: Path) -> None:
    assert recording(drawn.job(tmp_path, *STEPS).trace()) is None


@pytest.mark.parametrize("odd", [None, 3, "text", [], [WHOLE]])
def test_what_is_no_object_is_none(tmp_path: Path, odd: object) -> None:
    assert recording(trace(tmp_path, odd)) is None


@pytest.mark.parametrize("odd", [None, True, -2, 1.5, 1 << 80, "text", [], [[]], {}, {"step": 4}, [{"step": []}]])
def test_values_of_the_wrong_kind_are_left_out(tmp_path: Path, odd: object) -> None:
    found = recording(trace(tmp_path, dict.fromkeys(WHOLE, odd)))
    assert found is not None
    assert (found.commit, found.samples, found.first_step, found.last_step) == ("", {}, None, None)
    assert set(found.command) <= {""}


@pytest.mark.parametrize("odd", [None, True, -1, 2.5, "32", 1 << 64])
def test_samples_that_are_no_count_are_left_out(tmp_path: Path, odd: object) -> None:
    known = {"steps": [{"step": 4, "samples": odd}, {"step": odd, "samples": 8}, {"step": 5, "samples": 8}, odd]}
    found = recording(trace(tmp_path, known))
    assert found is not None
    assert found.samples == {5: 8}


# --- throughput


def test_throughput_is_of_the_steps_that_have_samples(tmp_path: Path) -> None:
    found = throughput(trace(tmp_path, WHOLE))
    assert found is not None
    assert (found.samples, found.steps, found.duration) == (48, 2, 200)
    assert found.rate == 48e9 / 200


def test_a_step_lasts_until_the_device_is_done(tmp_path: Path) -> None:
    late = [drawn.launch(550, 10, 1), drawn.kernel("gemm", 560, 100, 1)]
    found = throughput(trace(tmp_path, WHOLE, *late))
    assert found is not None
    assert found.duration == 100 + 160


@pytest.mark.parametrize("known", [{}, {"steps": []}, {"steps": [{"step": 9, "samples": 3}]}])
def test_where_nobody_told_there_is_no_throughput(tmp_path: Path, known: object) -> None:
    assert throughput(trace(tmp_path, known)) is None


def test_the_summary_adds_the_ranks_up_where_all_tell(tmp_path: Path) -> None:
    from kinetoscope import step_breakdown, trace_info

    job = drawn.job(tmp_path, *STEPS, kinetoscope=WHOLE)
    info, of_steps = trace_info(job).frame, step_breakdown(job).frame
    assert "240,000,000 samples/s" in facts(info, of_steps)
    assert dict(info.filter(topic="time").select("item", "value").iter_rows())["samples"] == "48 in 2 steps"
    two = of_steps.vstack(of_steps.with_columns(rank=of_steps["rank"] + 1))
    assert not any("samples" in fact for fact in facts(info, two))


# --- recordings that were ended early


def test_a_step_that_was_cut_off_is_none(tmp_path: Path) -> None:
    cut = trace(tmp_path, {**WHOLE, "truncated": "SIGTERM"})
    assert steps(cut, None).number.tolist() == [4, 5]
    assert cut.health["ENDED_EARLY"] == (
        "The recording was ended early (SIGTERM): the step that ran then is cut off and counts as none."
    )


def test_where_no_step_is_whole_all_stay(tmp_path: Path) -> None:
    cut = trace(tmp_path, {**WHOLE, "truncated": "exception:\n Error", "last_step": 3})
    assert steps(cut, None).number.tolist() == [4, 5, 6]
    assert cut.health["ENDED_EARLY"] == (
        "The recording was ended early (exception: Error): it holds no step from start to end."
    )


def test_of_a_trace_that_another_process_finished_the_last_step_is_not_known(tmp_path: Path) -> None:
    cut = trace(tmp_path, {"truncated": "its process ended before it was written"})
    assert steps(cut, None).number.tolist() == [4, 5, 6]
    assert cut.health["ENDED_EARLY"] == (
        "The recording was ended early (its process ended before it was written): whether its last step is cut off is "
        "not known."
    )


def test_a_recording_that_ended_as_planned_says_nothing(tmp_path: Path) -> None:
    whole = trace(tmp_path, WHOLE)
    assert steps(whole, None).number.tolist() == [4, 5]  # the range of the step that ran at its end is cut off
    assert "ENDED_EARLY" not in whole.health


# --- what was not recorded


def test_it_says_what_is_missing_what_records_it_and_what_follows() -> None:
    assert not_recorded("memory") == "Memory was not recorded (profile_memory=True records it)."
    assert not_recorded("shapes", "rows are by name only") == (
        "Input shapes were not recorded (record_shapes=True records them): rows are by name only."
    )


@pytest.mark.parametrize("what", typing.get_args(Unrecorded))
def test_each_is_one_sentence(what: Unrecorded) -> None:
    assert not_recorded(what).endswith(").")
    assert " recorded (" in not_recorded(what)
