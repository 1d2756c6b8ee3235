"""A fourth kind of companions is one module and one line: here, dumps of NCCL's flight recorder."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import pytest

from kinetoscope.cli.shared.options import Parser, add_reading
from kinetoscope.errors import NotATraceError
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.companions import COMPANIONS, Companion, CompanionPaths
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.job.companion_files import CompanionFiles
from kinetoscope.reading import read
from kinetoscope.server.runs.run import ReadKeywords
from tests import drawn


def dump(source: Source, url: str) -> Any:
    with opened(source, url=url) as blocks:
        return json.loads(b"".join(blocks))


FILES = CompanionFiles(
    ("flight",), lambda _, head: b'"nccl_version"' in head(), "no dump of NCCL's flight recorder", dump
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run of two ranks with a dump of each beside it, and what is none; the kind is registered."""
    module = ModuleType("flight")
    module.FILES = FILES  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kinetoscope.readers.job.flight", module)
    before = [*COMPANIONS]
    COMPANIONS.append(Companion("flight", "dumps of NCCL's flight recorder", "flight"))
    (tmp_path / "flight").mkdir()
    for rank in (0, 1):
        facts = {"distributedInfo": {"rank": rank, "world_size": 2}}
        drawn.written(tmp_path / f"rank{rank}.json", drawn.op("aten::mm", 0, 10), **facts)
        text = json.dumps({"nccl_version": "2.27", "entries": [rank]})
        (tmp_path / "flight" / f"nccl_trace_rank_{rank}").write_text(text)
    (tmp_path / "flight" / "other_rank_0").write_bytes(pickle.dumps([1]))
    yield tmp_path
    COMPANIONS[:] = before


def entries(run: Path, **named: Any) -> list[list[int]]:
    job = read(run, **named)
    return [[each["entries"][0] for each in job.trace(rank).companions("flight")] for rank in job.ranks]


def test_it_is_found_beside_the_traces_and_read_when_it_is_asked_for(run: Path) -> None:
    assert entries(run) == [[0], [1]]
    trace = read(run).trace(1)
    assert trace.companions("flight")[0] is trace.companions("flight")[-1]
    assert trace.companions("flight")[:1] == [{"nccl_version": "2.27", "entries": [1]}]
    assert len(trace.companions("snapshot")) == 0


def test_it_is_named_or_left_out(run: Path) -> None:
    mine = run / "mine"
    mine.write_text((run / "flight/nccl_trace_rank_1").read_text())
    assert entries(run, flight=mine) == [[1], [1]]
    assert entries(run, flight="off") == [[], []]
    with pytest.raises(NotATraceError, match=r"rank0\.json: no dump of NCCL's flight recorder"):
        entries(run, flight=[run / "rank0.json"])


@pytest.mark.usefixtures("run")
def test_it_has_an_option() -> None:
    parser = Parser()
    add_reading(parser)
    assert "dumps of NCCL's flight recorder; off: none" in " ".join(parser.format_help().split())
    assert parser.parse_args(["x", "--flight", "off"]).flight == ["off"]


def test_a_kind_that_there_is_not_is_refused(run: Path) -> None:
    wrong: Any = {"flights": run}
    with pytest.raises(TypeError, match="no argument 'flights'"):
        read(run, **wrong)


def test_the_types_name_each_kind() -> None:
    assert list(get_type_hints(CompanionPaths)) == [each.name for each in COMPANIONS]
    assert get_type_hints(ReadKeywords).keys() >= get_type_hints(CompanionPaths).keys()
