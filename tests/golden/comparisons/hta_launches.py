"""HTA's launch statistics: the distribution of the durations of calls, of their kernels, and of the delays."""

from __future__ import annotations

from typing import Any

import polars as pl

from kinetoscope import launches
from tests.golden.comparison import fewest
from tests.golden.hta import Case, described
from tests.golden.outcome import Outcome

ANALYSIS = "launches"
SECTIONS = ("cuda_kernel_launch_stats", "last__cuda_kernel_launch_stats")
RULES = ("fixed list of launches", "launches with recorded work")

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "runFunction - job_prep_and_submit_for_execution")
COPIES = ("cudaMemcpyAsync", "cudaMemsetAsync")
COLUMNS = {"cpu_duration": "duration", "gpu_duration": "work_duration", "launch_delay": "delay"}


def compare(case: Case) -> Outcome:
    golden = {
        (copies.endswith("True"), int(rank)): {
            "n": found["n"],
            **{its: found[its] or {"count": 0} for its in COLUMNS},
            "first": found["first5_by_correlation"],
        }
        for copies, ranks in case.golden.items()
        for rank, found in ranks.items()
    }
    return fewest(golden, lambda rules: answer(case, rules), RULES, 0.01 if case.tolerance else 0.0001)


def answer(case: Case, rules: frozenset[str]) -> dict[Any, Any]:
    job = case.job()
    frame = launched(job, rules)
    return {
        (copies, rank): _of(
            frame.filter(
                (pl.col("rank") == rank) & (copies | ~pl.col("kind").is_in(["memcpy", "memset"]).fill_null(False))
            )
        )
        for copies in (True, False)
        for rank in job.ranks
    }


def launched(job: Any, rules: frozenset[str]) -> pl.DataFrame:
    """Our launches; on request those whose work was recorded, and those that HTA knows by name."""
    frame = launches(job).frame
    if "launches with recorded work" in rules:
        frame = frame.filter(pl.col("work") > 0)
    return frame.filter(pl.col("name").is_in(LAUNCHES + COPIES)) if "fixed list of launches" in rules else frame


def _of(frame: pl.DataFrame) -> dict[str, Any]:
    numbers = {its: (frame[name].fill_null(-1) / 1000).to_list() for its, name in COLUMNS.items()}
    ordered = sorted(zip(frame["correlation"], *numbers.values(), strict=True))[:5]
    return {
        "n": len(frame),
        **{its: described(values) for its, values in numbers.items()},
        "first": [dict(zip(("correlation", *numbers), row, strict=True)) for row in ordered],
    }
