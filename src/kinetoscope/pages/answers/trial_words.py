"""Words on what came of trying: the gain in a sentence with its numbers, a few facts, shares and times."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import polars as pl

from kinetoscope.compare.trials.tried import Tried
from kinetoscope.model.trace.text import number_of
from kinetoscope.schema import Result
from kinetoscope.views.numbers import MISSING, shown
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, cell, code, computed, constant, count, join, say
from kinetoscope.views.text import brief, printable

FAILED: Final = ("failed", "no effect")
"""Outcomes of trials that were run and not measured."""

NAME_CELLS: Final = 40
WHY_CELLS: Final = 160
_COMMAND_CELLS: Final = 60

_CONFIDENCE: Final = 0.95


def sentence(tried: Tried) -> Sentence:
    """The gain in a sentence, or that there is none, or that nothing is known."""
    one = "A call of the model" if tried.by_calls else "A step"
    if tried.kept and tried.step_after is not None:
        return _gain(tried, one)
    if tried.kept:
        return say("{names} made the steps shorter; together they were not measured.", names=_names(tried.kept))
    takes = EMPTY
    if tried.step:
        takes = say(" {one} takes {step}.", one=one, step=cell(tried.setups, "step", setup="as it is"))
    changed = [row.trial for row in tried.trials if row.outcome == "loss differs"]
    if changed:
        return say(
            "Nothing that was tried makes the steps shorter and keeps the loss: with {names} it is another one.{takes}",
            names=_names(changed),
            takes=takes,
        )
    if tried.was_measured:
        return say("Nothing that was tried makes the steps shorter.{takes}", takes=takes)
    return _unmeasured(tried, takes)


def _unmeasured(tried: Tried, takes: Sentence) -> Sentence:
    if tried.stopped:
        return say("Nothing could be measured: {why}.", why=_stopped(tried))
    failed = count(tried.result, pl.col("outcome").is_in(FAILED))
    if failed:
        were = "was" if failed.number == 1 else "were"
        words = failed.words(f"{number_of(round(failed.number), 'trial')} that {were} run")
        return say("Nothing could be measured: {failed} failed.{takes}", failed=words, takes=takes)
    return say("Nothing was tried: no change that is known here applies to the program.{takes}", takes=takes)


def _gain(tried: Tried, one: str) -> Sentence:
    setups, names = tried.setups, _names(tried.kept)
    now = cell(setups, "step", setup="kept")
    if not tried.step or tried.change is None:
        return say("{one} takes {now} with {names}.", one=one, now=now, names=names)
    before = cell(setups, "step", setup="as it is")
    if tried.change >= 0:
        return say(
            "{one} takes {now} with {names}, in the end no less than the {before} without.",
            one=one, now=now, names=names, before=before,
        )  # fmt: skip
    gain = _less(setups, "change")
    return say(
        "{one} takes {now} instead of {before}, {gain} less{sure}, with {names}.",
        one=one,
        now=now,
        before=before,
        gain=gain.words(percent(gain.number)),
        sure=_interval(setups),
        names=names,
    )


def _interval(setups: Result) -> Sentence:
    """` (95%: 64 to 68%)`; "" where it is not known."""
    low, high = _less(setups, "change_high"), _less(setups, "change_low")
    if low.value is None or high.value is None:
        return EMPTY
    return say(
        " ({level}: {low} to {high})",
        level=constant(_CONFIDENCE, "fraction").words(f"{_CONFIDENCE:.0%}"),
        low=low.words(percent(low.number).removesuffix("%")),
        high=high.words(percent(high.number)),
    )


def _less(setups: Result, column: str) -> Quantity:
    """The share by which the step is shorter with all that is kept; of an end of the interval likewise."""

    def gained(frame: pl.DataFrame) -> float | None:
        change = frame.filter(pl.col("setup") == "kept").get_column(column).item()
        return None if change is None else -float(change)

    return computed(setups, gained, "fraction")


def _stopped(tried: Tried) -> Quantity:
    """The reason why it ended early, as a value: its words may hold numbers."""
    text = brief(printable(tried.stopped), WHY_CELLS).rstrip(".")
    return Quantity(text, "", text)


def _names(names: Sequence[str]) -> Sentence:
    """`workers` and `threads`."""
    said = [code(brief(each, NAME_CELLS)) for each in names]
    return join([", ".join(said[:-1]), said[-1]], " and ")


def percent(share: float) -> str:
    """A share with as many digits as a measurement of few rounds has: `63%`, `4.2%`."""
    return f"{'−' * (share < 0)}{abs(share):.{0 if abs(share) >= 0.0995 else 1}%}"


def signed_percent(share: float | None) -> str:
    """A change: `−63%`, `+4.2%`."""
    return MISSING if share is None else f"{'+' * (share > 0)}{percent(share)}"


def facts(tried: Tried) -> tuple[str, ...]:
    """A few words on throughput, memory, losses, noise, and how much was run."""
    said = [
        _then(shown(tried.samples_after, ""), shown(tried.samples_per_second, ""), "{} samples/s"),
        _then(shown(tried.memory_after, "bytes"), shown(tried.memory or None, "bytes"), "memory {}"),
        f"loss: {tried.loss}" if tried.loss else "",
        f"two runs as it is differ by {percent(tried.noise)}" if tried.noise else "",
        number_of(tried.ranks, "rank") if tried.ranks > 1 else "",
        _runs(tried),
        brief(shlex.join(tried.command), _COMMAND_CELLS),
    ]
    return tuple(filter(None, said))


def _runs(tried: Tried) -> str:
    of = f" of {number_of(tried.steps, 'step')}" if tried.steps else ""
    return f"{number_of(tried.runs, 'run')}{of} in {duration(tried.seconds)}" if tried.runs else ""


def _then(now: str, before: str, form: str) -> str:
    """The one instead of the other; the one that is known; nothing."""
    if MISSING not in (now, before) and now != before:
        return f"{form.format(now)} instead of {before}"
    known = next((each for each in (now, before) if each != MISSING), "")
    return form.format(known) if known else ""


def duration(seconds: float) -> str:
    """`48 s`, `3 min`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 90:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
