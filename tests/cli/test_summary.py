"""`kinetoscope summary` and `demo` on real traces."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.views.text import cells
from tests.catalog.samples import required
from tests.cli.run import MLP, RANKS, ROOT, TRACES, without_compiling

SHARED = ROOT.parent / "shared" / "traces"


def summary(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> str:
    code = main(["summary", *map(str, arguments)])
    said = capsys.readouterr()
    assert (code, without_compiling(said.err)) == (0, "")
    return said.out


def test_a_run_on_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(MLP, capsys=capsys)
    assert text.startswith("mlp.pt.trace.json.gz\n3 of 5 steps · ")
    assert "no device work was recorded, so this is the host's time." in text
    assert "Operators by host time" in text
    assert "Kernels" not in text


def test_the_demo_finds_the_mistake_that_was_made_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--bundled"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "What to change: Up to 26.5 ms of 51.6 ms (51%): the training process makes each batch itself;" in said


def test_the_demo_says_whose_trace_it_shows_where_torch_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["demo"]) == 0
    said = without_compiling(capsys.readouterr().err)
    assert said == "kinetoscope: torch is not installed here; this is a trace that comes with the package\n"


def test_several_cycles_of_one_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        shutil.copy(MLP, tmp_path / f"host_7.{number}000000000000.pt.trace.json.gz")
    assert "6 of 10 steps · " in summary(tmp_path, capsys=capsys)


def test_several_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(RANKS, capsys=capsys)
    assert "\n2 ranks · " in text
    assert "on average over 2 ranks" in text
    assert "\nRanks  " in text


def test_one_rank_of_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\nrank 1 of 2 · " in summary(RANKS, "--ranks", "1", capsys=capsys)


def test_a_run_without_steps(capsys: pytest.CaptureFixture[str]) -> None:
    text = summary(TRACES / "no_steps.pt.trace.json.gz", capsys=capsys)
    assert "No steps were marked; 3 are proposed" in text
    assert "\nA step takes " in text


def test_a_run_in_which_nothing_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    (tmp_path / "once.json").write_text(json.dumps({"traceEvents": [event]}))
    text = summary(tmp_path / "once.json", capsys=capsys)
    assert "\nThe window is 2.00\u00a0µs long; no device work was recorded" in text


def test_a_rank_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rank0.json.gz").write_bytes(MLP.read_bytes())
    (tmp_path / "rank1.json").write_text('{"traceEvents": [{"ph": "X", "name')
    assert "rank 1 is left out:" in summary(tmp_path, capsys=capsys)


def test_an_empty_trace_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    assert "empty.json" in summary(tmp_path / "empty.json", capsys=capsys)


@pytest.mark.parametrize("name", ["dlrm_ddp_v100_8rank", "mi250_train", "alexnet_a100", "cpu_only", "mtia"])
def test_real_traces_fit_on_a_screen(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    required(SHARED / name)
    monkeypatch.setenv("COLUMNS", "80")
    lines = summary(SHARED / name, capsys=capsys).splitlines()
    assert len(lines) <= 50
    assert max(cells(line) for line in lines) <= 80


def test_names_of_a_trace_are_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "\x1b]0;owned\x07[bold]x[/bold]\u202e"
    work = {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    device = {**work, "cat": "kernel", "args": {"device": 0, "stream": 7, "correlation": 1}}
    launch = {**work, "cat": "cuda_runtime", "args": {"correlation": 1}}
    devices = [{"id": 0, "name": name}]
    trace = {"deviceProperties": devices, "traceEvents": [{**work, "cat": "cpu_op"}, launch, device]}
    path = tmp_path / "evil.json"
    path.write_text(json.dumps(trace))
    text = summary(path, capsys=capsys)
    assert text.count("\\x1b]0;owned\\x07[bold]x[/bold]\\u202e") >= 3
    assert not set("\x1b\x07\u202e") & set(text)
