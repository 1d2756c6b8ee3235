"""A trace as Parquet: written and read it is the same trace; what is damaged or made to harm is refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import polars as pl
import pytest

from kinetoscope import ANALYSES, Trace, read
from kinetoscope.errors import BrokenTraceError, LimitError, NotFoundError
from kinetoscope.model.tables import parquet
from kinetoscope.model.tables.tables import STORED_TABLES, TABLES
from kinetoscope.readers.json.kineto import load as load_json
from kinetoscope.readers.parquet import load
from kinetoscope.readers.registry import READERS
from kinetoscope.readers.snapshot.alone import load as load_snapshot
from kinetoscope.readers.snapshot.timeline_files import load as load_series
from kinetoscope.views.exports import trace_json, trace_parquet
from tests import drawn
from tests.catalog.samples import BUNDLED, SHARED, bundled, required

SMALL = BUNDLED / "mlp_default.pt.trace.json.gz"

ODD = [
    "[]",
    '[{"ph": "X"}, 17, "text", null, [1, {"a": 2}]]',
    '{"a": 1, "traceEvents": [], "b": [2, {"c": null}], "a": 3}',
    '{"traceEvents": [{"pid": "Spans", "tid": "PyTorch"}, {"pid": null, "tid": 1.5}, {"pid": true, "tid": [1]}]}',
    '{"traceEvents": [{"ts": -1, "dur": 0}, {"ts": "12.5", "dur": "3"}, {"ts": null}, {"ts": 1e3, "dur": -5}]}',
    '{"\\ud800": "\\ud800", "traceEvents": [{"name": "x\\udfff\\u0041/\\/", "pid": "\\ud800", "args": {"": NaN}}]}',
    '{"traceEvents": [{"args": {"a": 1}, "ph": "X", "args": {"b": 123456789012345678901234567890}, "ph": "i"}]}',
]


def json_of(trace: Trace) -> str:
    return "".join(trace_json.pieces(trace))


def stored_and_read(trace: Trace, folder: Path) -> Trace:
    trace_parquet.write(trace, folder)
    return read(folder).trace()


def is_same(trace: Trace, again: Trace) -> None:
    assert json_of(again) == json_of(trace)
    assert again.nbytes == trace.nbytes
    assert (again.reading, again.health) == (trace.reading, trace.health)
    for name in ("ph", "category", "name", "track", "start", "end", "shape", "first", "values"):
        mine, other = getattr(trace, name), getattr(again, name)
        assert (mine.dtype, mine.tolist()) == (other.dtype, other.tolist())
        assert not other.flags.writeable


# --- round trips


@pytest.mark.slow
@pytest.mark.parametrize("file", bundled(), ids=lambda path: path.name.partition(".")[0])
def test_a_trace_and_all_answers_come_back_as_they_were(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / file.name  # by which one of the answers calls it
    job = read(file, jobs=1, compile="off")  # what stands beside the file does not stand beside the other one
    is_same(job.trace(), stored_and_read(job.trace(), folder))
    again = read(folder)
    for analysis in ANALYSES:
        assert analysis(again).frame.equals(analysis(job).frame), analysis.name
        assert analysis(again).notes == analysis(job).notes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hostile/*", "mi250_train/*", "mtia/*rank_0*", "trace_compare/base/*", "broken/*"])
def test_so_do_traces_of_other_eras_and_vendors(name: str, tmp_path: Path) -> None:
    for number, file in enumerate(sorted(required(SHARED).glob(name))):
        trace = read(file, jobs=1).trace()
        is_same(trace, stored_and_read(trace, tmp_path / str(number)))


@pytest.mark.parametrize("text", ODD)
def test_so_do_odd_values(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(text)
    trace = read(tmp_path / "odd.json").trace()
    is_same(trace, stored_and_read(trace, tmp_path / "again"))


def test_it_can_be_stored_twice_in_the_same_place(tmp_path: Path) -> None:
    first = drawn.job(tmp_path, *(drawn.op(f"op {n}", n, 1) for n in range(9))).trace()
    trace_parquet.write(first, tmp_path / "out")
    second = drawn.job(tmp_path, drawn.op("aten::mm", 0, 1)).trace()
    assert len(stored_and_read(second, tmp_path / "out")) == 1


def test_the_tables_say_what_their_columns_mean(tmp_path: Path) -> None:
    trace_parquet.write(read(SMALL).trace(), tmp_path)
    for name, declared in ((name, TABLES[name]) for name in STORED_TABLES):
        meanings = json.loads(pl.read_parquet_metadata(tmp_path / f"{name}.parquet")[parquet.COLUMNS])
        assert meanings["doc"] == declared.doc
        assert list(meanings["columns"]) == pl.read_parquet(tmp_path / f"{name}.parquet").columns
        assert all(set(each) == {"unit", "doc"} for each in meanings["columns"].values())


# --- which folders are read


def test_folders_of_ranks_are_found(tmp_path: Path) -> None:
    job = read(BUNDLED / "ddp2")
    for source in job.sources:
        trace_parquet.write(job.trace(source.rank), tmp_path / "out" / f"of {source.rank}")
    again = read(tmp_path / "out")
    assert [(source.name, source.rank, source.reader) for source in again.sources] == [
        ("of 0", 0, "parquet"),
        ("of 1", 1, "parquet"),
    ]
    assert again.notes == job.notes
    for analysis in ANALYSES:
        if analysis.name != "trace_info":  # it tells the name of the file
            assert analysis(again).frame.equals(analysis(job).frame), analysis.name


def test_a_copy_beside_its_original_is_not_a_second_trace(tmp_path: Path) -> None:
    shutil.copy(SMALL, tmp_path / SMALL.name)
    trace_parquet.write(read(SMALL).trace(), tmp_path / "copy")
    assert [source.reader for source in read(tmp_path).sources] == ["kineto"]
    assert [source.reader for source in read(tmp_path / "copy").sources] == ["parquet"]


def test_other_folders_of_parquet_files_are_no_traces(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "events.parquet")
    with pytest.raises(NotFoundError, match="no traces in this folder"):
        read(tmp_path)


def test_it_can_be_read_from_elsewhere(tmp_path: Path) -> None:
    trace = read(SMALL).trace()
    trace_parquet.write(trace, tmp_path)
    system = fsspec.filesystem("memory")
    system.put(str(tmp_path), "/parquet/run", recursive=True)
    try:
        job = read("memory://parquet")
        assert [source.reader for source in job.sources] == ["parquet"]
        is_same(trace, job.trace())
    finally:
        system.rm("/parquet", recursive=True)


def test_readers_are_told_apart_by_the_registry() -> None:
    expected = [("kineto", load_json), ("parquet", load), ("snapshot", load_snapshot), ("category series", load_series)]
    assert [(name, reader.load) for name, reader in READERS.items()][: len(expected)] == expected


# --- what is damaged, or made to harm


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored trace, not to be changed."""
    folder = tmp_path_factory.mktemp("whole")
    args: dict[str, Any] = {"External id": 7, "Input Dims": [[7]]}
    events = [drawn.op(f"op {n}", n, 10, **args) for n in range(20)]
    trace_parquet.write(drawn.job(folder, *events, with_stack=1).trace(), folder / "out")
    return folder / "out"


