"""Findings of ranks as those of a job: each once, with the median of the stakes, and the ranks that it is about."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import polars as pl

from kinetoscope.advisor.finding import SEVERITIES, Finding, Stake
from kinetoscope.advisor.rules import rules
from kinetoscope.advisor.run_rules import from_row
from kinetoscope.views.sentences import join, measured, say

_MOST_RANKS: Final = 0.9
"""Share of the ranks from which on a finding is about all of them."""


def findings_of_ranks(answers: pl.DataFrame) -> tuple[float, list[Finding]]:
    """The average step, and each rank's findings over all its cycles, each weighted by its steps."""
    step = 0.0
    cycles = answers.unique(["rank", "cycle"] if "cycle" in answers.columns else ["rank"], maintain_order=True)
    time = (pl.col("step") * pl.col("steps")).sum()
    of_rank = cycles.group_by("rank").agg(pl.col("steps").sum(), time=time).select("rank", "steps", "time").iter_rows()
    steps = {rank: (count, took / count if count else 0.0) for rank, count, took in of_rank}
    if total := cycles.get_column("steps").sum():
        step = cycles.select(time / total).item()
    left_out = {rule.code for rule in rules() if rule.alone} if answers["rank"].n_unique() > 1 else ()
    by_key: dict[tuple[int, str, str], list[tuple[Finding, int]]] = {}
    for rank, row, count in answers.drop_nulls("finding").select("rank", "finding", "steps").iter_rows():
        finding = from_row(row)
        if finding.code not in left_out:
            by_key.setdefault((rank, finding.code, finding.key), []).append((finding, count))
    findings = []
    for (rank, _, _), parts in by_key.items():
        total, average = steps[rank]
        mean = partial(_weighted, [count for _, count in parts], total) if total else max
        findings.append(_as_one([finding for finding, _ in parts], average, mean))
    return step, findings


def _weighted(counts: Sequence[int], total: int, values: Sequence[float]) -> float:
    """The mean of values over `total` steps, of which so many have each; the others have none."""
    return sum(value * count for value, count in zip(values, counts, strict=True)) / total


def joined_findings(findings: Sequence[Finding], ranks: int, step: float) -> Iterator[Finding]:
    """Each finding once, with the ranks that it is about."""
    by_key: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        by_key.setdefault((finding.code, finding.key), []).append(finding)
    for same in by_key.values():
        if ranks == 1:
            yield from (_as_one([finding], step, max) for finding in same)
            continue
        where = tuple(sorted({rank for finding in same for rank in finding.ranks}))
        sure = len(where) >= _MOST_RANKS * ranks
        yield replace(_as_one(same, step, statistics.median, nothing_sure=not sure), ranks=where)


def _as_one(
    findings: Sequence[Finding], step: float, mean: Callable[[list[float]], float], *, nothing_sure: bool = False
) -> Finding:
    """One finding for several that are the same: the words of the worst, a mean of their stakes.

    What the thing takes is the same mean, so that no mean promise is larger than that.
    """
    worst = max(findings, key=lambda finding: finding.stake.middle)
    at_most = max((finding.severity for finding in findings), key=SEVERITIES.index)
    low = 0.0 if nothing_sure else float(mean([finding.stake.low for finding in findings]))
    high = float(mean([finding.stake.high for finding in findings]))
    takes = [finding.takes for finding in findings if finding.takes is not None]
    one = replace(worst, message=_of_whom(worst, findings))
    if len(takes) == len(findings):
        one = replace(one, takes=float(mean(takes)))
    return one.with_stake(Stake(low, high), step, at_most)


def _of_whom(worst: Finding, findings: Sequence[Finding]) -> str:
    """The message of one of several findings that are the same, and whose numbers it tells."""
    if len(findings) == 1 or not any(each.unit for each in getattr(worst.message, "quantities", ())):
        return worst.message
    of = say("of one recording")
    if len({finding.ranks for finding in findings}) > 1:
        of = say("of rank {rank}", rank=measured(worst.ranks[0]))
    if not worst.step:
        return join([worst.message, say("These numbers are {of}.", of=of)])
    step = measured(worst.step, "ns")
    return join([worst.message, say("These numbers are {of}, whose step takes {step}.", of=of, step=step)])
