"""What the steps of a serving engine take, by kind and batch."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.statistics import MEDIAN, P99
from kinetoscope.analyses.serving_steps import GAP_PARTS, SHARES, serving_steps, with_rank_waiting
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.serving.batches import bounds_of, bucket
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

_SUMMED: Final = ("duration", "device_busy", *SHARES, "gap", *GAP_PARTS, "decode_delay")

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("kind", pl.String, "prefill, decode, mixed, verify, draft or idle; null where names do not say."),
    Column("bucket", pl.String, "Requests of these steps, to the next power of two, such as 33-64; null if unknown."),
    Column("steps", pl.Int64, "Number of steps."),
    Column("batch", pl.Float64, "Mean number of requests."),
    Column("padded_batch", pl.Float64, "Mean number of requests computed for; null if not known of all steps."),
    Column("duration_median", pl.Int64, "Median duration of a step.", "ns"),
    Column("duration_p90", pl.Int64, "90th percentile: one step of ten takes longer.", "ns"),
    Column("duration_p99", pl.Int64, "99th percentile: one step of a hundred takes longer.", "ns"),
    Column("device_busy_median", pl.Int64, "Median of it.", "ns"),
    Column("gap_median", pl.Int64, "Median gap.", "ns"),
    Column("gap_p99", pl.Int64, "99th percentile of the gaps.", "ns"),
    Column("gap_cause", pl.String, "Cause of the largest part of all gaps."),
    Column("replayed", pl.Int64, "Steps of which replays of graphs have most of the device time."),
    Column("tokens_per_second", pl.Float64, "Tokens / duration."),
    Column("decode_delay", pl.Int64, "How long these steps held up requests that decode.", "ns"),
    Column("acceptance", pl.Float64, "Mean share of proposed tokens that were accepted; null if unknown.", "fraction"),
    Column("imbalance_median", pl.Int64, "Median of what the slowest rank computes longer in the same step.", "ns"),
    Column("imbalance_p99", pl.Int64, "99th percentile of it.", "ns"),
    Column("slowest", pl.Int64, "Steps in which this rank computes longest of all ranks that have the step."),
    Column("wall_median", pl.Int64, "Median length on the host.", "ns"),
    Column("tokens", pl.Int64, "New tokens; null where names do not say."),
    Column("duration", pl.Int64, "Sum of the durations of the steps, gaps included.", "ns"),
    Column("device_busy", pl.Int64, "Sum of the times in which device work of a step runs.", "ns"),
    *(Column(name, pl.Int64, f"Part of device_busy, as in serving_steps: {name}.", "ns") for name in SHARES),
    Column("gap", pl.Int64, "Sum of the gaps before the steps.", "ns"),
    *(
        Column(name, pl.Int64, f"Part of the gaps, as in serving_steps: {name.removeprefix('gap_')}.", "ns")
        for name in GAP_PARTS
    ),
    Column("engine", pl.String, "Engine whose steps they are; null if unknown."),
    Column("batch_from", pl.Int64, "Fewest requests of the bucket."),
    Column("batch_to", pl.Int64, "Most requests of the bucket."),
    across={
        "key": "engine kind bucket batch_from batch_to",
        "sum": " ".join(("steps", "replayed", "slowest", *_SUMMED)),
        "own": "batch padded_batch duration_median duration_p90 duration_p99 wall_median device_busy_median gap_median "
        "gap_p99 acceptance imbalance_median imbalance_p99 tokens_per_second",
        "agreed": "gap_cause tokens",
    },
)


def serving_summary(trace: Trace, select: Selection) -> Partial:
    """What do the steps of a serving engine take, by kind and batch?

    Method. The steps of `serving_steps`, grouped by kind and batch: 1, 2, 3–4, 5–8 requests and so on. Percentiles
    other than medians are durations that did occur (nearest rank). Of steps that several ranks have (same number, same
    name), imbalance is what the slowest rank computes longer than this one, communication left out: so long the others
    wait.

    How to read it. Median duration against batch is the scaling of decode: as long as it hardly grows, larger batches
    are free. `duration_p99` far above the median is a tail; mixed steps and prefill with a large `decode_delay` hold
    decode up. A rank that is `slowest` in most steps holds up all others of its tensor-parallel group.

    Limits. As of `serving_steps`. Groups of few steps say little about tails.
    """
    return serving_steps(trace, select)


def _by_kind_and_batch(steps: pl.DataFrame) -> pl.DataFrame:
    steps = with_rank_waiting(steps)
    batch = steps["batch"].fill_null(-1).to_numpy()
    low, high = bounds_of(bucket(batch))
    known = batch >= 0
    frame = steps.with_columns(
        batch_from=pl.Series(np.where(known, low, -1)).replace(-1, None),
        batch_to=pl.Series(np.where(known, high, -1)).replace(-1, None),
    )
    keys = [name for name in ("rank", "cycle") if name in frame.columns]
    table = frame.group_by(*keys, "engine", "kind", "batch_from", "batch_to", maintain_order=True).agg(
        pl.len().alias("steps"),
        pl.col("batch").mean(),
        pl.when(pl.col("padded_batch").null_count() == 0).then(pl.col("padded_batch").mean()).alias("padded_batch"),
        *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in ("tokens", *_SUMMED)),
        *(_quantile(name, share).alias(f"{prefix}_{label}") for name, prefix, label, share in _QUANTILES),
        (pl.col("rank_waiting") == 0).sum().alias("slowest"),
        (pl.col("replayed") > 1 - pl.col("replayed")).sum().alias("replayed"),
        pl.col("acceptance").mean(),
        # Of steps whose names say how many tokens they had.
        (pl.when(pl.col("tokens").is_not_null()).then(pl.coalesce("duration", "wall"))).sum().alias("time"),
    )
    largest = pl.max_horizontal(GAP_PARTS)
    table = table.with_columns(
        bucket=pl.when(pl.col("batch_from") == pl.col("batch_to"))
        .then(pl.col("batch_to").cast(pl.String))
        .otherwise(pl.format("{}-{}", "batch_from", "batch_to")),
        gap_cause=pl.coalesce(
            pl.when((pl.col(name) == largest) & (largest > 0)).then(pl.lit(name.removeprefix("gap_")))
            for name in GAP_PARTS
        ),
        tokens_per_second=pl.when(pl.col("time") > 0).then(pl.col("tokens") * 1e9 / pl.col("time")),
    )
    table = table.sort(*keys, "kind", "batch_from", nulls_last=True, maintain_order=True)
    return table.select(*keys, *RESULT.per_rank.names)


ANALYSIS = Analysis(
    "Serving by kind and batch",
    serving_summary,
    RESULT,
    finish=_by_kind_and_batch,
    chart=Bars("bucket", "duration_median"),
    selection_notes="never",
)

_QUANTILES: Final = (
    ("duration", "duration", "median", MEDIAN),
    ("duration", "duration", "p90", (9, 10)),
    ("duration", "duration", "p99", P99),
    ("wall", "wall", "median", MEDIAN),
    ("device_busy", "device_busy", "median", MEDIAN),
    ("gap", "gap", "median", MEDIAN),
    ("gap", "gap", "p99", P99),
    ("rank_waiting", "imbalance", "median", MEDIAN),
    ("rank_waiting", "imbalance", "p99", P99),
)
"""Columns of steps, what their quantiles are called, and the quantiles."""


def _quantile(name: str, share: tuple[int, int]) -> pl.Expr:
    """The median, or the least value that this share of the known ones does not exceed; null where none is known."""
    known, (numerator, denominator) = pl.col(name).drop_nulls(), share
    if share == MEDIAN:
        return known.median().round().cast(pl.Int64)
    return known.sort().get((known.len() * numerator + denominator - 1) // denominator - 1, null_on_oob=True)
