"""`kinetoscope diff` and `ledger`: the picture, the tables, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.views.text import cells
from tests.cli.run import MLP, RANKS
from tests.compare.drawing import call
from tests.drawn import Event, annotation, op, written


def said(*arguments: str | Path, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(list(map(str, arguments))) == code
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def two(folder: Path) -> tuple[Path, Path]:
    """A run, and one whose kernel is another and half as long."""

    def steps(kernel: str, time: int, length: int) -> list[Event]:
        works = [annotation(f"ProfilerStep#{n}", n * length, length) for n in range(4)]
        for n in range(4):
            works += call("aten::mm", n * length, 20_000, kernel, n * length + 30_000, time, n + 1)
        return works

    base = written(folder / "base.json", *steps("gemm_a", 600_000, 1_000_000))
    new = written(folder / "new.json", *steps("gemm_b\x1b[2J", 300_000, 700_000))
    return base, new


def test_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    base, new = two(tmp_path)
    text = said("diff", base, new, capsys=capsys)
    lines = text.splitlines()
    assert lines[0] == "A step takes 30.0% less time: 1.00 ms → 0.700 ms; computation −300 µs.".replace(
        " ms", "\xa0ms"
    ).replace(" µs", "\xa0µs").replace("0.700\xa0ms", "700\xa0µs")
    assert any(line.startswith("step before") for line in lines)
    assert any(line.startswith("Computation") and "−0.300" in line for line in lines)
    assert any("was gemm_a" in line for line in lines)
    assert "\x1b[2J" not in text
    assert max(map(cells, lines)) <= 80


@pytest.mark.parametrize("width", ["40", "60", "200"])
def test_it_fits(
    width: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    monkeypatch.chdir(tmp_path)
    two(Path())  # names of runs are shown whole
    for verb in ("diff", "ledger"):
        lines = said(verb, "base.json", "new.json", capsys=capsys).splitlines()
        assert max(map(cells, lines)) <= max(int(width), 66)


def test_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = two(tmp_path)
    rows = json.loads(said("diff", base, new, "--format", "json", capsys=capsys))
    assert rows["analysis"] == "diff"
    names = [column["name"] for column in rows["columns"]]
    change = names.index("change")
    assert sum(row[change] for row in rows["rows"]) == -300_000
    assert rows["sentence"].startswith("A step takes")
    fall = json.loads(said("diff", base, new, "--table", "waterfall", "--format", "json", capsys=capsys))
    part, change = ([column["name"] for column in fall["columns"]].index(name) for name in ("part", "change"))
    assert sum(row[change] for row in fall["rows"] if row[part] is None) == -300_000
    assert "promised_low" in said("diff", base, new, "--table", "promises", "--format", "csv", capsys=capsys)
    assert "gemm" in said("diff", base, new, "--where", "category = 'computation'", capsys=capsys)


def test_a_file_says_what_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = two(tmp_path)
    said("diff", base, new, "-o", tmp_path / "d.csv", capsys=capsys)
    assert (tmp_path / "d.csv").read_text().startswith("category,kind,name")
    said("ledger", base, new, "-o", tmp_path / "l.txt", capsys=capsys)
    assert (tmp_path / "l.txt").read_text().startswith("run")


def test_a_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, new = two(tmp_path)
    text = said("ledger", base, new, base, "--samples-per-step", "32", capsys=capsys)
    assert "×1.43" in text
    assert "▲ faster" in text
    assert "▼ slower" in text
    rows = json.loads(said("ledger", base, new, "--format", "json", capsys=capsys))
    assert [row[0] for row in rows["rows"]] == ["base.json", "new.json"]
    kept = json.loads(said("ledger", base, new, "--promises", "--format", "json", capsys=capsys))
    assert kept["analysis"] == "delivery"


def test_several_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    text = said("diff", RANKS, RANKS, "--no-promises", capsys=capsys)
    assert "as long as before" in text
    assert "means over ranks 0-1" in text
    assert "means over" not in said("diff", RANKS, RANKS, "--ranks", "1", "--no-promises", capsys=capsys)


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in said("diff", MLP, tmp_path / "nowhere.json", capsys=capsys, code=1)
    assert "no number above 0" in said("ledger", MLP, "--samples-per-step", "-3", capsys=capsys, code=2)
    empty = written(tmp_path / "empty.json", op("aten::add", 0, 0))
    assert "no step to compare" in said("diff", MLP, empty, capsys=capsys, code=1)