def harmed(whole: Path, folder: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Path:
    shutil.copytree(whole, folder / "out")
    file = folder / "out" / parquet.FOLDER / f"{name}.parquet"
    metadata = pl.read_parquet_metadata(file)
    kept = {parquet.MANIFEST: metadata[parquet.MANIFEST]} if parquet.MANIFEST in metadata else None
    change(pl.read_parquet(file)).write_parquet(file, metadata=kept)
    return folder / "out"


def everywhere(column: str, value: int) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.with_columns(pl.lit(value, frame.schema[column]).alias(column))


def items(*packed: int) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Another first shape."""
    return lambda frame: pl.DataFrame({"items": [list(packed), *frame["items"].to_list()[1:]]}, schema=frame.schema)


HARM: list[tuple[str, Callable[[pl.DataFrame], pl.DataFrame], str]] = [
    ("events", everywhere("name", 10_000), "no possible name"),
    ("events", everywhere("category", -2), "no possible category"),
    ("events", everywhere("track", 99), "no possible track"),
    ("events", everywhere("shape", 99), "no possible shape"),
    ("events", everywhere("start", 1 << 62), "no possible start"),
    ("events", everywhere("start", -(1 << 63)), "no possible start"),
    ("events", everywhere("end", -(1 << 63)), "no possible end"),
    ("events", lambda frame: frame.drop("end"), "events has the columns"),
    ("events", lambda frame: frame.cast({"name": pl.Int64}), "events has the columns"),
    ("events", lambda frame: frame.with_columns(pl.lit(None, pl.Int32).alias("name")), "missing values"),
    ("events", lambda frame: frame.head(-1), "values and events disagree"),
    ("values", lambda frame: frame.head(-1), "values and events disagree"),
    ("values", everywhere("value", 1 << 40), "a string that is not there"),
    ("values", everywhere("value", -1), "a string that is not there"),
    ("strings", everywhere("offset", 1 << 40), "begins where none can"),
    ("strings", everywhere("offset", -8), "begins where none can"),
    ("strings", everywhere("offset", 9), "begins where none can"),
    ("strings", everywhere("offset", 8), "overlap"),
    ("strings", lambda frame: frame.head(3), "too few strings"),
    ("strings", lambda frame: frame[1:], "special keys"),
    ("strings", lambda frame: frame[::-1], "overlap"),
    ("arena", lambda frame: frame.head(0), "begins where none can"),
    ("arena", lambda frame: pl.DataFrame({"bytes": [frame["bytes"][0][:-1]]}), "ends where none can"),
    ("arena", lambda frame: pl.DataFrame({"bytes": [b"\xff" * len(frame["bytes"][0])]}), "ends where none can"),
    ("shapes", items(10_000 << 8), "a key or kind that is none"),
    ("shapes", items(-1), "a key or kind that is none"),
    ("shapes", items(50 << 2), "a key or kind that is none"),
    ("shapes", items(1), "before its arguments begin"),
    ("shapes", items(0 << 8 | 9 << 2, 0 << 8 | 0 << 2 | 2), "an object and none"),
    ("shapes", items(0 << 8 | 8 << 2), "cannot be"),  # args under the key ph
    ("shapes", items(3 << 8 | 9 << 2), "cannot be"),  # pid in a column
    ("shapes", items(0 << 8 | 11 << 2), "cannot be"),  # ph as a time
    ("shapes", items(0 << 8 | 0 << 2 | 3), "cannot be"),  # a level that is none
    ("shapes", lambda frame: pl.DataFrame({"items": [[None]]}, schema=frame.schema), "missing values"),
    ("shapes", lambda frame: frame.head(0), "no possible shape"),
    ("tracks", lambda frame: frame.head(0), "no possible track"),
    ("tracks", lambda frame: frame.with_columns(pl.lit("{").alias("pid")), "damaged"),
    ("tracks", lambda frame: frame.with_columns(pl.lit("[" * 100_000).alias("tid")), "nested too deeply"),
    ("members", lambda frame: frame.head(0), "more values before the events"),
    ("members", lambda frame: frame.with_columns(pl.lit(b"\xff").alias("key")), "decode"),
]


@pytest.mark.parametrize(("name", "change", "message"), HARM)
def test_what_cannot_be_is_refused(
    whole: Path, tmp_path: Path, name: str, change: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    with pytest.raises(BrokenTraceError, match=message) as caught:
        read(harmed(whole, tmp_path, name, change)).trace()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("convert the original trace again")


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "[]",
        "{",
        '{"version": 2}',
        '{"version": 1}',
        "[" * 100_000,
        *(
            {name: value}
            for name in ("rank", "text_bytes", "members_before_events", "arena_bytes", "reading")
            for value in (-7, "1", 1 << 70, None, [{"code": 1}])
        ),
    ],
)
def test_so_is_a_manifest_that_is_none(whole: Path, tmp_path: Path, manifest: str | dict[str, Any]) -> None:
    shutil.copytree(whole, tmp_path / "out")
    file = tmp_path / "out" / parquet.FOLDER / "events.parquet"
    if isinstance(manifest, dict):
        manifest = json.dumps(json.loads(pl.read_parquet_metadata(file)[parquet.MANIFEST]) | manifest)
    pl.read_parquet(file).write_parquet(file, metadata={parquet.MANIFEST: manifest})
    with pytest.raises(BrokenTraceError, match="damaged: "):
        read(tmp_path / "out").trace()


@pytest.mark.parametrize("name", list(parquet.FILES))
@pytest.mark.parametrize("kept", [0, 4, 100, -30])
def test_files_that_are_cut_are_refused(whole: Path, tmp_path: Path, name: str, kept: int) -> None:
    shutil.copytree(whole, tmp_path / "out")
    file = tmp_path / "out" / parquet.FOLDER / f"{name}.parquet"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(BrokenTraceError, match="damaged: "):
        read(tmp_path / "out").trace()


def test_a_file_that_is_not_there_is_said(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "out")
    (tmp_path / "out" / parquet.FOLDER / "values.parquet").unlink()
    with pytest.raises(NotFoundError, match=r"values\.parquet: no such file"):
        read(tmp_path / "out").trace()


def test_what_is_small_in_the_file_and_huge_in_memory_is_refused(whole: Path, tmp_path: Path) -> None:
    def repeated(frame: pl.DataFrame) -> pl.DataFrame:
        return pl.DataFrame({"bytes": pl.repeat(b"x" * (1 << 20), 300, eager=True)})

    folder = harmed(whole, tmp_path, "arena", repeated)
    with pytest.raises(LimitError, match="set your own limit"):
        read(folder).trace()
    [source] = read(folder).sources
    with pytest.raises(LimitError):
        load(replace(source, options=replace(source.options, max_size=100)))


def test_bytes_changed_at_random_never_do_worse_than_an_error(whole: Path, tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    shutil.copytree(whole, tmp_path / "out")
    for name in ("arena", "strings", "shapes", "values"):
        file = tmp_path / "out" / parquet.FOLDER / f"{name}.parquet"
        content = file.read_bytes()
        for _ in range(10):
            changed = bytearray(content)
            changed[int(chance.integers(len(changed)))] ^= int(chance.integers(1, 256))
            file.write_bytes(changed)
            with suppress(BrokenTraceError, LimitError):
                json_of(read(tmp_path / "out").trace())
        file.write_bytes(content)
