"""Summary: where the time of a step goes, the largest loss, and what to type next, on one screen."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from kinetoscope.advisor.advice import Advice
from kinetoscope.pages.blocks import Bar, BarsBlock, Block, FindingsBlock, NoteBlock, Page, Part, PartsBlock
from kinetoscope.pages.digest import Digest, digest
from kinetoscope.pages.findings import of_advice
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.pages.sentences.hang import hang_sentence, remedy_of
from kinetoscope.pages.sentences.recorded import has_device_work, has_steps
from kinetoscope.pages.sentences.steps import TimePart
from kinetoscope.schema import Result
from kinetoscope.views.numbers import scale
from kinetoscope.views.sentences import Quantity, Sentence, different, each, greatest, join, least, mean, say
from kinetoscope.views.terminal.bars import sparkline
from kinetoscope.views.text import cells, middle

if TYPE_CHECKING:  # few runs have snapshots
    from kinetoscope.pages.sentences.snapshot import SnapshotWords

_MAX_CATEGORIES: Final = 8
"""Categories of memory in the short table."""

_MAX_NOTES: Final = 3
"""Remarks on health; of several ranks, of which more is said above, one less. `doctor` has all."""

_CURVE_CELLS: Final = 70
"""The row of steps, its words included, but for its title: a narrow terminal has room for it."""

_STEP_CELLS: Final = 4
"""A step in it, where there is room for its number below."""

_UNEVEN_STEP_RATIO: Final = 1.15  # a step so much longer than the middle one is named
_SHORT_PATH_CELLS: Final = 32  # a longer path is not repeated in each command
_NOTABLE_STEP_SHARE: Final = 0.05  # share of a step from which something is worth a word

_NOT_ASKED: Final = say("The rules were not asked, because the traces are large: kinetoscope advise asks them.")


def of_run(
    path: str, results: Mapping[str, Result], advice: Advice | None = None, memory: SnapshotWords | None = None
) -> Page:
    """The summary of a job.

    Args:
        path: what the user named, for the commands that are proposed.
        results: what `digest` takes.
        advice: the findings, where the rules were asked.
        memory: what is said of memory snapshots.
    """
    of = digest(path, results)
    most = _MAX_NOTES - bool(of.ranks)
    more = len(of.health) - most
    return Page(
        name="summary",
        title=of.name,
        sentence=of.headline,
        facts=of.facts,
        blocks=tuple(_blocks(of, results, advice, () if memory is None else memory.sentences)),
        cannot=(*of.health[:most], *([f"{more} more: see kinetoscope doctor"] if more > 0 else [])),
        commands=_commands(path, device=has_device_work(results["trace_info"].frame)),
    )


def of_snapshots(path: str, results: Mapping[str, Result], advice: Advice | None, memory: SnapshotWords) -> Page:
    """The summary of snapshots that were opened without a trace: nothing but memory is known."""
    of = of_run(path, results)
    total = sum(size for _, size in memory.categories)
    bars = [Bar(name, "memory", size, size / total, name=name) for name, size in memory.categories[:_MAX_CATEGORIES]]
    show, quoted = "kinetoscope show", _quoted(path)
    first, *others = memory.sentences
    return replace(
        of,
        sentence=first,
        facts=(*memory.facts, *of.facts[-1:]),
        blocks=(
            *map(NoteBlock, others),
            *([_findings(advice)] if advice is not None and advice.findings else []),
            BarsBlock("In use at the peak", bars, "bytes"),
        ),
        commands=(
            (f"{show} memory_peak {quoted}", "who owns the peak"),
            (f"{show} memory_what_if {quoted}", "what other settings would hold"),
            (f"kinetoscope view {quoted}", "memory over time, and the segments at any instant"),
            (f"kinetoscope doctor {quoted}", "the snapshot itself"),
        ),
    )


def of_hang(path: str, results: Mapping[str, Result]) -> Page:
    """The summary of what ranks left of a hang, without traces: what they wait for, and what their collectives took."""
    of, quoted = digest(path, results), _quoted(path)
    remedy = [NoteBlock(remedy_of(results["hang"]), title="What to do")] if results["hang"].frame.height else []
    what = [NoteBlock(of.headline), *of.tops] if of.tops else []
    return Page(
        name="summary",
        title=of.name,
        sentence=hang_sentence(results["hang"]),
        facts=of.facts,
        blocks=(*remedy, *what),
        cannot=of.health[:_MAX_NOTES],
        commands=(
            (f"kinetoscope hang {quoted}", "who is where, and the calls that show it"),
            (f"kinetoscope show collectives {quoted}", "how long collectives took"),
            (f"kinetoscope doctor {quoted}", "the files themselves"),
        ),
    )


def of_history(path: str, said: Page) -> Page:
    """The summary of a run of which nothing but its history is there: what that says, and what to ask next."""
    quoted = _quoted(path)
    commands = (
        (f"kinetoscope history {quoted} --steps 1000-2000", "more about a stretch"),
        (f"kinetoscope diff OTHER {quoted}", "against another run, by the parts of a step"),
        (f"kinetoscope show history-lost {quoted}", "where its time went"),
    )
    return replace(said, name="summary", commands=commands)


def _blocks(
    of: Digest, results: Mapping[str, Result], advice: Advice | None, memory: Sequence[Sentence]
) -> Iterator[Block]:
    yield from (NoteBlock(said) for said in (*memory, of.serving, of.limits) if said)
    yield from (NoteBlock(said, alert=True) for said in of.damage)
    loss = [of.loss] if advice is None or not advice.notable else []
    yield from (NoteBlock(said) for said in (of.ranks, *loss) if said)
    yield FindingsBlock("", (), headline=_NOT_ASKED) if advice is None else _findings(advice)
    if of.parts:
        yield PartsBlock("", [Part(part.kind, part.label, part.time) for part in of.parts])
        steps = results["step_breakdown"]
        if steps.frame.get_column("rank").n_unique() > 1:
            yield from _of_ranks(steps, of.parts, "a step" if has_steps(results["trace_info"].frame) else "the window")
        else:
            yield from _of_steps(steps)
    yield from of.tops


def _findings(advice: Advice) -> FindingsBlock:
    """The first finding as a headline, those that are worth a line, and all where there is room."""
    rows = [
        row for block in of_advice(advice, limit=0).blocks if isinstance(block, FindingsBlock) for row in block.findings
    ]
    first = (advice.notable or advice.of("critical") or (() if advice.step else advice.findings))[:1]
    after = "".join(f" ({finding.severity}, {finding.code})" for finding in first)
    return FindingsBlock("", rows, advice.step, advice, note=advice.limits, headline=join([advice.first, after], ""))


# --- steps and ranks


def _of_steps(steps: Result) -> Iterator[GridBlock]:
    times = steps.frame.get_column("duration").to_list()
    if len(times) < 2:
        return
    columns = steps.frame.select("step", "duration").rows()
    number, longest = max(columns, key=lambda column: column[1])
    words = _range(least(steps, "duration"), greatest(steps, "duration"))
    if longest > _UNEVEN_STEP_RATIO * sorted(times)[len(times) // 2]:
        step = each(steps, "step", pl.col("duration") == longest).words(str(number))
        words = say("{range}; step {number} is the longest", range=words, number=step)
    yield _row("Steps", "host", columns, words)


def _of_ranks(steps: Result, parts: Sequence[TimePart], whole: str) -> Iterator[GridBlock]:
    """Ranks by what tells them apart: who communicates least is the one for whom the others wait."""
    total = sum(part.time for part in parts)
    communicating = next((part.time for part in parts if part.kind == "communication"), 0.0)
    what = "communication" if communicating > _NOTABLE_STEP_SHARE * total else "duration"
    means = steps.frame.group_by("rank").agg(pl.col(what).mean()).sort("rank").rows()
    low, high = (end(means, key=lambda row: row[1]) for end in (min, max))
    words = _range(mean(steps, what, rank=low[0]), mean(steps, what, rank=high[0]))
    if what == "communication":
        yield _row("Ranks", what, means, say("exposed communication {range}", range=words))
    elif high[1] > _UNEVEN_STEP_RATIO * low[1]:
        rank = different(steps, "rank", rank=high[0]).words(str(high[0]))
        yield _row("Ranks", "host", means, say("{range}; rank {rank} takes longest", range=words, rank=rank))
    else:
        yield _row("Ranks", "host", means, say("{whole} takes {range}", whole=whole, range=words))


def _row(title: str, kind: str, columns: Sequence[tuple[int, float]], words: Sentence) -> GridBlock:
    """Steps or ranks as a curve from zero, so that an uneven one is seen; few have their numbers below."""
    times, room = [time for _, time in columns], _CURVE_CELLS - cells(words)
    size = -(-len(times) // room)  # each stands for the largest of so many: a slow step must not get lost
    curve = sparkline([max(times[start : start + size]) for start in range(0, len(times), size)])
    rows = [GridRow((title, curve, words), kind)]
    if len(times) * _STEP_CELLS <= room:
        wide = _STEP_CELLS - 1
        numbers = " ".join(f"{middle(str(number), wide):^{wide}}" for number, _ in columns)
        rows = [GridRow((title, " ".join(height * wide for height in curve), words), kind), GridRow(("", numbers, ""))]
    return GridBlock("", ("", "", ""), rows)


def _range(low: Quantity, high: Quantity) -> Sentence:
    """`166 – 188 ms`."""
    unit = scale([low.number, high.number], "ns")
    return say("{low} – {high}", low=low.words(unit.text(low.number)), high=high.words(unit.with_unit(high.number)))


# --- what to type next


def _commands(path: str, *, device: bool) -> tuple[tuple[str, str], ...]:
    """Commands, each with its purpose."""
    quoted = _quoted(path)
    show = "kinetoscope show"
    of_host = ((f"{show} operators {quoted}", "all operators"),)
    of_device = (
        (f"{show} idle-breakdown {quoted}", "why the device waits"),
        (f"{show} critical-path {quoted}", "what to speed up"),
    )
    return (
        (f"kinetoscope advise {quoted}", "what to change"),
        *(of_device if device else of_host),
        (show, "all other questions"),
        (f"kinetoscope doctor {quoted}", "the trace itself"),
    )


def _quoted(path: str) -> str:
    quoted = shlex.quote(path)
    return quoted if len(quoted) <= _SHORT_PATH_CELLS else "PATH"
