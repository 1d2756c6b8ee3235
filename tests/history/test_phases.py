"""Phases: names of frameworks, times by phase, the phase that makes a run slower, what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kinetoscope.analyses import asked
from kinetoscope.model.history.phases import phase_of
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.history import page
from kinetoscope.reading import read
from kinetoscope.record.history.layout import Mark
from tests.history.written import START, records, write

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("gen", "generation"),  # verl
        ("rl/rollout-collection", "generation"),  # Megatron
        ("GRPOTrainer._calculate_rewards", "reward"),  # TRL
        ("timing/train/policy_training", "update"),  # NeMo-RL
        ("train_wait", "waiting for data"),  # slime
        ("update_weights", "weight transfer"),
        ("save_model_time", "saving"),
        ("step", ""),
        ("total_step_time", ""),
        ("my own phase", "my own phase"),
    ],
)
def test_names_of_frameworks_are_one_phase(name: str, phase: str) -> None:
    assert phase_of(name) == phase


def written(folder: Path, *, generation: NDArray[np.int64], each: int = 4) -> None:
    """Iterations of `each` steps, before the first of which is a generation that takes so long; all are an update."""
    steps = each * len(generation)
    gap = np.zeros(steps, np.int64)
    gap[::each] = generation
    start = START + np.cumsum(gap) + np.arange(steps) * SECOND
    marks: list[Mark] = []
    for at, (first, took) in enumerate(zip(start[::each].tolist(), generation.tolist(), strict=True)):
        marks.append(("phase", "gen", each * at, first - took, first, None))
        marks.append(("phase", "update_actor", each * at, first, first + each * SECOND, None))
        marks.append(("phase", "step", each * at, first - took, first + each * SECOND, None))
    write(folder, records(steps, start=start, duration=SECOND), marks)


def test_times_are_those_of_the_marks(tmp_path: Path) -> None:
    generation = np.linspace(2 * SECOND, 4 * SECOND, 100).astype(np.int64)
    written(tmp_path, generation=generation)
    answer = read(tmp_path).ask({"phases": asked("history_phases")})["phases"]
    rows = {row["phase"]: row for row in answer}
    assert list(rows) == ["update", "generation"]
    of_generation = rows["generation"]
    assert (of_generation["count"], of_generation["names"], of_generation["longest"]) == (100, "gen", 4 * SECOND)
    assert of_generation["longest_step"] == 4 * 99
    assert of_generation["mean"] == pytest.approx(generation.mean())
    whole = generation[1:].sum() + 400 * SECOND  # the time before the first step is no part of the run
    assert of_generation["share"] == pytest.approx(generation.sum() / whole)
    assert of_generation["early"] == pytest.approx(np.median(generation[:25]))
    assert of_generation["growth"] == pytest.approx(np.median(generation[75:]) / np.median(generation[:25]) - 1)
    assert rows["update"]["growth"] == 0


def test_the_page_says_them(tmp_path: Path) -> None:
    written(tmp_path, generation=np.linspace(2 * SECOND, 4 * SECOND, 100).astype(np.int64))
    said = page(read(tmp_path), ALL, {})
    text = said.to_markdown(10_000)
    assert "Phases of the run: update 57.3%, generation 43.0%." in text.replace("\xa0", " ")
    assert "The phase generation takes 67.6% longer in the last quarter" in text.replace("\xa0", " ")


def test_a_change_names_the_phase_that_makes_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    generation = np.where(np.arange(1000) < 600, 2.0, 6.0) * rng.normal(1, 0.01, 1000) * SECOND
    written(tmp_path, generation=generation.astype(np.int64), each=1)
    answers = read(tmp_path).ask({name: asked(f"history_{name}") for name in ("changes", "phases")})
    [row] = [row for row in answers["changes"] if row["kind"] == "shift"]
    assert abs(row["step"] - 600) <= 2
    assert row["phase"] == "generation"
    assert row["phase_before"] == pytest.approx(2 * SECOND, rel=0.01)
    assert row["phase_after"] == pytest.approx(6 * SECOND, rel=0.01)
    said = page(read(tmp_path), ALL, {}).to_markdown(10_000).replace("\xa0", " ")
    assert "From step 600 on, rank 0 takes 133% longer: generation 2.00 s → 6.00 s a step." in said
