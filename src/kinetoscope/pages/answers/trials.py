"""What came of trying: the gain in a sentence, a line for each trial that was run, those that were not, the patch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from kinetoscope.compare.trials.tried import TrialRow, Tried
from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note
from kinetoscope.pages.blocks import Bar, BarsBlock, Block, CodeBlock, NoteBlock, Page
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.pages.sections.tables import table as rows_of
from kinetoscope.schema import Result
from kinetoscope.views.numbers import MISSING, Scale, grouped, scale, shown
from kinetoscope.views.sentences import Quantity, Sentence, cell, code, computed, constant, count, join, say
from kinetoscope.views.text import brief, printable

_MAX_EDITS: Final = 5
"""Changes that no trial can make which are shown with their lines."""

_MAX_BARS: Final = 40
_MAX_CODE_LINES: Final = 1000
"""Trials, and lines of a patch, that are drawn: anyone may have written the file."""

_PAGE_COLUMNS: Final = (
    *("trial", "outcome", "step", "change", "change_low", "change_high", "promised_low", "promised_high", "brought"),
    *("loss", "samples_per_second", "memory", "rounds", "codes", "why"),
)
"""Columns of the table on a page."""

_COMMAND_CELLS: Final = 60
_NAME_CELLS: Final = 40
_WHY_CELLS: Final = 160

_CONFIDENCE: Final = 0.95

_MARKS: Final = {"kept": "✓", "no longer matters": "~", "failed": "✗", "no effect": "✗"}
"""Before the name of a trial; of others a dash."""

_FAILED: Final = ("failed", "no effect")
"""Outcomes of trials that were run and not measured."""

_LOSSES: Final = {"equal": "equal", "close": "rounding", "different": "differs", "unknown": "?"}


def of_tried(tried: Tried, folder: str = "") -> Page:
    """The whole answer, as text: what it says of each trial is a line of a table; `folder` is where it lies."""
    blocks = (*table(tried), *rest(tried))
    return Page("try", "", sentence(tried), facts(tried), blocks, notes(tried), commands=(*_next(tried, folder),))


def of_list(wanted: Sequence[TrialRow], others: Sequence[TrialRow]) -> Page:
    """What would be tried, in order, with what it promises; and the trials that would not, with the reason."""
    number = constant(len(wanted)).words(number_of(len(wanted), "change"))
    said = say("{number} would be tried, in this order:", number=number) if wanted else "No change would be tried."
    promised = scale([each for row in wanted for each in (row.promised_low, row.promised_high)], "ns")
    rows = [GridRow((row.trial, _interval(promised, row), ", ".join(row.codes), row.title)) for row in wanted]
    blocks = [GridBlock("", ("", "promised", "asked for by", "to"), rows)] if rows else []
    left = [*_not_run(others)]
    return Page("try", "", said, (), (*blocks, *([NoteBlock("\n".join(left), "Not tried")] if left else [])))


def _next(tried: Tried, folder: str) -> Iterator[tuple[str, str]]:
    """Commands that show more of what lies in the folder."""
    if not folder:
        return
    place = shlex.quote(folder)
    yield f"kinetoscope ledger {place}", "this again"
    last = next((row.trace for row in reversed(tried.trials) if row.outcome == "kept" and row.trace), "")
    if last and tried.trace:
        yield f"kinetoscope diff {place}/{tried.trace} {place}/{shlex.quote(last)}", "where the time went"
    if tried.trace:
        yield f"kinetoscope view {place}", "the recorded windows"


def blocks_of_tried(tried: Tried, trace: str = "") -> Iterator[Block]:
    """The same as parts of a page in a browser; `trace` is the recorded window that is open, as rows name it."""
    run = [row for row in tried.trials if row.was_run]
    result = tried.result
    shown_rows = result.frame.filter(pl.col("step").is_not_null() | pl.col("outcome").is_in(_FAILED))
    said = " · ".join(facts(tried))
    if tried.step:
        own = Bar("as it is", "host", tried.step, chosen=trace == tried.trace != "")
        yield BarsBlock("A step with each trial", [own, *(_bar(row, trace) for row in run[:_MAX_BARS])], note=said,
                        cumulative=False)  # fmt: skip
    elif said:
        yield NoteBlock(said)
    if shown_rows.height:
        yield rows_of("Trials", result.schema.only(_PAGE_COLUMNS), shown_rows)
    yield from rest(tried)


def _bar(row: TrialRow, trace: str) -> Bar:
    """A trial with its step, and the step without it."""
    kind = "computation" if row.outcome == "kept" else "idle"
    return Bar(
        brief(row.trial, _NAME_CELLS),
        kind,
        row.step or 0,
        detail=row.outcome,
        name=row.trial,
        chosen=trace == row.trace != "",
        before=row.base_step,
    )


# --- in words


def sentence(tried: Tried) -> Sentence:
    """What was gained, or that nothing was, or that nothing is known."""
    one = "A call of the model" if tried.by_calls else "A step"
    if tried.kept and tried.step_kept is not None:
        return _gain(tried, one)
    if tried.kept:
        return say("{names} made the steps shorter; together they were not measured.", names=_names(tried.kept))
    takes = say(" {one} takes {step}.", one=one, step=_of(tried.setups, "as it is", "step")) if tried.step else ""
    changed = [row.trial for row in tried.trials if row.outcome == "loss differs"]
    if changed:
        return say(
            "Nothing that was tried makes the steps shorter and keeps the loss: with {names} it is another one.{takes}",
            names=_names(changed),
            takes=takes,
        )
    if tried.was_measured:
        return say("Nothing that was tried makes the steps shorter.{takes}", takes=takes)
    if tried.stopped:
        return say("Nothing could be measured: {why}.", why=_stopped(tried))
    failed = count(tried.result, pl.col("outcome").is_in(_FAILED))
    if failed:
        words = failed.words(f"{number_of(round(failed.number), 'trial')} that {_was(failed.number)} run")
        return say("Nothing could be measured: {failed} failed.{takes}", failed=words, takes=takes)
    return say("Nothing was tried: no change that is known here applies to the program.{takes}", takes=takes)


def _was(number: float) -> str:
    return "was" if number == 1 else "were"


def _gain(tried: Tried, one: str) -> Sentence:
    setups, names = tried.setups, _names(tried.kept)
    now = _of(setups, "kept", "step")
    if not tried.step or tried.change is None:
        return say("{one} takes {now} with {names}.", one=one, now=now, names=names)
    before = _of(setups, "as it is", "step")
    if tried.change >= 0:
        return say(
            "{one} takes {now} with {names}, in the end no less than the {before} without.",
            one=one, now=now, names=names, before=before,
        )  # fmt: skip
    bounds = [each for each in (_less(setups, "change_high"), _less(setups, "change_low")) if each.value is not None]
    sure = (
        say(
            " ({level}: {low} to {high})",
            level=constant(_CONFIDENCE, "fraction").words(f"{_CONFIDENCE:.0%}"),
            low=bounds[0].words(percent(bounds[0].number).removesuffix("%")),
            high=bounds[1].words(percent(bounds[1].number)),
        )
        if len(bounds) == 2
        else ""
    )
    gain = _less(setups, "change")
    return say(
        "{one} takes {now} instead of {before}, {gain} less{sure}, with {names}.",
        one=one,
        now=now,
        before=before,
        gain=gain.words(percent(gain.number)),
        sure=sure,
        names=names,
    )


def _of(setups: Result, setup: str, column: str) -> Quantity:
    return cell(setups, column, setup=setup)


def _less(setups: Result, column: str) -> Quantity:
    """By what share the step is shorter with all that is kept; of an end of the interval likewise."""

    def gained(frame: pl.DataFrame) -> float | None:
        change = frame.filter(pl.col("setup") == "kept").get_column(column).item()
        return None if change is None else -float(change)

    return computed(setups, gained, "fraction")


def _stopped(tried: Tried) -> Quantity:
    """Why it ended early, as a value of the result: its words may hold numbers."""
    text = brief(printable(tried.stopped), _WHY_CELLS).rstrip(".")
    return constant(0).words(text) if not text else Quantity(text, "", text)


def _names(names: Sequence[str]) -> Sentence:
    """`workers` and `threads`."""
    said = [code(brief(each, _NAME_CELLS)) for each in names]
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
        _then(shown(tried.samples_kept, ""), shown(tried.samples_per_second, ""), "{} samples/s"),
        _then(shown(tried.memory_kept, "bytes"), shown(tried.memory or None, "bytes"), "memory {}"),
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


def notes(tried: Tried) -> tuple[Note, ...]:
    """What was left out, and first of all that it was stopped, if the sentence does not say so."""
    if not tried.stopped or not (tried.was_measured or tried.kept):
        return tried.notes
    return (Note("STOPPED", f"It ended before all was tried: {tried.stopped}", "warning"), *tried.notes)


# --- the table


def table(tried: Tried) -> Iterator[GridBlock]:
    """The program as it is, each trial that was run, and all that is kept; nothing where none was run."""
    run = [row for row in tried.trials if row.was_run or row.outcome in _FAILED]
    if not run:
        return
    times = scale([tried.step or None, tried.step_kept, *(row.step for row in run)], "ns")
    columns = [column for column in _columns(tried, run, times) if any(column[2:]) or column[0] == "step"]
    lines = [
        ("as it is", ""),
        *((row.trial, row.outcome) for row in run),
        *[("all that is kept", "")][: _has_all(tried)],
    ]
    abouts = [(), *map(_about, run), ()]
    rows = [
        GridRow(
            (
                f"{_MARKS.get(outcome, '–')} {name}" if outcome else f"  {name}",
                *(column[1 + place] for column in columns),
            ),
            strong=not outcome or outcome == "kept",
            about=abouts[place],
        )
        for place, (name, outcome) in enumerate(lines)
    ]
    kept_above = "Each was tried on top of what is kept above it." if any(row.on_top_of for row in run) else ""
    yield GridBlock("", ("", *(column[0] for column in columns)), rows, rest=kept_above)


def _has_all(tried: Tried) -> bool:
    """Is a line for all that is kept together more than that of the only trial?"""
    return len(tried.kept) > 1 and tried.step_kept is not None


def _columns(tried: Tried, run: Sequence[TrialRow], times: Scale) -> Iterator[list[str]]:
    """Head, the program as it is, each trial, all that is kept; those that a narrow terminal leaves out are last."""
    all_kept = _has_all(tried)

    def column(head: str, base: str, texts: Sequence[str], kept: str) -> list[str]:
        return [head, base, *texts, *([kept] if all_kept else [])]

    yield column(
        "step",
        times.with_unit(tried.step or None),
        [_within(times, row.step, row.base_step, row.change_low, row.change_high) for row in run],
        _within(times, tried.step_kept, tried.step, tried.change_low, tried.change_high),
    )
    changes = [signed_percent(row.change) if row.change is not None else "" for row in run]
    yield column("change", "", changes, signed_percent(tried.change))
    yield column("", "", [row.outcome for row in run], "")
    promised = scale([each for row in run for each in (row.promised_low, row.promised_high)], "ns")
    yield column("promised", "", [_interval(promised, row) for row in run], "")
    brought = scale([row.brought for row in run], "ns")
    yield column("brought", "", ["" if row.brought is None else _signed(brought, row.brought) for row in run], "")
    yield column("loss", "", [_LOSSES.get(row.loss, row.loss) for row in run], "")
    rate = [row.samples_per_second for row in run]
    yield column("samples/s", _known(tried.samples_per_second), [*map(_known, rate)], _known(tried.samples_kept))
    size = scale([tried.memory or None, *(row.memory for row in run)], "bytes")
    peaks = [_peak(size, row.memory) for row in run]
    yield column("memory", _peak(size, tried.memory), peaks, _peak(size, tried.memory_kept))


def _within(times: Scale, step: int | None, base: int | None, low: float | None, high: float | None) -> str:
    """`31.2 ± 0.9 ms`: half the interval of the change, as a time."""
    if step is None or low is None or high is None or not base:
        return "" if step is None else times.with_unit(step)
    number = times.text(step)
    digits = len(number.partition(".")[2])
    off = f"{(high - low) / 2 * base / times.divisor:,.{digits}f}"
    return times.with_unit(step).replace(number, f"{number} ± {off}", 1)


def _interval(of: Scale, row: TrialRow) -> str:
    if row.promised_high is None:
        return ""
    low = row.promised_low or 0
    return f"{of.text(low)}–{of.with_unit(row.promised_high)}" if low else f"up to {of.with_unit(row.promised_high)}"


def _signed(of: Scale, time: int) -> str:
    return f"{'−' * (time < 0)}{of.with_unit(abs(time))}"


def _known(rate: float | None) -> str:
    return "" if rate is None else shown(rate, "")


def _peak(of: Scale, size: int | None) -> str:
    return of.with_unit(size) if size else ""


def _about(row: TrialRow) -> tuple[str, ...]:
    """Why it is not kept, or when what its first steps take is earned."""
    if row.outcome != "kept":
        return (brief(row.why, _WHY_CELLS),) if row.why else ()
    return (f"pays after {number_of(row.pays_after, 'step')}",) if row.pays_after else ()


# --- the rest


def rest(tried: Tried) -> Iterator[Block]:
    """What was not run, how to keep what is kept, and what only an edit can change."""
    left = [*_not_run(tried.trials)]
    if left:
        yield NoteBlock("\n".join(left), "Not run")
    if tried.patch:
        yield CodeBlock("To keep it", _cut(tried.patch))
    by_hand = [f"{row.trial}: {row.edit}" for row in tried.trials if row.edit and row.outcome == "kept"]
    if by_hand and not tried.patch:
        yield CodeBlock("To keep it", "\n".join(by_hand))
    for place, (rule, title, change) in enumerate(tried.edits[:_MAX_EDITS]):
        head = "What only an edit can change\n" if not place else ""
        yield NoteBlock(f"{code(rule)} {title}", head.strip())
        if change:
            yield CodeBlock("", _cut(change))
    if len(tried.edits) > _MAX_EDITS:
        yield NoteBlock(f"… {grouped(len(tried.edits) - _MAX_EDITS)} more findings that no trial answers.")


def _cut(code: str) -> str:
    lines = code.splitlines()
    more = len(lines) - _MAX_CODE_LINES
    return "\n".join([*lines[:_MAX_CODE_LINES], f"… {grouped(more)} more lines"]) if more > 0 else code


def _not_run(trials: Sequence[TrialRow]) -> Iterator[str]:
    """A line for each reason, with the names of the trials."""
    groups: dict[str, list[str]] = {}
    for row in trials:
        if not row.was_run and row.outcome not in _FAILED:
            why = brief(row.why, _WHY_CELLS) if row.why and row.outcome == "refused" else row.outcome
            groups.setdefault(why, []).append(row.trial)
    for why, names in groups.items():
        yield f"{why}: {', '.join(names)}"
