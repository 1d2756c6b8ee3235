"""How far the trials of a program are, for a face that shows it while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinetoscope.compare.trials.tried import TrialRow


@dataclass(frozen=True, kw_only=True)
class TrialProgress:
    """How far it is.

    Attributes:
        doing: what is being run, as a phrase: "recording the program as it is", "workers, round 2 of 5".
        runs: how many runs have ended.
        planned: how many there will be, about; 0 where that is not known yet.
        seconds: that have gone by.
        seconds_left: about how many more it takes; None where that is not known yet.
        step: typical step of the program as it is, ns; 0 where it is not known yet.
        step_now: typical step with what is kept so far, ns; 0 likewise.
        accepted: names of the trials that are kept so far.
        rows: of trials that are done, the newest last.
    """

    doing: str
    runs: int = 0
    planned: int = 0
    seconds: float = 0.0
    seconds_left: float | None = None
    step: float = 0.0
    step_now: float = 0.0
    accepted: tuple[str, ...] = ()
    rows: tuple[TrialRow, ...] = ()


Watch = Callable[[TrialProgress], None]


def unwatched(_: TrialProgress) -> None:
    """Nobody looks."""
