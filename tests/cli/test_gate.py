"""`kinetoscope gate`: exit codes, the screen, the summary, the baseline."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from kinetoscope.cli import main
from tests.cli.run import MLP, run
from tests.compare.gated import drawn


@pytest.fixture
def base(tmp_path: Path) -> list[str]:
    return [drawn(tmp_path / f"base{number}", seed=number) for number in range(3)]


@pytest.fixture
def slower(tmp_path: Path) -> list[str]:
    return [drawn(tmp_path / f"slow{number}", seed=10 + number, gemm=5.0) for number in range(3)]


@pytest.fixture
def same(tmp_path: Path) -> list[str]:
    return [drawn(tmp_path / f"same{number}", seed=20 + number) for number in range(3)]


def gated(*arguments: str | Sequence[str]) -> int:
    flat = [each for part in arguments for each in ([part] if isinstance(part, str) else part)]
    return main(["gate", *flat])


def test_a_loss_is_exit_code_three_and_says_where(
    base: list[str], slower: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert gated("--base", base, "--new", slower) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The gate failed: step_time is worse, 10.0\xa0ms → 11.0\xa0ms (+")
    assert any(line.startswith("step_time ") and line.endswith("worse: fails") for line in lines)
    assert any(line.startswith("gemm") and line.endswith("slower calls") for line in lines)


def test_no_loss_is_exit_code_zero(base: list[str], same: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert gated("--base", base, "--new", same) == 0
    assert capsys.readouterr().out.startswith("The gate passed.\n")


def test_limits_of_several_metrics(base: list[str], slower: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--max-regression", "step_time=20%", "--max-regression", "op:aten::mm=10%"]
    assert gated("--base", base, "--new", slower, limits, "--format", "json") == 3
    answer = json.loads(capsys.readouterr().out)
    names = [column["name"] for column in answer["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
    assert answer["analysis"] == "gate"
    assert [(row["metric"], row["failed"]) for row in rows] == [("step_time", False), ("op:aten::mm", True)]
    assert rows[1]["change"] == pytest.approx(0.25, abs=0.02)


def test_one_run_a_side_passes_with_a_note_and_strict_fails_it(
    base: list[str], same: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert gated(base[0], same[0]) == 0
    out = capsys.readouterr().out
    assert out.startswith("The gate passed, with doubt")
    assert "· 1 run per side" in out
    assert gated(base[0], same[0], "--strict") == 3


def test_a_baseline_is_written_and_held_against(
    base: list[str], slower: list[str], same: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "perf.json")
    assert gated("--write-baseline", file, base) == 0
    assert capsys.readouterr().out == f"Wrote {file}: 3 runs with 42 steps.\n"
    assert gated("--baseline", file, same) == 0
    assert gated("--baseline", file, "--new", slower) == 3
    assert "gemm" in capsys.readouterr().out
    assert gated("--write-baseline", file, base[0]) == 0
    assert "Three runs or more" in capsys.readouterr().out


def test_the_summary_is_added_to_files(
    base: list[str], slower: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_workflow, named = tmp_path / "step.md", tmp_path / "named.md"
    of_workflow.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(of_workflow))
    assert gated("--base", base, "--new", slower, "--summary", str(named)) == 3
    made = named.read_text(encoding="utf-8")
    assert made.startswith("# The gate failed: step_time is worse")
    assert "| `gemm` |" in made
    assert of_workflow.read_text(encoding="utf-8") == f"before\n{made}"


def test_other_devices_are_refused_unless_wanted(
    base: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = drawn(tmp_path / "other", device="NVIDIA A100")
    assert gated(base[0], other) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert gated(base[0], other, "--any-device") == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "BASE and NEW"),
        (["a"], 2, "1 paths were given"),
        (["a", "b", "c"], 2, "--base A B C"),
        (["--base", "a"], 2, "both sides"),
        (["a", "b", "--new", "c"], 2, "both sides"),
        (["--baseline", "p.json"], 2, "takes the new runs"),
        (["--baseline", "p.json", "--base", "a", "--new", "b"], 2, "no runs before"),
        (["--write-baseline", "p.json"], 2, "runs to measure"),
        (["a", "b", "--max-regression", "step=5%"], 2, "did you mean 'step_time'"),
        (["a", "b", "--noise", "0%"], 2, "above 0%"),
        (["--baseline", "p.json", str(MLP)], 1, "p.json: no such file"),
        (["no/such/a", str(MLP)], 1, "no/such/a"),
        ([str(MLP), str(MLP), "--max-regression", "op:aten::addm"], 1, "did you mean 'aten::addmm'"),
        ([str(MLP), str(MLP), "--max-regression", "throughput"], 1, "has no throughput"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert gated(arguments) == code
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.slow
def test_as_a_process_on_a_recording() -> None:
    done = run("gate", MLP, MLP, "--max-regression", "memory_peak=5%", "--max-regression", "step_time=5%")
    assert done.returncode == 0, done.stderr
    assert "memory_peak" in done.stdout
