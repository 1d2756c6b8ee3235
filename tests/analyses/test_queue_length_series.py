from __future__ import annotations

from pathlib import Path

import polars as pl

from kinetoscope import Selection, queue_length, queue_length_series, read
from tests import drawn
from tests.catalog.samples import SHARED, required


def test_a_row_for_each_change(tmp_path: Path) -> None:
    events = [
        *(drawn.launch(10, 5, 1), drawn.launch(20, 5, 2), drawn.launch(50, 5, 3), drawn.launch(60, 5, 4)),
        *(drawn.kernel("gemm", 40, 10, 1), drawn.kernel("gemm", 50, 10, 2), drawn.kernel("gemm", 80, 10, 3)),
        drawn.kernel("gemm", 90, 10, 4, stream=2),
    ]
    job = drawn.job(tmp_path, *events)
    assert queue_length_series(job).frame.select("device", "stream", "time", "length").rows() == [
        (0, 2, 50, 1),
        (0, 2, 80, 0),
        (0, 7, 0, 1),
        (0, 7, 10, 2),
        (0, 7, 30, 1),  # at 40 one leaves and one enters: no change
        (0, 7, 70, 0),
    ]
    cut = queue_length_series(job, select=Selection(time=(20, 60))).frame
    assert cut.select("stream", "time", "length").rows() == [(2, 50, 1), (2, 60, 0), (7, 20, 2), (7, 30, 1), (7, 60, 0)]


def test_the_curve_has_the_numbers_of_the_table() -> None:
    job = read(required(SHARED) / "trace_diff/test", jobs=1)
    table = queue_length(job).frame
    rows = queue_length_series(job).frame.with_columns(
        lasts=pl.col("time").shift(-1).over("stream", order_by="time") - pl.col("time")
    )
    curve = rows.group_by("stream", maintain_order=True).agg(
        pl.col("length").max().alias("max"),
        pl.col("lasts").filter(pl.col("length") > 0).sum().alias("queued"),
        (pl.col("length") * pl.col("lasts")).sum().alias("area"),
        pl.col("length").last().alias("end"),
        pl.col("length").min().alias("least"),
    )
    assert curve.select("stream", "max", "queued").equals(table.select("stream", "max", "queued"))
    assert (curve["area"] / table["window"]).to_list() == table["mean"].to_list()
    assert (curve["end"].to_list(), curve["least"].to_list()) == ([0] * 4, [0] * 4)
