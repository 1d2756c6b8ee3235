"""`kinetoscope.convert`, `report` and `summary`, as one calls them from Python."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope import Trace
from kinetoscope.advisor.finding import Finding
from kinetoscope.cli import main
from kinetoscope.engines.threads import Threads
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.trace.source import Source
from kinetoscope.pages.blocks import FindingsBlock, NoteBlock, Page
from tests.catalog.samples import SHARED, required
from tests.cli.run import MLP, RANKS
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write, written_by


def test_a_trace_for_perfetto_has_counters_and_the_critical_path(tmp_path: Path) -> None:
    job = kinetoscope.read(MLP)
    (written,) = kinetoscope.convert(job, tmp_path / "out.json.gz", to="perfetto", critical_path=True)
    events = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["traceEvents"]
    assert written.events == len(job.trace())
    assert written.additions is not None
    assert written.additions.counters == len({event["name"] for event in events if event.get("ph") == "C"}) > 0
    assert sum("critical" in event.get("args", {}) for event in events) == written.additions.marked > 0
    assert "on the critical path. Open it at" in repr(written)


def test_a_memory_snapshot_for_perfetto_has_a_counter_for_each_use(tmp_path: Path) -> None:
    process = Process(stacks="python")
    process.record()
    training = Training(process, Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100), metadata=True)
    training.build()
    training.run(2)
    write(tmp_path / "memory.pickle", process.snapshot())
    kinetoscope.convert(tmp_path / "memory.pickle", tmp_path / "out.json.gz", to="perfetto")
    events = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))["traceEvents"]
    level: dict[str, float] = {}
    highest = 0.0
    for event in sorted((each for each in events if each.get("ph") == "C"), key=lambda each: float(each["ts"])):
        if event["name"].startswith("memory by use: "):
            level[event["name"]] = event["args"]["bytes"]
            highest = max(highest, sum(level.values()))
    assert {"memory by use: activation, cuda:0", "memory by use: parameter, cuda:0"} <= set(level)
    assert highest >= kinetoscope.memory_peak(kinetoscope.read(tmp_path / "memory.pickle")).frame["size"].sum()


def test_a_snapshot_without_times_has_no_counters(tmp_path: Path) -> None:
    process = Process()
    process.record()
    process.alloc("zeros", 5000)
    write(tmp_path / "memory.pickle", written_by(process.snapshot(), (2, 1)))
    (written,) = kinetoscope.convert(tmp_path / "memory.pickle", tmp_path / "out.json.gz", to="perfetto")
    assert written.additions is not None
    assert written.additions.counters == 0


def test_each_rank_has_its_file(tmp_path: Path) -> None:
    written = kinetoscope.convert(RANKS, tmp_path, to="json")
    assert [trace.rank for trace in written] == [0, 1]
    assert sorted(Path(trace.path) for trace in written) == sorted(tmp_path.iterdir())


def test_what_cannot_be_converted() -> None:
    with pytest.raises(UsageError, match="json needs an output"):
        kinetoscope.convert(MLP, to="json")
    with pytest.raises(UsageError, match="no form 'xml'"):
        kinetoscope.convert(MLP, "x", to="xml")  # type: ignore[arg-type]


def test_the_summary_is_that_of_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
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


@pytest.mark.slow
def test_of_large_ranks_some_are_examined_and_all_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = required(SHARED / "dlrm_ddp_v100_8rank")
    whole = kinetoscope.summary(path)
    assert "Rules about one rank examined" not in str(whole)
    monkeypatch.setattr("kinetoscope.outputs.summary._LARGEST_BYTES", 2_000_000)
    some = kinetoscope.summary(path)
    waits = whole.blocks[1]
    assert isinstance(waits, NoteBlock)
    assert waits in some.blocks
    assert "Rules about one rank examined 2 of 8 ranks (0, 4)" in " ".join(str(some).split())
    of_ranks = {each.message for each in findings_of(whole) if each.code.startswith("RANKS")}
    assert {each.message for each in findings_of(some) if each.code.startswith("RANKS")} == of_ranks != set()
    others = [each for each in findings_of(some) if not each.code.startswith("RANKS")]
    assert {rank for each in others for rank in each.ranks} <= {0, 4}
    monkeypatch.setattr("kinetoscope.outputs.summary._LARGEST_BYTES", 1000)
    assert "The rules were not asked" in str(kinetoscope.summary(MLP))
    none = kinetoscope.summary(path)
    assert waits in none.blocks
    assert [each.code[:5] for each in findings_of(none)] == ["RANKS"] * len(of_ranks)


def findings_of(page: Page) -> list[Finding]:
    [block] = [block for block in page.blocks if isinstance(block, FindingsBlock)]
    return [row.finding for row in block.findings if row.finding is not None]


def test_each_trace_is_read_once_for_all_that_is_on_the_screen() -> None:
    job = kinetoscope.read(RANKS)
    reads: list[int] = []

    def load(source: Source) -> Trace:
        reads.append(source.rank)
        return job.engine.trace(source)

    kinetoscope.summary(replace(job, engine=Threads(load, jobs=1, keep=0)))
    assert sorted(reads) == [0, 1]


def test_several_paths_are_one_report(tmp_path: Path) -> None:
    paths = sorted(map(str, RANKS.glob("*.json.gz")))
    output = str(tmp_path / "run.html")
    assert main(["report", *paths, "-o", output, "--sections", "distributed"]) == 0
    kinetoscope.report(kinetoscope.read(paths), tmp_path / "same.html", sections=["distributed"])
    assert (tmp_path / "same.html").read_bytes() == Path(output).read_bytes()
