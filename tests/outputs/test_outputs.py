"""`kinetoscope.convert`, `report` and `summary`, as one calls them from Python."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.cli import main
from kinetoscope.errors import InputError, UsageError
from tests.cli.run import MLP, RANKS


def test_a_trace_for_perfetto_has_counters_and_the_critical_path(tmp_path: Path) -> None:
    job = kinetoscope.read(MLP)
    (written,) = kinetoscope.convert(job, tmp_path / "out.json.gz", to="perfetto", critical_path=True)
    events = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["traceEvents"]
    assert written.events == len(job.trace())
    assert written.additions is not None
    assert written.additions.counters == len({event["name"] for event in events if event.get("ph") == "C"}) > 0
    assert sum("critical" in event.get("args", {}) for event in events) == written.additions.marked > 0
    assert "on the critical path. Open it at" in repr(written)


def test_each_rank_has_its_file(tmp_path: Path) -> None:
    written = kinetoscope.convert(RANKS, tmp_path, to="json")
    assert [trace.rank for trace in written] == [0, 1]
    assert sorted(Path(trace.path) for trace in written) == sorted(tmp_path.iterdir())


def test_what_cannot_be_converted() -> None:
    with pytest.raises(UsageError, match="json needs an output"):
        kinetoscope.convert(MLP, to="json")
    with pytest.raises(UsageError, match="no form 'xml'"):
        kinetoscope.convert(MLP, "x", to="xml")  # type: ignore[arg-type]


def test_the_summary_is_that_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(MLP)]) == 0
    assert str(kinetoscope.summary(kinetoscope.read(MLP))) == capsys.readouterr().out.rstrip("\n")


def test_a_report_of_a_job_is_about_its_files_alone(tmp_path: Path) -> None:
    one = sorted(RANKS.glob("*.json.gz"))[:1]
    assert kinetoscope.report(kinetoscope.read(one), tmp_path / "run.html", sections=["overview"]) == str(
        tmp_path / "run.html"
    )
    assert (tmp_path / "run.html").read_bytes().startswith(b"<!doctype html>")
    with pytest.raises(UsageError, match="no section 'overvew'"):
        kinetoscope.report(MLP, tmp_path / "x.html", sections=["overvew"])
    with pytest.raises(InputError, match="is no folder"):
        kinetoscope.report(MLP, tmp_path / "none" / "x.html")
