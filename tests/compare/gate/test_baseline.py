"""The baseline file: what it keeps, that it says the same when it is written again, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.compare.gate.baseline import FORMAT, dump, load, read, save
from kinetoscope.compare.gate.gate import gate
from kinetoscope.compare.gate.limits import Limit
from kinetoscope.compare.statistics.numbers import Environment, MetricSeries, Numbers
from kinetoscope.errors import InputError, NotFoundError
from kinetoscope.notes import Note

RUN = Numbers(
    "run",
    Environment(("NVIDIA H100", "NVIDIA H100 NVL"), 8, {"torch": "2.9"}),
    {
        "step_time": MetricSeries((100_000.0, 101_000.5, 99_000.0)),
        "memory_peak": MetricSeries((5e9,), "device"),
        "throughput": MetricSeries((320.0, 321.25, 319.0)),
        "op:aten::mm": MetricSeries((50_000.0, 50_001.0, 0.0), "device"),
        "op:aten::small": MetricSeries((100.0, 100.0, 100.0), "device"),
        "kernel:gemm<a=1>|`\n\u202e": MetricSeries((50_000.0, 50_000.0, 50_000.0), "device"),
    },
    (Note("A", "a note"),),
)


def document(**changed: Any) -> str:
    return json.dumps({**json.loads(dump([RUN])), **changed})


def test_it_keeps_what_matters_and_says_what_it_ran_on() -> None:
    [found] = read(dump([RUN]), "perf.json")
    small = {name: series for name, series in RUN.series.items() if name != "op:aten::small"}
    assert found == replace(RUN, path="perf.json", series=small, notes=(), complete=False)


def test_what_has_a_limit_is_kept_however_small() -> None:
    [found] = read(dump([RUN], [Limit("op:aten::small")]))
    assert found.series["op:aten::small"] == RUN.series["op:aten::small"]


def test_written_again_it_is_the_same_text() -> None:
    text = dump([RUN, RUN, RUN])
    assert dump(read(text)) == text
    assert json.loads(text)["kinetoscope_baseline"] == FORMAT
    assert text.isascii()
    assert max(len(line) for line in text.splitlines()) < 200


def test_a_change_of_one_metric_is_a_change_of_one_line() -> None:
    other = replace(RUN, series={**RUN.series, "step_time": MetricSeries((1.0, 2.0, 3.0))})
    kept = [Limit("op:aten::mm"), Limit("op:aten::small")]
    pairs = zip(dump([RUN], kept).splitlines(), dump([other], kept).splitlines(), strict=True)
    assert sum(one != two for one, two in pairs) == 1


def test_a_file_and_back(tmp_path: Path) -> None:
    save(tmp_path / "perf.json", [RUN])
    save(tmp_path / "perf.json", [RUN, RUN])
    assert len(load(tmp_path / "perf.json")) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["perf.json"]


def test_it_is_small_for_a_real_run(shared_traces: Path) -> None:
    from kinetoscope.compare.statistics.numbers import numbers
    from kinetoscope.reading import read as read_trace

    path = shared_traces / "resnet50_v100" / "num_workers_0"
    found = numbers(read_trace(path, jobs=1))
    text = dump([found])
    assert len(text) < 20_000
    assert gate(read(text), [found]).checks[0].verdict.change == pytest.approx(0, abs=1e-9)


# --- files of others


def test_fields_and_metrics_of_newer_versions_are_left_aside() -> None:
    text = document(written_by="the future", more={"a": [1]})
    newer = json.loads(text)
    newer["runs"][0]["metrics"]["energy"] = "any thing"
    newer["runs"][0]["metrics"]["step_time"]["unit"] = "ns"
    newer["runs"][0]["host"] = 5
    assert read(json.dumps(newer)) == read(dump([RUN]))


def test_a_newer_format_is_refused_with_advice() -> None:
    with pytest.raises(InputError, match=r"format 2, written by a newer kinetoscope; this one reads up to 1"):
        read(document(kinetoscope_baseline=2))


def test_a_metric_that_the_baseline_left_out_is_said() -> None:
    base = read(dump([RUN]), "perf.json")
    with pytest.raises(InputError, match=r"'op:aten::small' is not in perf.json, which keeps what takes 0.5%"):
        gate(base, [RUN], ["op:aten::small"])


def test_no_such_file_says_how_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="--write-baseline"):
        load(tmp_path / "perf.json")
    with pytest.raises(InputError):
        load(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not text"):
        load(tmp_path / "bytes")
    with pytest.raises(InputError, match="does its folder exist"):
        save(tmp_path / "none" / "perf.json", [RUN])


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "big.json").open("wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(InputError, match="at most"):
        load(tmp_path / "big.json")


def with_metric(value: Any, name: str = "step_time") -> str:
    found = json.loads(dump([RUN]))
    found["runs"][0]["metrics"][name] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"traceEvents": []}',
        "[" * 100_000,
        '{"kinetoscope_baseline": NaN}',
        document(kinetoscope_baseline=True),
        document(kinetoscope_baseline=0),
        document(kinetoscope_baseline="1"),
        document(runs=[]),
        document(runs={}),
        document(runs=[5]),
        document(runs=[{}]),
        document(runs=[{"metrics": {}}]),
        with_metric([]),
        with_metric({"values": 5}),
        with_metric({"values": [True]}),
        with_metric({"values": [-1]}),
        with_metric({"values": ["1"]}),
        with_metric({"values": [10**400]}),
        with_metric({"values": [1], "where": 5}),
        dump([RUN]).replace("[100000", "[1e999"),
        dump([RUN]).replace('"ranks": 8', '"ranks": -8'),
        dump([RUN]).replace('"ranks": 8', '"ranks": 1e3'),
        dump([RUN]).replace('["NVIDIA H100"', "[5"),
        dump([RUN]).replace('{"torch": "2.9"}', "[]"),
        dump([RUN])[:-20],
    ],
)
def test_what_is_no_baseline_is_one_line(text: str) -> None:
    with pytest.raises(InputError) as error:
        read(text, "perf.json")
    assert "perf.json" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["step_time", "op:a", "metrics", "values", "environment", "where"]), JSON))
def test_any_json_is_a_baseline_or_one_line(run: dict[str, Any]) -> None:
    for text in (
        json.dumps({"kinetoscope_baseline": 1, "runs": [run]}),
        json.dumps({"kinetoscope_baseline": 1, "runs": [{"metrics": run, "environment": run.get("environment", {})}]}),
    ):
        try:
            found = read(text)
        except InputError:
            continue
        values = [value for numbers in found for series in numbers.series.values() for value in series.values]
        assert all(math.isfinite(value) and value >= 0 for value in values)
