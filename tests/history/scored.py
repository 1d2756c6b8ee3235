"""What the answers about a run make of what was planted in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kinetoscope.model.history.history import History, history
from kinetoscope.pages.sentences.history import NOTABLE_SPIKES
from tests.history.drawn import Planted, Run, draw

NEAR = 0.01
"""Share of the run by which a change may be off."""

PERIOD_NEAR = 0.04


@dataclass(frozen=True)
class Score:
    """The verdict on a run.

    Attributes:
        is_there: what was planted is said, at its place, and nothing else.
        is_caused: so are the part, the ranks and the mark.
        said: all that is said.
    """

    run: Run
    is_there: bool
    is_caused: bool
    said: tuple[str, ...]

    def __str__(self) -> str:
        mark = "right" if self.is_there and self.is_caused else "no cause" if self.is_there else "WRONG"
        return f"{self.run.name:16} {mark:9} {self.run.planted}\n{'':26} {'; '.join(self.said) or 'nothing'}"


def score(run: Run, seed: int) -> Score:
    """Draw a run, ask, and compare."""
    drawn = draw(run, seed)
    return verdict(run, history(drawn.frames, drawn.marks))


def verdict(run: Run, answers: History) -> Score:
    """Hold the answers against what was planted."""
    alarms = alarms_of(answers)
    said = tuple(_text(each) for each in alarms)
    if not run.planted:
        return Score(run, not alarms, not alarms, said)
    (planted,) = run.planted
    matching = [each for each in alarms if _is_there(run, planted, each)]
    expected = 2 if planted.until else 1
    others = [each for each in alarms if each not in matching]
    there = len(matching) == expected and not others
    return Score(run, there, there and all(_is_caused(run, planted, each) for each in matching), said)


def alarms_of(answers: History) -> list[dict[str, Any]]:
    """Everything that is said of a run as news: changes, periods of spikes that cost something, returns."""
    changes = [dict(row, table="changes") for row in answers.changes]
    periods = [dict(row, table="spikes", kind="period") for row in answers.spikes if row["period"] is not None]
    returns = [dict(row, table="returns", kind="return") for row in answers.returns]
    return [*changes, *(each for each in periods if each["count"] > 4 and each["share"] >= NOTABLE_SPIKES), *returns]


def _is_there(run: Run, planted: Planted, row: dict[str, Any]) -> bool:
    if row["kind"] != planted.kind:
        return False
    if planted.kind == "shift":
        ends = [planted.step, *([planted.until] if planted.until else [])]
        return bool(min(abs(row["step"] - each) for each in ends) <= NEAR * run.steps)
    if planted.kind == "period":
        return bool(abs(row["period"] - planted.period) <= PERIOD_NEAR * planted.period)
    return True


def _is_caused(run: Run, planted: Planted, row: dict[str, Any]) -> bool:
    ranks = len(planted.ranks) if planted.ranks is not None else run.ranks
    who = row["rank"] == planted.ranks[0] if planted.ranks and ranks == 1 else row.get("ranks", ranks) == ranks
    if planted.kind == "period" and planted.mark:
        return bool(who and row["cause"] == planted.mark)
    mark = row.get("mark") == planted.mark if planted.mark else True
    return bool(who and row["part"] == planted.part and mark)


def _text(row: dict[str, Any]) -> str:
    names = ("kind", "step", "who", "rank", "part", "change", "score", "mark", "certainty", "cause", "period", "count")
    shown = {name: row[name] for name in names if row.get(name) is not None}
    return " ".join(f"{name}={round(each, 3) if isinstance(each, float) else each}" for name, each in shown.items())
