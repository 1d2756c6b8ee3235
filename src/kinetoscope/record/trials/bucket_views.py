"""Gradients are views of the buckets in which they are exchanged: one copy of each less, and less memory."""

from __future__ import annotations

from typing import Any

from kinetoscope.record.trials.constructors import choose_buckets
from kinetoscope.record.trials.trial import Change, Edit, Trial


def put_in(change: Change) -> None:
    """Have models wrapped that way."""
    choose_buckets(change, _choose, lambda wrapper: bool(wrapper.gradient_as_bucket_view))


def _choose(given: dict[str, Any]) -> dict[str, Any] | str:
    given_already = given.get("gradient_as_bucket_view")
    return "gradients are views of buckets already" if given_already else {"gradient_as_bucket_view": True}


TRIAL = Trial(
    name="bucket-views",
    title="exchange gradients without copying them into buckets",
    answers=("RANKS003",),
    put_in=put_in,
    effect="none",
    edit=Edit(
        calls=("DistributedDataParallel",),
        keywords={"gradient_as_bucket_view": "True"},
        text="give DistributedDataParallel gradient_as_bucket_view=True",
    ),
    needs="ranks",
)
