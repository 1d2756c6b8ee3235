"""A format that is registered opens by all that names a file; the reader is that of CONTRIBUTING.md."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import fsspec
import pytest

from kinetoscope import extensions, kernels
from kinetoscope.errors import BrokenTraceError, NotATraceError
from kinetoscope.readers import registry
from kinetoscope.readers.registry import READERS, recognised
from kinetoscope.reading import read
from tests.notes import codes
from tests.readers import servers

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"
SPANS = b"""start,duration,name,thread,category
0,100,ProfilerStep#0,1,user_annotation
20,60,gemm,7,kernel
"""


@pytest.fixture
def csv_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `runs`, with the reader as an extension; the reader is `csv_spans.py` beside it."""
    monkeypatch.setattr(extensions, "_modules", {})
    [code] = re.findall(r"^```python\n(# file: csv_spans\.py\n.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert code.count("\n") <= 45
    (tmp_path / "csv_spans.py").write_text(code)
    extensions.extend(tmp_path / "csv_spans.py")
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "run.csv").write_bytes(SPANS)
    return runs


def is_read(path: str | Path) -> None:
    job = read(str(path), jobs=1)
    assert [each.reader for each in job.sources] == ["csv spans"]
    assert kernels(job).frame["name"].to_list() == ["gemm"]


WAYS: dict[str, Callable[[Path], str | Path]] = {
    "file": lambda runs: runs / "run.csv",
    "folder": lambda runs: runs,
    "folder above": lambda runs: runs.parent,
    "pattern": lambda runs: runs / "*.csv",
    "pattern of folders": lambda runs: runs.parent / "r*",
    "another name": lambda runs: (runs / "run.csv").rename(runs / "run.txt"),
    "url of a file": lambda runs: f"file://{runs}/run.csv",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_registered_format_opens_by(csv_spans: Path, way: str) -> None:
    is_read(WAYS[way](csv_spans))


def test_it_opens_compressed_and_in_an_archive(csv_spans: Path) -> None:
    for name in ("run.csv.gz", "named otherwise"):
        (csv_spans / name).write_bytes(gzip.compress(SPANS))
        is_read(csv_spans / name)
    with zipfile.ZipFile(csv_spans / "runs.zip", "w") as archive:
        archive.writestr("inside/run.csv", SPANS)
    is_read(f"zip://inside/run.csv::{csv_spans}/runs.zip")


@pytest.fixture
def memory() -> Iterator[str]:
    system = fsspec.filesystem("memory")
    system.pipe("/spans/run.csv", SPANS)
    yield "memory://spans"
    with suppress(FileNotFoundError):
        system.rm("/spans", recursive=True)


@pytest.mark.usefixtures("csv_spans")
@pytest.mark.parametrize("part", ["/run.csv", "", "/*.csv"])
def test_it_opens_in_a_store(memory: str, part: str) -> None:
    is_read(memory + part)


def test_it_opens_at_a_url(csv_spans: Path) -> None:
    servers.require("aiohttp")
    with servers.Web({"/run.csv": (csv_spans / "run.csv").read_bytes()}).running() as web:
        is_read(f"{web}/run.csv")


def test_one_line_makes_it_a_part_of_the_registry(csv_spans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = registry.readers()["csv spans"]
    monkeypatch.setattr(extensions, "_modules", {})
    with pytest.raises(NotATraceError, match="plain text"):
        read(csv_spans / "run.csv").trace()
    monkeypatch.setitem(READERS, reader.name, reader)
    is_read(csv_spans / "run.csv")
    is_read(csv_spans)


def test_what_is_wrong_in_it_is_told(csv_spans: Path) -> None:
    (csv_spans / "run.csv").write_bytes(SPANS + b"x,1,aten::mm,1,cpu_op\n")
    with pytest.raises(BrokenTraceError, match="a row that is no span: could not convert"):
        read(csv_spans / "run.csv").trace()


def test_a_folder_may_hold_files_of_that_name_that_are_something_else(csv_spans: Path) -> None:
    (csv_spans / "prices.csv").write_bytes(b"fruit,price\npear,2\n")
    job = read(csv_spans)
    assert [each.name for each in job.sources] == ["run.csv"]
    assert codes(job.notes) == ["NO_TRACE"]


@pytest.mark.parametrize(
    ("head", "reader"),
    [
        (pickle.dumps({"segments": [], "device_traces": [[]]}, 4), "snapshot"),
        (b'{"segments": [{"device": 0', "snapshot"),
        (b"[[-1, 1, 37888, 7], [-1, 1, 512, 7], [", "category series"),
        (json.dumps({"traceEvents": []}).encode(), "kineto"),
        (b"", "kineto"),
        (b"\x00\x01", "kineto"),
    ],
)
def test_each_format_is_recognised_by_how_it_begins_whatever_its_name(head: bytes, reader: str) -> None:
    assert recognised("any.name", head).name == reader
