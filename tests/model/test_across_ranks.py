"""Rows of several ranks as one: each column by what it declares."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinetoscope
from kinetoscope import ANALYSES, Job, read
from kinetoscope.cli import main
from kinetoscope.errors import UsageError
from kinetoscope.model.across_ranks import over_ranks
from kinetoscope.model.analysis import Analysis
from kinetoscope.schema import Column, MeanBy, RatioOf, Result, Schema, ShareOf
from tests.catalog.samples import SHARED, required
from tests.conftest import first_quick
from tests.drawn import Event, kernel, written

COMBINABLE = [analysis for analysis in ANALYSES if not analysis.not_over_ranks]
TABLE = Schema(
    Column("rank", pl.Int64, "Rank."),
    Column("device", pl.Int64, "Device."),
    Column("name", pl.String, "Name."),
    Column("calls", pl.Int64, "Calls."),
    Column("total", pl.Int64, "Time.", "ns"),
    Column("window", pl.Int64, "Window.", "ns"),
    Column("mean", pl.Float64, "Mean.", "ns"),
    Column("share", pl.Float64, "Total / sum over the device.", "fraction"),
    Column("busy_share", pl.Float64, "Total / window.", "fraction"),
    Column("p99", pl.Int64, "Percentile.", "ns"),
    Column("max", pl.Int64, "Longest.", "ns"),
    Column("unit", pl.String, "Unit."),
    across={
        "device": "device",
        "sum": "calls total window",
        MeanBy("calls"): "mean",
        ShareOf("total"): "share",
        RatioOf("total", "window"): "busy_share",
        "own": "p99",
        "greatest": "max",
        "agreed": "unit",
    },
)
Row = dict[str, Any]


def table(rows: list[Row]) -> Result:
    """`rows` with the columns that follow from the others."""
    of_device: dict[tuple[int, int], int] = {}
    for row in rows:
        place = row["rank"], row["device"]
        of_device[place] = of_device.get(place, 0) + row["total"]
    full = [
        {
            **row,
            "mean": row["total"] / row["calls"],
            "share": row["total"] / of_device[row["rank"], row["device"]],
            "busy_share": row["total"] / row["window"],
        }
        for row in rows
    ]
    return Result(pl.DataFrame(full, schema=TABLE.types), TABLE)


@st.composite
def tables(draw: st.DrawFn) -> list[Row]:
    places = draw(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 2), st.sampled_from("abc")), min_size=1))
    number = st.integers(1, 10**12)
    return [
        {
            "rank": rank,
            "device": device,
            "name": name,
            "calls": draw(st.integers(1, 10**6)),
            "total": draw(number),
            "window": draw(number),
            "p99": draw(number),
            "max": draw(number),
            "unit": draw(st.sampled_from("xy")),
        }
        for rank, device, name in sorted(places)
    ]


@given(tables())
def test_sums_means_and_ends_are_those_of_the_rows(rows: list[Row]) -> None:
    result = table(rows)
    everything = sum(row["total"] for row in rows)
    joined = {how: over_ranks(result, how, 5).frame for how in ("sum", "mean", "min", "max")}
    for how, frame in joined.items():
        assert sorted(frame["name"]) == sorted({row["name"] for row in rows})
        for row in frame.to_dicts():
            alike = [each for each in rows if each["name"] == row["name"]]
            total, calls = (sum(each[name] for each in alike) for name in ("total", "calls"))
            assert row["ranks"] == len({each["rank"] for each in alike})
            assert row["unit"] == (alike[0]["unit"] if len({each["unit"] for each in alike}) == 1 else None)
            if how in ("min", "max"):
                end = min if how == "min" else max
                assert (row["total"], row["p99"]) == tuple(
                    end(each[name] for each in alike) for name in ("total", "p99")
                )
                continue
            assert row["mean"] == pytest.approx(total / calls)
            assert row["share"] == pytest.approx(total / everything)
            assert row["busy_share"] == pytest.approx(total / sum(each["window"] for each in alike))
            assert row["max"] == max(each["max"] for each in alike)
            divisor = len(alike) if how == "mean" else 1
            assert (row["total"], row["calls"]) == (pytest.approx(total / divisor, abs=0.5), calls / divisor)
    assert (
        joined["sum"]["total"].to_list() == sorted(joined["sum"]["total"], reverse=True) or result.chart_facts is None
    )
    assert "p99" not in joined["sum"].columns
    assert not {"device", "rank"} & {*joined["sum"].columns, *joined["max"].columns}


def rank(folder: Path, number: int, *events: Event) -> None:
    written(folder / f"rank{number}.json", *events, distributedInfo={"rank": number, "world_size": 3})


@pytest.fixture
def three(tmp_path: Path) -> Job:
    """Kernel a on three ranks, b on one; c is on none of the others either, and takes the rest of rank 2."""
    rank(tmp_path, 0, kernel("a", 0, 10, 1), kernel("a", 20, 30, 2))
    rank(tmp_path, 1, kernel("a", 0, 20, 1, device=1), kernel("b", 50, 60, 2, device=1))
    rank(tmp_path, 2, kernel("a", 0, 60, 1, device=2), kernel("c", 70, 20, 2, device=2))
    return read(tmp_path)


def test_kernels_over_ranks_say_what_they_are_of(three: Job) -> None:
    result = kinetoscope.kernels(three, across_ranks="sum")
    columns = ("ranks", "name", "calls", "total", "share", "mean", "min", "max")
    assert result.frame.select(columns).rows() == [
        (3, "a", 4, 120, 0.6, 30, 10, 60),
        (1, "b", 1, 60, 0.3, 60, 60, 60),
        (1, "c", 1, 20, 0.1, 20, 20, 20),
    ]
    assert "median" not in result.schema
    assert result.schema["total"].doc.endswith("Sum over ranks.")
    assert result.notes[:3] == (
        "Sum over 3 ranks, by name and kind.",
        "2 of 3 rows are not on every rank: `ranks` says how many have the row.",
        "Left out, as they do not follow from those of the ranks: median, p99; min and max have them.",
    )
    mean = kinetoscope.kernels(three, across_ranks="mean")
    assert mean.frame.select("ranks", "name", "calls", "total").row(0) == (1, "b", 1.0, 60)
    assert mean.frame.filter(name="a").select("calls", "total", "share", "mean").row(0) == (4 / 3, 40, 0.6, 30)
    greatest = kinetoscope.kernels(three, across_ranks="max").frame.filter(name="a")
    assert greatest.select("calls", "total", "median").row(0) == (2, 60, 60)


def test_launches_of_one_name_stay_apart_where_they_are_asked_apart(tmp_path: Path) -> None:
    for number, blocks in ((0, 8), (1, 16), (2, 8)):
        rank(tmp_path, number, kernel("a", 0, 10, 1, grid=[blocks, 1, 1], block=[32, 1, 1]))
    by_launch = kinetoscope.kernels(read(tmp_path), group_by="launch", across_ranks="sum").frame
    assert sorted(by_launch.select("grid", "ranks", "total").rows()) == [("[16, 1, 1]", 1, 10), ("[8, 1, 1]", 2, 20)]
    by_name = kinetoscope.kernels(read(tmp_path), across_ranks="sum").frame
    assert by_name.select("grid", "block", "ranks").rows() == [(None, "[32, 1, 1]", 3)]


def test_cycles_of_a_rank_are_recordings_of_their_own(tmp_path: Path) -> None:
    for cycle, duration in ((0, 10), (1, 30)):
        event = kernel("a", 0, duration, 1)
        written(tmp_path / f"w_0.{cycle + 1000}.pt.trace.json", event, distributedInfo={"rank": 0, "world_size": 1})
    result = kinetoscope.kernels(read(tmp_path), across_ranks="mean")
    assert result.frame.select("ranks", "total", "max").rows() == [(1, 20, 30)]
    assert result.notes[0].startswith("Mean over 1 rank (2 files, a file a cycle)")
    assert "cycle" not in result.schema


def test_what_cannot_be_summed_says_why(three: Job) -> None:
    with pytest.raises(UsageError, match="compares ranks"):
        kinetoscope.stragglers(three, across_ranks="sum")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="single events or instants"):
        kinetoscope.launches(three, across_ranks="sum")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="it can be each, sum, mean, min, max"):
        kinetoscope.kernels(three, across_ranks="total")  # type: ignore[arg-type]


@pytest.mark.parametrize("analysis", first_quick(COMBINABLE), ids=lambda analysis: analysis.name)
def test_of_real_ranks_each_key_is_one_row_and_sums_are_kept(analysis: Analysis) -> None:
    job = read(required(SHARED / "dlrm_ddp_v100_8rank"), jobs=2)
    each = analysis(job).frame
    for how in ("sum", "mean", "min", "max"):
        result = analysis(job, across_ranks=how)
        texts = [column.name for column in result.schema if column.dtype == pl.String and column.across != "agreed"]
        keys = [column.name for column in result.schema if column.across == "key"]
        frame = result.frame.select(*texts, *(key for key in keys if key not in texts))
        assert not frame.is_duplicated().any() if frame.width else len(result) <= 1
        for column in result.schema if how == "sum" else ():
            if column.across == "sum":
                assert result.frame[column.name].sum() == each[column.name].sum()


def test_the_command_line_asks_alike(three: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "kernels", three.path, "--across-ranks", "sum", "--format", "json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    names = [column["name"] for column in asked["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in asked["rows"]]
    assert [(row["ranks"], row["total"]) for row in rows] == [(3, 120), (1, 60), (1, 20)]
    assert main(["show", "stragglers", three.path, "--across-ranks", "sum"]) == 2
    assert "stragglers compares ranks: its rows cannot be summed over them" in capsys.readouterr().err
