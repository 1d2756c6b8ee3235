"""Totals of a counter over groups of intervals: the one formula of its means, its integrals and their error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.counters.sampled import SampledCounter

_NS_PER_S: Final = 1e9


@dataclass(frozen=True)
class Totals:
    """Totals of a counter over each group.

    Attributes:
        duration: int64 [groups], length of the intervals, ns.
        sampled: int64 [groups], how much of that has a value, ns.
        integral: float64 [groups], over what is sampled, in the counter's unit times seconds.
        error: float64 [groups], the most by which that is off, if between two samples the value lies between theirs;
            the last sample is taken as it is.
        samples: int64 [groups], those that hold at any time of the group.
        least, greatest: float64 [groups], of their values; NaN for none.
    """

    duration: Int64s
    sampled: Int64s
    integral: Floats
    error: Floats
    samples: Int64s
    least: Floats
    greatest: Floats

    @property
    def mean(self) -> Floats:
        """The mean over the sampled time: float64 [groups], NaN where there is none."""
        return _NS_PER_S * self.integral / np.where(self.sampled > 0, self.sampled, np.nan)


def totals(series: SampledCounter, times: Intervals, codes: Int64s | None = None, groups: int = 1) -> Totals:
    """The totals of a counter.

    Args:
        series: the counter.
        times: the intervals, in any order; those of one group overlap no other of it.
        codes: int64 [times], the group of each; None for one group.
        groups: how many there are.
    """
    of = np.zeros(len(times.start), np.int64) if codes is None else codes
    spread = np.abs(np.diff(series.value, append=series.value[-1:]))

    def over(value: Floats) -> Floats:
        return np.bincount(of, _integrals(series, times, value), groups).astype(np.float64)

    samples, least, greatest = _held(series, times, of, groups)
    return Totals(
        duration=np.bincount(of, times.end - times.start, groups).astype(np.int64),
        sampled=np.rint(over(np.ones(len(series.value)))).astype(np.int64),
        integral=over(series.value) / _NS_PER_S,
        error=over(spread) / _NS_PER_S,
        samples=samples,
        least=least,
        greatest=greatest,
    )


def _integrals(series: SampledCounter, times: Intervals, value: Floats) -> Floats:
    """The integral over each interval of something that is constant while a sample holds, in ns."""
    if not len(series.start):
        return np.zeros(len(times.start))
    points = np.stack([series.start, series.end], axis=1).ravel() - series.start[0]
    until = np.cumsum(value * (series.end - series.start))
    levels = np.stack([np.append(0.0, until[:-1]), until], axis=1).ravel()
    begin, end = (np.interp(each - series.start[0], points, levels) for each in (times.start, times.end))
    return np.asarray(end - begin, np.float64)


def _held(series: SampledCounter, times: Intervals, of: Int64s, groups: int) -> tuple[Int64s, Floats, Floats]:
    """How many samples hold at some time of each group, and their least and greatest value."""
    low = np.searchsorted(series.end, times.start, side="right")
    high = np.searchsorted(series.start, times.end, side="left")
    holds = series.interval > 0  # a single sample holds for no time
    some = np.flatnonzero((high > low) & (times.end > times.start) & holds)
    some = some[np.lexsort((low[some], of[some]))]
    low, high, code = low[some], high[some], of[some]
    counted = np.maximum(low[1:], np.where(code[1:] == code[:-1], high[:-1], 0))  # a sample counts once in a group
    samples = np.bincount(code, np.maximum(high - np.append(low[:1], counted), 0), groups).astype(np.int64)
    least, greatest = np.full(groups, np.nan), np.full(groups, np.nan)
    if len(some):
        order = np.argsort(low, kind="stable")  # then what lies between two ranges is walked once at most
        edges = np.stack([low[order], high[order]], axis=1).ravel()
        for result, function in ((least, np.fmin), (greatest, np.fmax)):
            extremes = function.reduceat(np.append(series.value, np.nan), edges)[::2]
            function.at(result, code[order], extremes)
    return samples, least, greatest
