"""Gradients are exchanged in fewer, larger buckets."""

from __future__ import annotations

from typing import Any, Final

from kinetoscope.record.trials.constructors import choose_buckets
from kinetoscope.record.trials.trial import Change, Edit, Trial

_MEGABYTES: Final = 100
"""Four times torch's own: fewer exchanges, of which the last ends later."""


def put_in(change: Change) -> None:
    """Have models wrapped that way."""
    choose_buckets(change, _choose, lambda wrapper: wrapper.bucket_bytes_cap >= _MEGABYTES << 20)


def _choose(given: dict[str, Any]) -> dict[str, Any] | str:
    size = given.get("bucket_cap_mb") or 0
    return f"buckets have {size} MB already" if size >= _MEGABYTES else {"bucket_cap_mb": _MEGABYTES}


TRIAL = Trial(
    name="bucket-size",
    title="exchange gradients in larger buckets",
    answers=("RANKS003", "RANKS004"),
    put_in=put_in,
    effect="rounding",
    edit=Edit(
        calls=("DistributedDataParallel",),
        keywords={"bucket_cap_mb": str(_MEGABYTES)},
        text=f"give DistributedDataParallel bucket_cap_mb={_MEGABYTES}",
    ),
    needs="ranks",
)
