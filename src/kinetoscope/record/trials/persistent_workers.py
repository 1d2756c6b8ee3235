"""Workers of a loader stay from epoch to epoch, instead of being started anew."""

from __future__ import annotations

import weakref
from typing import Any

from kinetoscope.record.trials.constructors import LOADER, choose_arguments
from kinetoscope.record.trials.trial import Change, Edit, Trial


def put_in(change: Change) -> None:
    """Have the workers stay that the program asks for; those that it does not ask for are another change."""
    from torch.utils import data

    made: weakref.WeakSet[Any] = weakref.WeakSet()

    def choose(_: Any, given: dict[str, Any]) -> dict[str, Any] | str:
        if not given.get("num_workers"):
            return "the loader has no workers"
        return "the workers stay already" if given.get("persistent_workers") else {"persistent_workers": True}

    choose_arguments(change, data.DataLoader, choose, made.add)
    change.checks(lambda: "" if all(each.persistent_workers for each in made) else "the loader was made without it")


TRIAL = Trial(
    name="persistent-workers",
    title="keep the workers of loaders from epoch to epoch",
    answers=("DATA003",),
    put_in=put_in,
    effect="none",
    edit=Edit(
        calls=("DataLoader",),
        keywords={"persistent_workers": "True"},
        positional=LOADER,
        text="give the DataLoader persistent_workers=True",
    ),
)
