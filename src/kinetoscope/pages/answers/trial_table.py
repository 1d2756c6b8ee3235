"""The table of trials: the program as it is, each trial that was run, and all that is kept, a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kinetoscope.compare.trials.tried import TrialRow, Tried
from kinetoscope.model.trace.text import number_of
from kinetoscope.pages.answers.trial_words import FAILED, WHY_CELLS, signed_percent
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.views.numbers import Scale, scale, shown
from kinetoscope.views.text import brief

_HEADS: Final = ("step", "change", "", "promised", "brought", "loss", "samples/s", "memory")
"""Heads of the columns; those that a narrow terminal leaves out are last."""

_OUTCOME_MARKS: Final = {"kept": "✓", "no longer matters": "~", "failed": "✗", "no effect": "✗"}
"""Signs before the name of a trial; of others a dash."""

_LOSS_WORDS: Final = {"equal": "equal", "close": "rounding", "different": "differs", "unknown": "?"}


class _Scales(NamedTuple):
    """Units of the columns."""

    times: Scale
    promised: Scale
    brought: Scale
    sizes: Scale


def table(tried: Tried) -> Iterator[GridBlock]:
    """The lines as a grid; nothing where no trial was run."""
    run = [(row, row.outcome) for row in tried.trials if row.was_run or row.outcome in FAILED]
    if not run:
        return
    lines: list[Line] = [*_own(tried), *run, *_together(tried)]
    scales = _scales([row for row, _ in lines])
    texts = [_texts(row, outcome, scales) for row, outcome in lines]
    places = [place for place in range(len(_HEADS)) if any(each[place] for each in texts[bool(tried.step) :])]
    rows = [
        GridRow(
            (_name(row, outcome), *(each[place] for place in places)),
            strong=outcome in ("", "kept"),
            about=_about(row, outcome),
        )
        for (row, outcome), each in zip(lines, texts, strict=True)
    ]
    rest = "Each was tried on top of what is kept above it." if any(row.on_top_of for row, _ in run) else ""
    yield GridBlock("", ("", *(_HEADS[place] for place in places)), rows, rest=rest)


def _scales(rows: Sequence[TrialRow]) -> _Scales:
    return _Scales(
        scale([row.step for row in rows], "ns"),
        scale([each for row in rows for each in (row.promised_low, row.promised_high)], "ns"),
        scale([row.brought for row in rows], "ns"),
        scale([row.memory for row in rows], "bytes"),
    )


Line = tuple[TrialRow, str]
"""A row, and its outcome; "" for what is no trial."""


def _own(tried: Tried) -> Iterator[Line]:
    """The program as it is."""
    if tried.step:
        yield (
            TrialRow(
                trial="as it is",
                title="",
                outcome="kept",
                step=tried.step,
                samples_per_second=tried.samples_per_second,
                memory=tried.memory or None,
            ),
            "",
        )


def _together(tried: Tried) -> Iterator[Line]:
    """All that is kept, where that is more than the only trial."""
    if len(tried.kept) > 1 and tried.step_after is not None:
        yield (
            TrialRow(
                trial="all that is kept",
                title="",
                outcome="kept",
                base_step=tried.step or None,
                step=tried.step_after,
                change=tried.change,
                change_low=tried.change_low,
                change_high=tried.change_high,
                samples_per_second=tried.samples_after,
                memory=tried.memory_after,
            ),
            "",
        )


def _name(row: TrialRow, outcome: str) -> str:
    return f"{_OUTCOME_MARKS.get(outcome, '–') if outcome else ' '} {row.trial}"


def _texts(row: TrialRow, outcome: str, of: _Scales) -> Sequence[str]:
    """The cells of a line, as `_HEADS` has them."""
    rate = row.samples_per_second
    return (
        _within(of.times, row),
        signed_percent(row.change) if row.change is not None else "",
        outcome,
        promise(of.promised, row),
        _signed(of.brought, row.brought),
        _LOSS_WORDS.get(row.loss, row.loss),
        shown(rate, "") if rate is not None else "",
        of.sizes.with_unit(row.memory) if row.memory else "",
    )


def _within(times: Scale, row: TrialRow) -> str:
    """`31.2 ± 0.9 ms`: half the interval of the change, as a time."""
    if row.step is None:
        return ""
    if row.change_low is None or row.change_high is None or not row.base_step:
        return times.with_unit(row.step)
    number = times.text(row.step)
    digits = len(number.partition(".")[2])
    off = f"{(row.change_high - row.change_low) / 2 * row.base_step / times.divisor:,.{digits}f}"
    return times.with_unit(row.step).replace(number, f"{number} ± {off}", 1)


def promise(of: Scale, row: TrialRow) -> str:
    """`28.4–53.6 ms`; "" where no finding promised anything."""
    if row.promised_high is None:
        return ""
    low = row.promised_low or 0
    return f"{of.text(low)}–{of.with_unit(row.promised_high)}" if low else f"up to {of.with_unit(row.promised_high)}"


def _signed(of: Scale, time: int | None) -> str:
    return "" if time is None else f"{'−' * (time < 0)}{of.with_unit(abs(time))}"


def _about(row: TrialRow, outcome: str) -> tuple[str, ...]:
    """The reason why it is not kept, or when what its first steps take is earned."""
    if outcome not in ("", "kept"):
        return (brief(row.why, WHY_CELLS),) if row.why else ()
    return (f"pays after {number_of(row.pays_after, 'step')}",) if row.pays_after else ()
