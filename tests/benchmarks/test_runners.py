"""What runs the benchmarks: that each is found, measured and shown, and that nothing that fails is dropped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kinetoscope
from benchmarks import peers
from benchmarks.peer_tools import PEERS, Peer, install
from benchmarks.peer_work import MARK, TOOLS, main
from benchmarks.peers import File, Row
from benchmarks.run import Benchmark, Outcome, benchmarks, line, outcome

pytestmark = pytest.mark.slow

TRACE = Path(__file__).parents[1] / "traces" / "mlp_default.pt.trace.json.gz"


def test_every_analysis_has_a_benchmark_of_time_and_of_memory() -> None:
    found = {(each.method.partition("_")[0], each.case) for each in benchmarks() if each.owner == "Analyses"}
    assert found == {(kind, each.name) for kind in ("time", "peakmem") for each in kinetoscope.ANALYSES}


def test_labels_are_distinct() -> None:
    labels = [each.label for each in benchmarks()]
    assert len(set(labels)) == len(labels) > 20


def test_a_benchmark_runs_in_processes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETOSCOPE_BENCH_TRACE", str(TRACE))
    monkeypatch.setenv("KINETOSCOPE_BENCH_SIZE", "400KB")
    ours = [str(Path(folder)) for folder in sys.path if folder]
    monkeypatch.setenv("PYTHONPATH", ":".join(ours))
    found = outcome(Benchmark("benchmarks.bench_reading", "Ceiling", "time_sketch", "2 threads"), 3, 120)
    assert (found.status, found.error) == ("done", "")
    assert len(found.seconds) == 3
    assert found.size > 2 * 400_000


def test_a_benchmark_that_fails_says_so() -> None:
    found = outcome(Benchmark("benchmarks.bench_reading", "Reading", "time_load", "no such case"), 1, 60)
    assert found.status == "failed"
    assert "no such case" in line(found)


def test_a_line_has_the_least_the_middle_and_the_rate_of_the_least() -> None:
    assert line(Outcome("name", "done", (0.5, 0.25, 1.0), 10**8)).split() == ["name", "0.250", "0.500", "400"]
    assert line(Outcome("name", "done", peak=123_400_000)).split() == ["name", "123"]


def test_each_peer_has_its_work() -> None:
    in_python = {peer.key for peer in PEERS if peer.key != "perfetto"}
    assert in_python <= set(TOOLS)


def test_the_stages_are_told_as_they_end(capsys: pytest.CaptureFixture[str]) -> None:
    main("json", str(TRACE))
    told = [text for text in capsys.readouterr().out.splitlines() if text.startswith(MARK)]
    assert len(told) == 1
    assert '"stage": "load"' in told[0]


def test_what_pip_cannot_have_is_left_out_with_a_reason() -> None:
    assert install(Peer("x", "no such tool", "x", (), "", "it is not there")) == "it is not there"


def test_what_fails_or_is_not_there_stands_in_the_table(tmp_path: Path) -> None:
    file = File("small", tmp_path / "no-such-trace.json", 10**8, 60.0, 4 * 10**9)
    found = list(peers.rows(file, {peer.key: "cannot be had" for peer in PEERS}))
    assert [row.note for row in found if row.tool in {peer.label for peer in PEERS}] == ["cannot be had"] * len(PEERS)
    ours = [row for row in found if row.tool == "kinetoscope"]
    assert [row.what for row in ours] == ["whole: show step-breakdown", "warm: load"]
    assert all(row.note.startswith("failed: ") and "no-such-trace" in row.note for row in ours)
    assert all(row.ratio is None and row.rate is None and row.peak for row in ours)


def test_a_row_is_shown_with_what_it_has() -> None:
    row = Row("large", "HTA", "load", 2.5, 2.25, 40.0, None, 12.0)
    assert peers.text(row).split() == ["large", "HTA", "load", "2.50", "2.25", "40", "12.0"]
    assert peers.text(Row("large", "X", "", note="failed: why")).endswith("failed: why")


@pytest.mark.parametrize("script", ["generate.py", "run.py", "peers.py"])
def test_scripts_can_be_run_by_their_path(script: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "benchmarks" / script), "--help"]
    environment = {"PYTHONPATH": str(root / "src"), "HOME": str(tmp_path)}
    assert "usage" in subprocess.check_output(command, env=environment, cwd=tmp_path, text=True, timeout=60)
