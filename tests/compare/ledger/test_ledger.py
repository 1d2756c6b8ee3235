"""Runs in a row: what each brought, and what was changed for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.compare.ledger.command_diff import command_changes, mapping_changes
from kinetoscope.compare.ledger.ledger import ledger
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.reading import read
from tests.compare.drawing import call
from tests.drawn import annotation, memory, op, written


def run(folder: Path, name: str, length: int, *, samples: int | None = None, rank: int = 0, **facts: Any) -> Job:
    """Four steps with a kernel for half of each, as our recorder writes them."""
    marks = [annotation(f"ProfilerStep#{n}", n * length, length) for n in range(4)]
    works = [
        each
        for n in range(4)
        for each in call("aten::mm", n * length + 10, 20, "ampere_sgemm", n * length + 100, length // 2, n + 1)
    ]
    known: dict[str, Any] = {"run": name, **facts}
    if samples is not None:
        known["steps"] = [{"step": n, "samples": samples} for n in range(4)]
    top = {"kinetoscope": known, "distributedInfo": {"rank": rank}}
    folder.mkdir(parents=True, exist_ok=True)
    taken = memory(50, 3_000_000, device=0, **{"Total Allocated": 5_000_000})
    return read(written(folder / f"r{rank}.pt.trace.json", *marks, *works, taken, **top), jobs=1)


def test_rows_are_in_order_with_gains(tmp_path: Path) -> None:
    runs = [
        run(tmp_path / "a", "first", 1000, samples=32, command=["python", "train.py", "--workers", "0"]),
        run(tmp_path / "b", "workers", 800, samples=32, command=["python", "train.py", "--workers", "4"]),
        run(tmp_path / "c", "batch", 1200, samples=96, command=["python", "train.py", "--workers=4", "--batch", "96"]),
    ]
    rows = ledger(runs).frame.to_dicts()
    assert [row["run"] for row in rows] == ["first", "workers", "batch"]
    assert [row["step_time"] for row in rows] == [1000, 800, 1200]
    assert [row["samples_per_second"] for row in rows] == pytest.approx([32e6, 40e6, 80e6])
    assert [row["gain_previous"] for row in rows] == [None, pytest.approx(1.25), pytest.approx(2.0)]
    assert [row["gain_first"] for row in rows] == [None, pytest.approx(1.25), pytest.approx(2.5)]
    assert [row["changed"] for row in rows] == [None, "--workers 0 → 4", "+ --batch 96"]
    assert [row["verdict"] for row in rows] == [None, "better", "better"]
    assert [row["utilization"] for row in rows] == pytest.approx([0.5] * 3, rel=0.05)
    assert {row["memory_peak"] for row in rows} == {5_000_000}


def test_another_program_or_device_is_no_gain(tmp_path: Path) -> None:
    runs = [run(tmp_path / each, each, 1000, command=["python", f"{each}.py"]) for each in ("train", "serve")]
    row = ledger(runs).frame.row(1, named=True)
    assert (row["gain_previous"], row["gain_first"], row["verdict"]) == (None, None, None)
    assert "another program" in row["changed"]
    host = written(tmp_path / "host.json", annotation("ProfilerStep#1", 0, 500), op("aten::mm", 10, 20))
    assert ledger([runs[0], read(host, jobs=1)]).frame.item(1, "gain_first") is None


def test_throughput_by_hand(tmp_path: Path) -> None:
    found = ledger([run(tmp_path / "a", "a", 1000), run(tmp_path / "b", "b", 500)], samples_per_step=10)
    assert found.frame.get_column("samples_per_second").to_list() == pytest.approx([1e7, 2e7])
    silent = ledger([run(tmp_path / "a", "a", 1000), run(tmp_path / "b", "b", 500)])
    assert silent.frame.get_column("samples_per_second").to_list() == [None, None]
    assert silent.frame.get_column("gain_previous").to_list() == [None, 2.0]
    assert any("--samples-per-step" in note for note in silent.notes)


def test_samples_of_ranks_add_up_and_their_steps_are_averaged(tmp_path: Path) -> None:
    run(tmp_path / "two", "two", 1000, samples=32)
    run(tmp_path / "two", "two", 2000, samples=32, rank=1)
    row = ledger([read(str(tmp_path / "two"), jobs=1)]).frame.row(0, named=True)
    assert (row["step_time"], row["ranks"], row["steps"]) == (1500, "0-1", 8)
    assert row["samples_per_second"] == pytest.approx(32e6 + 16e6)


def test_what_is_not_known_is_null(tmp_path: Path) -> None:
    plain = read(written(tmp_path / "plain.json", annotation("ProfilerStep#1", 0, 100), op("aten::add", 0, 50)), jobs=1)
    row = ledger([plain, plain]).frame.row(1, named=True)
    missing = ("samples_per_second", "utilization", "matrix_unit_share", "memory_peak")
    assert [row[name] for name in missing] == [None] * 4
    assert row["changed"] == ""


def test_noise_is_said_to_be_none(tmp_path: Path) -> None:
    rows = ledger([run(tmp_path / "a", "a", 1000), run(tmp_path / "b", "b", 1010)]).frame.to_dicts()
    assert rows[1]["verdict"] in ("same", "inconclusive")


def test_names_tell_runs_apart(tmp_path: Path) -> None:
    runs = [run(tmp_path / folder / "out", "", 1000) for folder in ("one", "two")]
    names = ledger(runs).frame.get_column("run").to_list()
    assert names == ["one/out/r0.pt.trace.json", "two/out/r0.pt.trace.json"]


def test_what_was_changed(tmp_path: Path) -> None:
    one = run(
        tmp_path / "a",
        "a",
        1000,
        versions={"torch": "2.2.0"},
        git={"commit": "a" * 40},
        about={"lr": 0.1, "model": {"depth": 12}},
    )
    other = run(
        tmp_path / "b",
        "b",
        1000,
        versions={"torch": "2.3.1"},
        git={"commit": "b" * 40},
        about={"lr": 0.2, "model": {"depth": 24}},
    )
    changed = ledger([one, other]).frame.get_column("changed")[1]
    assert changed == "lr 0.1 → 0.2; model.depth 12 → 24; torch 2.2.0 → 2.3.1; commit aaaaaaaa → bbbbbbbb"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("python t.py --workers 0 --bs 32", "python t.py --workers 4 --amp --bs=32", ["--workers 0 → 4", "+ --amp"]),
        ("python t.py data", "python u.py data", ["t.py → u.py"]),
        ("python t.py --amp data", "python t.py data", ["− --amp"]),
        ("python t.py --lr -0.1", "python t.py --lr -0.2", ["--lr -0.1 → -0.2"]),
        ("p --a 1 --b 2", "p --b 2 --a 1", []),
        ("p --a 1", "p --a 1 --compile --mode x", ["+ --compile", "+ --mode x"]),
        ("p --x 1", "", []),
    ],
)
def test_commands(before: str, after: str, said: list[str]) -> None:
    assert list(command_changes(before.split(), after.split())) == said


def test_texts_of_a_run_are_harmless_and_short() -> None:
    (said,) = mapping_changes({"note": "x"}, {"note": "\x1b[2J" + "y" * 500})
    assert "\x1b" not in said
    assert len(said) < 150


def test_no_runs_and_no_steps(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a run"):
        ledger([])
    empty = read(written(tmp_path / "empty.json"), jobs=1)
    with pytest.raises(InputError, match="no step"):
        ledger([empty])


def test_the_two_resnets(shared_traces: Path) -> None:
    runs = [read(str(shared_traces / "resnet50_v100" / f"num_workers_{n}")) for n in (0, 4)]
    rows = ledger(runs, samples_per_step=32, select=Selection()).frame.to_dicts()
    assert [row["run"] for row in rows] == ["num_workers_0", "num_workers_4"]
    assert rows[1]["verdict"] == "better"
    assert rows[1]["utilization"] > rows[0]["utilization"] + 0.1
    assert rows[1]["gain_first"] == pytest.approx(166.25 / 135.08, abs=0.01)
