"""Python collects garbage at the ends of steps, seldom, and not among what is there since the start."""

from __future__ import annotations

import gc
from typing import Any, Final

from kinetoscope.record.trials.trial import Change, Edit, Trial

_STEPS: Final = 20
"""Steps from one collection to the next: so that memory in cycles is not held for long, and a trial measures some."""


def put_in(change: Change) -> None:
    """From the first step's end on, collect at the end of each twentieth step alone."""
    change.at_first_step(lambda: _begin(change))
    change.checks(lambda: "the program has switched collection on again" if gc.isenabled() else "")


def _begin(change: Change) -> None:
    if not gc.isenabled():
        change.refuses("the program has switched collection off")
    elif gc.get_freeze_count():
        change.refuses("the program has frozen its objects already")
    elif change.applies(place=False):
        from torch.optim.optimizer import register_optimizer_step_post_hook

        gc.collect()
        gc.freeze()
        gc.disable()
        register_optimizer_step_post_hook(_Collection())


class _Collection:
    """The collection at the ends of steps."""

    def __init__(self) -> None:
        self._steps = 0

    def __call__(self, *_: Any) -> None:
        self._steps += 1
        if self._steps % _STEPS == 0:
            gc.collect()


TRIAL = Trial(
    name="garbage",
    title="collect garbage at the ends of steps",
    answers=("HOST006",),
    put_in=put_in,
    effect="none",
    edit=Edit(
        lines=(
            "import gc",
            "from torch.optim.optimizer import register_optimizer_step_post_hook",
            "def _collect_garbage(*_, _steps=[0]):",
            "    _steps[0] += 1",
            f"    if _steps[0] % {_STEPS} == 1:",
            "        gc.collect()",
            "    if _steps[0] == 1:",
            "        gc.freeze()",
            "        gc.disable()",
            "register_optimizer_step_post_hook(_collect_garbage)",
        ),
    ),
)
