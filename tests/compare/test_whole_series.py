"""Runs compared by their whole history: parts that sum to the mean step, the gate, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinetoscope.compare.diff.diff import diff
from kinetoscope.compare.gate.baseline import load, save
from kinetoscope.compare.gate.gate import gate
from kinetoscope.compare.ledger.ledger import ledger, ledger_entry
from kinetoscope.compare.statistics.numbers import numbers
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.steps.selection import ALL, EVERY_STEP, Selection
from kinetoscope.pages.compare import page
from kinetoscope.reading import read
from tests.conftest import OURS
from tests.history.drawn import Noise, Planted, Run, draw
from tests.history.written import START, records, write, write_run

NOISE = Noise(deviation=0.01, own=0.003, outliers=0)
SLOWER = (Planted("shift", 0, (0, 1), "data", 0.2),)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two runs that are the same but for noise, and one that waits longer for data in every step."""
    made = {}
    for name, seed, planted in (("base", 1, ()), ("same", 2, ()), ("slower", 3, SLOWER)):
        drawn = draw(Run(name, steps=700, ranks=2, noise=NOISE, planted=planted, clutter=False), seed)
        made[name] = write_run(tmp_path_factory.mktemp(name), drawn)
    return made


def test_the_parts_sum_to_the_mean_step_of_the_records(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    each = 100_000_000
    data, forward = rng.integers(1_000_000, 9_000_000, 300), rng.integers(20_000_000, 30_000_000, 300)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    write(tmp_path / "one", records(300, each=each, data=data, forward=forward))
    write(tmp_path / "two", records(300, each=each + 5_000_000, data=data + 5_000_000, forward=forward))
    difference = diff(tmp_path / "one", tmp_path / "two")
    # a gap of a tenth of a step lies before each but the first
    assert difference.base == pytest.approx(each + each / 10 * 299 / 300, abs=2)
    parts = dict(difference.rows.frame.select("category", "base").rows())
    assert parts["data_loading"] == pytest.approx(data.mean(), rel=1e-6)
    assert parts["forward"] == pytest.approx(forward.mean(), rel=1e-6)
    assert sum(parts.values()) == difference.base
    assert difference.rows.frame.get_column("change").sum() == difference.change
    assert "waiting for data" in difference.rows.frame.get_column("name").to_list()


def test_it_says_which_part_became_longer(folders: dict[str, Path]) -> None:
    difference = diff(folders["base"], folders["slower"])
    said = "A step takes 20.2% more time: 100\xa0ms → 120\xa0ms; data loading +20.0\xa0ms."
    assert difference.sentence == said
    assert difference.verdict.word == "worse"
    assert diff(folders["base"], folders["same"]).verdict.word not in ("worse", "better")


def test_a_part_of_a_run_is_compared_with_another(tmp_path: Path) -> None:
    rows = records(400, duration=np.where(np.arange(400) < 200, 100_000_000, 150_000_000))
    rows["start"] = START + np.arange(400) * 160_000_000
    write(tmp_path, rows)
    early, late = Selection(steps=range(100)), Selection(steps=range(300, 400), ranks=(0,))
    difference = diff(tmp_path, tmp_path, base_select=early, select=late)
    assert [count for _, count in difference.rows.frame.select("category", "new_calls").rows()] == [1.0, 1.0]
    changed = dict(difference.rows.frame.select("category", "change").rows())
    assert changed["rest"] == 50_000_000


def test_all_steps_are_all_of_them(folders: dict[str, Path]) -> None:
    base, new = folders["base"], folders["slower"]
    assert diff(base, new, select=Selection(steps=EVERY_STEP)).change == diff(base, new).change


def test_the_gate_holds_whole_runs(folders: dict[str, Path], tmp_path: Path) -> None:
    assert gate(folders["base"], folders["same"]).passed
    failed = gate(folders["base"], folders["slower"])
    assert not failed.passed
    assert [run.steps for run in (*failed.base, *failed.new)] == [700, 700]
    save(tmp_path / "base.json", [numbers(read(folders["base"]))])
    (kept,) = load(tmp_path / "base.json")
    assert kept.steps == 700
    assert not gate([kept], folders["slower"]).passed


def test_samples_are_a_throughput(tmp_path: Path) -> None:
    for name, each in (("one", 100_000_000), ("two", 200_000_000)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, records(100, each=each, samples=64))
    outcome = gate(tmp_path / "one", tmp_path / "two", {"throughput": "5%"})
    (check,) = outcome.checks
    assert check.failed
    assert check.verdict.base == pytest.approx(64 / 0.11, rel=0.01)
    assert check.verdict.new == pytest.approx(64 / 0.22, rel=0.01)


def test_a_history_is_not_compared_with_a_trace(folders: dict[str, Path]) -> None:
    trace = OURS / "mlp.pt.trace.json.gz"
    with pytest.raises(InputError, match="compare the folders `history` of both"):
        diff(trace, folders["base"])
    with pytest.raises(InputError, match="like with like"):
        gate(trace, folders["base"], any_device=True)


def test_parts_that_one_run_does_not_know_are_the_rest_of_both(tmp_path: Path) -> None:
    for name, known in (("one", {}), ("two", {"forward": 30_000_000})):
        (tmp_path / name).mkdir()
        write(tmp_path / name, records(100, data=5_000_000, **known))
    difference = diff(tmp_path / "one", tmp_path / "two")
    assert dict(difference.rows.frame.select("category", "change").rows()) == dict.fromkeys(
        ("data_loading", "gap", "rest"), 0
    )
    assert set(difference.rows.frame.get_column("status")) == {"same"}
    assert any("counted as the rest of the step in both: forward pass." in note for note in difference.notes)


def test_the_page_compares_them(folders: dict[str, Path]) -> None:
    base, new = read(folders["base"]), read(folders["slower"])
    said = page(new, ALL, {}, base=base)
    assert said.sentence == diff(base, new).sentence
    assert [type(block).__name__ for block in said.blocks] == ["ChartBlock", "BarsBlock"]
    assert "Data loading" in said.to_markdown(10_000)
    other = page(new, ALL, {}, base=read(OURS / "mlp.pt.trace.json.gz"))
    assert any("compare the folders" in each for each in other.cannot)


@pytest.mark.parametrize("select", [Selection(steps=(5, 7)), Selection(steps=(-1,)), Selection(name="aten::mm")])
def test_what_a_history_has_not_is_refused(folders: dict[str, Path], select: Selection) -> None:
    with pytest.raises(UsageError, match="a history"):
        diff(folders["base"], folders["same"], select=select)


def test_a_ledger_of_whole_runs_has_the_same_steps(folders: dict[str, Path]) -> None:
    result = ledger([folders["base"], folders["slower"], folders["same"]])
    first, slower, same = result.frame.to_dicts()
    difference = diff(folders["base"], folders["slower"])
    assert (first["step_time"], slower["step_time"]) == (difference.base, difference.new)
    assert (slower["verdict"], slower["steps"], slower["ranks"]) == ("worse", 1400, "0-1")
    assert slower["gain_previous"] == pytest.approx(difference.base / difference.new, rel=1e-6)
    assert same["gain_first"] == pytest.approx(1, abs=0.01)
    assert first["samples_per_second"] is None


def test_samples_of_whole_runs_are_those_of_all_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        rows = records(300, each=100_000_000)
        rows["start"], rows["samples"] = START + np.arange(300) * 100_000_000, 32
        write(tmp_path, rows, rank=rank)
    entry = ledger_entry(read(tmp_path))
    assert entry.rate == pytest.approx(2 * 32 / 0.1, rel=1e-3)
    assert ledger_entry(read(tmp_path), samples_per_step=64).rate == pytest.approx(64 / 0.1, rel=1e-3)
