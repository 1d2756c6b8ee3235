"""The exchange of gradients relies on the same graph in each step."""

from __future__ import annotations

from typing import Any

from kinetoscope.record.trials.constructors import choose_buckets
from kinetoscope.record.trials.trial import Change, Edit, Trial


def put_in(change: Change) -> None:
    """Have models wrapped that way; torch ends a program whose graph does change."""
    choose_buckets(change, _choose, lambda wrapper: bool(wrapper.static_graph))


def _choose(given: dict[str, Any]) -> dict[str, Any] | str:
    return "the graph is said to be static already" if given.get("static_graph") else {"static_graph": True}


TRIAL = Trial(
    name="static-graph",
    title="tell the exchange of gradients that the graph never changes",
    answers=("RANKS003",),
    put_in=put_in,
    effect="rounding",
    edit=Edit(
        calls=("DistributedDataParallel",),
        keywords={"static_graph": "True"},
        text="give DistributedDataParallel static_graph=True",
    ),
    needs="ranks",
)
