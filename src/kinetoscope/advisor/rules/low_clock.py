"""DEVICE014: the device's clock falls while it works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.advisor.evidence.stakes import unblocked_launches
from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.model.counters.throttling import clocks
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.views.sentences import EMPTY, Quantity, cell, measured, say

_LOW_CLOCK_SHARE: Final = 0.95
"""Share of the usual clock below which a step counts: boosting moves it by a few percent."""

_COMMANDS_BY_LIMIT: Final = {
    "power": "+ nvidia-smi -q -d POWER  # is the limit the board's own? nvidia-smi -pl WATTS raises it",
    "thermal": "+ nvidia-smi -q -d TEMPERATURE  # and the fans, the air and the neighbours of this device",
}


def low_clock(rank: RankView) -> Iterator[Finding]:
    """Does the clock of a device fall while it works?

    What it checks. A sampled clock of the multiprocessors, of the trace or of a log (`--device-log`): steps in which
    its mean, while the device is busy, is below 95 % of what it usually is then.

    Why it matters. A device that meets its limit of power or heat lowers its clock, and all that computes takes longer;
    in a job of many devices the slowest sets the pace. At most, computation takes usual clock / clock times as long; at
    least nothing, as work that waits for memory does not go with this clock: how much is lost is a guess.

    What to do. See which limit it is (the log's columns `clocks_event_reasons.…`). Raise the limit of power if it is
    below the board's own; mend the cooling; move the job off a device that is slower than its neighbours.
    """
    factors, places = unblocked_launches(rank), rank.scope.steps.device
    took = 0.0
    low: list[tuple[int, int]] = []
    for each in clocks(rank.scope):
        slow = np.flatnonzero(each.share < _LOW_CLOCK_SHARE)
        low += [(each.device, int(place)) for place in slow]
        took += float(each.sampled[slow].sum())
        step = step_of(places, rank.work.start)
        works = (rank.work.device == each.device) & rank.work.of(WorkKind.COMPUTATION) & np.isin(step, slow)
        factors.work[works] = each.share[step[works]]
    if not low:
        return
    device = low[0][0]
    works = (factors.work < 1.0) & rank.scope.device_work_mask
    saved = saving(rank, np.zeros(rank.step_count), factors, rank.work_time(works), took=took)
    if saved is None:
        return
    answer = rank.ask("throttling")
    worst = answer.frame.filter(pl.col("clock_share") < _LOW_CLOCK_SHARE).sort("clock_share").row(0, named=True)
    why = "" if worst["reasons"] is None else worst["reasons"].partition(",")[0]

    def of_worst(column: str) -> Quantity:
        return cell(answer, column, device=worst["device"], step=worst["step"]).words(f"{worst[column]:.0f}")

    yield saved.finding(
        message=say(
            "The device's clock falls while it works. In {steps} of {all} steps it is below {usual} MHz, which is usual"
            " here, by 5% and more; in step {worst} it is {clock} MHz ({part}){limit}.",
            steps=measured(len({place for _, place in low})),
            all=measured(rank.step_count),
            usual=of_worst("usual_clock"),
            worst=of_worst("step"),
            clock=of_worst("clock"),
            part=share(worst["clock"], worst["usual_clock"]),
            limit=say(", limited by {name}", name=f"`{why}`") if why else EMPTY,
        ),
        change=next((text for key, text in _COMMANDS_BY_LIMIT.items() if key in why), _COMMANDS_BY_LIMIT["thermal"]),
        why="At most all computation goes with this clock. What waits for memory does not: the loss is a guess.",
        confidence="medium" if why else "low",
        evidence=Evidence("the clock of each step", "throttling"),
        key=str(device),
    )


RULE = Rule("DEVICE014", "The clock falls while the device works", low_clock, needs="device")
