"""The limits of a gate: by how much each metric may get worse."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kinetoscope.compare.statistics.noise import MIN_CHANGE, Assumed
from kinetoscope.compare.statistics.numbers import KERNEL, MEMORY_PEAK, OPERATOR, STEP_TIME, THROUGHPUT
from kinetoscope.errors import UsageError, nearest

METRICS: Final = (STEP_TIME, THROUGHPUT, MEMORY_PEAK)
PREFIXES: Final = (OPERATOR, KERNEL)

_SHARE_PATTERN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")
_MAX_SHARE: Final = 100.0


@dataclass(frozen=True, slots=True)
class Limit:
    """A metric, and by what share it may get worse.

    Attributes:
        metric: `step_time`, `throughput`, `memory_peak`, `op:NAME` or `kernel:NAME`.
        share: 0.05 is 5 %. A change fails if it is beyond noise and its estimate is this or more.
    """

    metric: str
    share: float = MIN_CHANGE

    @property
    def higher_is_worse(self) -> bool:
        """All but throughput."""
        return self.metric != THROUGHPUT


DEFAULT: Final = (Limit(STEP_TIME),)


def limit_of(text: str) -> Limit:
    """`step_time=5%` → Limit("step_time", 0.05); a metric alone has the default share.

    Raises:
        UsageError: no such metric, or no share.
    """
    # Names of kernels hold `=`; what comes after the last one is the share, if it reads as one.
    metric, equals, share = text.rpartition("=")
    if not equals or not (metric in METRICS or _SHARE_PATTERN.fullmatch(share.strip())):
        return Limit(_metric(text))
    return Limit(_metric(metric), share_of(share))


def share_of(value: str | float) -> float:
    """`5%` and 0.05 → 0.05; as a text without the sign it is a share, too.

    Raises:
        UsageError: it is none, or below 0.
    """
    if isinstance(value, str):
        match = _SHARE_PATTERN.fullmatch(value.strip())
        if match is None:
            raise UsageError(f"{value!r} is no share to get worse by: write 5% or 0.05")
        share = float(match[1]) / (100 if match[2] else 1)
    else:
        share = float(value)
    if not (math.isfinite(share) and 0 <= share <= _MAX_SHARE):
        raise UsageError(f"{value!r} is no share to get worse by: from 0% on, up to {_MAX_SHARE:.0%}")
    if share >= 1 and isinstance(value, str) and not value.strip().endswith("%"):
        raise UsageError(f"{value!r} would be {share:.0%}: write {value}% if that is what is meant")
    return share


def assumed_of(noise: str | float) -> Assumed:
    """The noise to expect, of what a user says of that between runs: `2%`.

    Raises:
        UsageError: it is no share above 0, up to 1.
    """
    between = share_of(noise)
    if not 0 < between <= 1:
        raise UsageError(f"runs of one program are said to differ by {noise!r}: give a share above 0%, up to 100%")
    return Assumed(between=between)


def limits_of(given: Mapping[str, str | float] | Iterable[Limit | str] | None) -> tuple[Limit, ...]:
    """From what a function takes: `{"step_time": "5%"}`, `["op:aten::mm=10%"]`; the step time's if nothing is given.

    Raises:
        UsageError: one is no limit, or two are of one metric.
    """
    if given is None:
        return DEFAULT
    if isinstance(given, Mapping):
        chosen = [Limit(_metric(metric), share_of(share)) for metric, share in given.items()]
    else:
        chosen = [each if isinstance(each, Limit) else limit_of(each) for each in given]
    metrics = [each.metric for each in chosen]
    twice = [metric for metric in dict.fromkeys(metrics) if metrics.count(metric) > 1]
    if twice:
        raise UsageError(f"{twice[0]} has two limits: give one")
    return tuple(chosen) or DEFAULT


def _metric(text: str) -> str:
    name = text.strip()
    if name in METRICS or any(name.startswith(prefix) and len(name) > len(prefix) for prefix in PREFIXES):
        return name
    raise UsageError(
        f"there is no metric {name!r}{nearest(name, METRICS)}; metrics: {', '.join(METRICS)}, op:NAME, kernel:NAME"
    )
