"""Changes between two runs: the difference of their mean steps, call by call, without residue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import polars as pl

from kinetoscope import dispatch
from kinetoscope.compare.diff.align import Pair, aligned
from kinetoscope.compare.diff.hardware import ACROSS, across_hardware, products_of, sentence
from kinetoscope.compare.diff.mean_times import MEANS, means, slower_host
from kinetoscope.compare.diff.run_profile import Owner, RunProfile, averaged, run_profile
from kinetoscope.compare.diff.time_ownership import Measure
from kinetoscope.compare.diff.waterfall import LABELS, MIN_CHANGE_SHARE, WATERFALL, waterfall
from kinetoscope.compare.statistics.noise import Verdict, changes
from kinetoscope.errors import InputError
from kinetoscope.model.history.rank_series import PARTS
from kinetoscope.model.history.tables import PART_WORDS
from kinetoscope.model.job import Job, Readable, part_of
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.text import listed
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema, Unit
from kinetoscope.views.numbers import shown
from kinetoscope.views.sentences import EMPTY, Sentence, cell, join, say, total

Status = Literal[
    "new", "gone", "more calls", "fewer calls", "slower calls", "faster calls", "more time", "less time", "same"
]

ROWS = Schema(
    Column("category", pl.String, "Category of `step_breakdown`; of whole runs a part of a step."),
    Column(
        "kind",
        pl.String,
        "operator, annotation, runtime, python, kernel, memcpy, memset, part; nothing: none recorded.",
    ),
    Column("name", pl.String, "Name of the call, kernel or copy, as it is now; of a gone one as it was."),
    Column("status", pl.String, "What changed: new, gone, more, fewer, slower or faster calls; more or less time."),
    Column("base", pl.Int64, "Time that it owns in a mean step of the first run.", "ns"),
    Column("new", pl.Int64, "Time that it owns in a mean step of the second run.", "ns"),
    Column("change", pl.Int64, "The second less the first; all rows sum to the change of the mean step.", "ns"),
    Column("share", pl.Float64, "Change / mean step of the first run.", "fraction"),
    Column("base_calls", pl.Float64, "Calls in a mean step of the first run."),
    Column("new_calls", pl.Float64, "Calls in a mean step of the second run."),
    Column("verdict", pl.String, "worse, better: beyond noise; same; inconclusive; null for what hardly changes."),
    Column("path", pl.String, "Annotations, modules and operators around it, outermost first, parted by semicolons."),
    Column("input_shapes", pl.String, "Shapes of the inputs of the operator; null if none was recorded."),
    Column("was_name", pl.String, "Its name in the first run, where that was another one."),
    Column("was_path", pl.String, "The calls around it in the first run, where those were others."),
    Column("was_shapes", pl.String, "The shapes in the first run, where those were others."),
)
"""The rows of `Diff.rows`, those that changed most first."""

_COLLECTIVES_LEFT_OUT: Final = Note(
    "COLLECTIVES_LEFT_OUT", "Collectives are left out: their time includes waiting for other ranks."
)
_SAME_STEP_SHARE: Final = 0.005
_MAX_CATEGORIES: Final = 3
_MAX_NAMES: Final = 3
_MIN_CATEGORY_SHARE: Final = 0.1


@dataclass(frozen=True, repr=False)
class Diff:
    """The difference of two runs.

    Attributes:
        base, new: the mean step of each, whole ns.
        sentence: the answer in a line; where the host as a whole became slower, that too.
        verdict: whether the change of the step is more than noise.
        rows: each owner of time with its change; see `ROWS`.
        waterfall: the change by category, and by what changed most in each; see `WATERFALL`.
        means: what both runs call: how often, and how long each call takes; see `MEANS`.
        runs: what the user named.
        slower_host: the part of the sentence that says so.
        hardware: of runs on different devices, what the peaks explain of the change of each operator; see `ACROSS`. Its
            first note is the answer in a line. None for runs on alike devices, or on unknown ones.
        measure: the thing whose time is compared: that of both runs, or else a step.
    """

    base: int
    new: int
    sentence: Sentence
    verdict: Verdict
    rows: Result
    waterfall: Result
    means: Result
    runs: tuple[str, str]
    slower_host: Sentence = EMPTY
    hardware: Result | None = None
    measure: Measure = "step"

    def __str__(self) -> str:
        return dispatch.text(self)

    def __repr__(self) -> str:
        return f"<Diff of {' and '.join(self.runs)}: {self.sentence}>"

    def _repr_html_(self) -> str:
        """The sentence, the change of each kind of time drawn and listed, and the calls that changed most."""
        return dispatch.html(self)

    @property
    def change(self) -> int:
        """The second mean step less the first, ns; the rows sum to it."""
        return self.new - self.base

    @property
    def notes(self) -> tuple[Note, ...]:
        """Sentences on what was left out or assumed."""
        return self.rows.notes


def diff(
    base: Job | Readable, new: Job | Readable, *, select: Selection = ALL, base_select: Selection | None = None
) -> Diff:
    """Why does a step of one run take longer than a step of another?

    Method. Each instant of each step has one owner: the category of `step_breakdown`, and in it the call or kernel that
    started last; an idle instant belongs to what the main thread was doing. Owners of both runs are paired by name,
    call path and shapes of their inputs, without what differs from run to run (numbers of steps, addresses, hashes of
    compiled graphs); then those left over by less: a kernel of another name at the same place, other shapes, other
    calls around. A row is a pair: its time in the mean step of both runs, and the difference.

    The mean is over all steps of all ranks, without those of the warm-up unless steps are selected. Sums over all
    steps are whole nanoseconds. Dividing them leaves fractions: they are rounded up or down so that the rows sum to the
    rounded mean step in both runs, so no row is off by as much as a nanosecond, and the changes sum to the whole.

    Where launches cost more, and operators that both runs call equally often take longer on the host nearly without
    exception, the sentence says that the host became slower, and no single call: `means` has the calls (see
    `mean_times`).

    How to read it. The parts of the waterfall sum to the change of the step. A call that takes longer, but hidden
    behind others, has no change here: it costs nothing. What it hid before may appear instead.

    Limits. Which of two that run at once owns an instant is a rule, not a cause: work that becomes faster may show what
    ran behind it. Where both runs differ in shapes or call paths altogether, pairs are made in the order of occurrence.

    Args:
        base: the first run.
        new: the second run.
        select: what is looked at in both.
        base_select: what is looked at in the first run, where that is something else: other steps or ranks, as in
            `diff(job, job, base_select=Selection(steps=(3,)), select=Selection(steps=(7,)))`.

    Raises:
        InputError: a run cannot be read, or has no step.
        UsageError: a run does not have what was selected.
    """
    of_base = part_of(base, select if base_select is None else base_select)
    return between(run_profile(*of_base), run_profile(*part_of(new, select)))


def between(base: RunProfile, new: RunProfile) -> Diff:
    """The difference of two runs whose owners are known."""
    _require_steps(base, new)
    notes = tuple(dict.fromkeys(_notes(base, new)))
    if base.has_modules != new.has_modules:
        base, new = base.without_modules(), new.without_modules()
    if base.unknown != new.unknown:
        base, new = base.without_parts(new.unknown), new.without_parts(base.unknown)
    frame, verdict = _rows(base, new)
    step, new_step = int(frame.get_column("base").sum()), int(frame.get_column("new").sum())
    params = {"base": base.path, "new": new.path}
    rows = Result(frame, ROWS, notes, "diff", params)
    fall = Result(waterfall(frame, step), WATERFALL, notes, "diff", {**params, "table": "waterfall"})
    runs = (base.path, new.path)
    other = base.program is not None and new.program is not None and new.program.has_other_modules(base.program)
    counts = base.count, new.count
    of_calls = Result(means(base.times, new.times, counts), MEANS, notes, "diff", {**params, "table": "means"})
    hardware = _hardware(base, new, params)
    measure = _measure(base, new)
    said = _of_two_programs(rows) if other else _sentence(rows, fall, verdict, counts, measure)
    is_slower = new_step > (1 + _SAME_STEP_SHARE) * step and verdict.word != "same"
    host = slower_host(of_calls) if is_slower and not other and hardware is None else EMPTY
    return Diff(step, new_step, join([said, host]), verdict, rows, fall, of_calls, runs, host, hardware, measure)


def _measure(base: RunProfile, new: RunProfile) -> Measure:
    return base.measure if base.measure == new.measure else "step"


def _hardware(base: RunProfile, new: RunProfile, params: dict[str, str]) -> Result | None:
    """The part that the peaks explain, where the devices differ."""
    before, now = products_of(base.limits), products_of(new.limits)
    if not before or not now or before == now:
        return None
    frame = across_hardware(base.limits, new.limits, (base.count, new.count))
    facts = {**params, "table": "hardware"}
    return Result(frame, ACROSS, (_COLLECTIVES_LEFT_OUT,), "diff", facts, sentence=sentence(frame, before, now))


def _rounded(totals: Sequence[int], count: int) -> list[int]:
    """Each total / count, rounded up or down so that they sum to the rounded sum: by largest remainder."""
    whole = [total // count for total in totals]
    missing = (2 * sum(totals) + count) // (2 * count) - sum(whole)
    by_remainder = sorted(range(len(totals)), key=lambda place: (-(totals[place] % count), place))
    for place in by_remainder[:missing]:
        whole[place] += 1
    return whole


# --- rows


def _require_steps(*runs: RunProfile) -> None:
    """Make sure that each run has a step to compare, and both of the same kind."""
    for whole, other in (runs, runs[::-1]):
        if whole.is_whole and not other.is_whole:
            raise InputError(
                f"{whole.path} is the history of a run, {other.path} has traces: compare the folders `history` of both"
            )
    for each in runs:
        if not each.count or not each.time:
            raise InputError(f"{each.path} has no step to compare; record with schedule and step() of torch.profiler")


def _rows(base: RunProfile, new: RunProfile) -> tuple[pl.DataFrame, Verdict]:
    """The rows of ROWS, those that changed most first; and the verdict on the step."""
    pairs = aligned(base, new)
    before = _rounded([sum(owner.time for owner in pair.base) for pair in pairs], base.count)
    after = _rounded([sum(owner.time for owner in pair.new) for pair in pairs], new.count)
    step = sum(before)
    order = sorted(range(len(pairs)), key=lambda place: (-abs(after[place] - before[place]), -before[place], place))
    verdicts = _verdicts(base, new, pairs, [after[i] - before[i] for i in range(len(pairs))], step)
    row_values = [_row(pairs[i], before[i], after[i], base, new, step, verdicts.get(i)) for i in order]
    return ROWS.frame(row_values), verdicts[-1]


def _row(
    pair: Pair[Owner], before: int, after: int, base: RunProfile, new: RunProfile, step: int, verdict: Verdict | None
) -> tuple[object, ...]:
    """One row of ROWS."""
    calls = [sum(owner.calls for owner in side) for side in (pair.base, pair.new)]
    one = (pair.new or pair.base)[0].key
    names, was_names = _said(pair.new, _name), _said(pair.base, _name)
    paths, was_paths = _said(pair.new, _path), _said(pair.base, _path)
    shapes, was_shapes = _said(pair.new, _shapes), _said(pair.base, _shapes)
    both = bool(pair.base and pair.new)

    def if_other(was: str, now: str) -> str | None:
        """The value of the first run, where the second has another."""
        return was if both and was != now else None

    return (
        one.category,
        one.kind,
        names or was_names,
        _status(pair, before, after, calls[0] * new.count, calls[1] * base.count),
        before,
        after,
        after - before,
        (after - before) / step if step else None,
        calls[0] / base.count,
        calls[1] / new.count,
        verdict.word if verdict else None,
        paths if pair.new else was_paths,
        (shapes if pair.new else was_shapes) or None,
        if_other(was_names, names),
        if_other(was_paths, paths),
        if_other(was_shapes, shapes),
    )


def _name(owner: Owner) -> str:
    return owner.key.name


def _path(owner: Owner) -> str:
    return owner.key.path


def _shapes(owner: Owner) -> str:
    return owner.key.input_shapes or ""


def _said(owners: Sequence[Owner], what: Callable[[Owner], str]) -> str:
    """The names of the owners of one side, each once; of many the first ones."""
    texts = list(dict.fromkeys(map(what, owners)))
    more = f" + {len(texts) - _MAX_NAMES} more" if len(texts) > _MAX_NAMES else ""
    return " + ".join(texts[:_MAX_NAMES]) + more


def _status(pair: Pair[Owner], before: int, after: int, base_calls: int, new_calls: int) -> Status:
    """The larger cause of the change: the number of calls (of as many steps in both runs), or the time of each."""
    if not pair.base:
        return "new"
    if not pair.new:
        return "gone"
    if not base_calls or not new_calls:
        return "same" if before == after else "more time" if after > before else "less time"
    # change = (calls now − calls before) × mean time + mean calls × (time now − time before), of a call each
    by_calls = (new_calls - base_calls) * (before * new_calls + after * base_calls)
    by_time = (new_calls + base_calls) * (after * base_calls - before * new_calls)
    if base_calls != new_calls and (before == after or abs(by_calls) >= abs(by_time)):
        return "more calls" if new_calls > base_calls else "fewer calls"
    return "same" if before == after else "slower calls" if after > before else "faster calls"


def _verdicts(
    base: RunProfile, new: RunProfile, pairs: Sequence[Pair[Owner]], change: Sequence[int], step: int
) -> dict[int, Verdict]:
    """Verdicts on each pair that changed by something worth a word; at −1 the step's, which no other one weakens."""
    asked = [place for place in range(len(pairs)) if abs(change[place]) >= MIN_CHANGE_SHARE * step]
    sides = [([base.values(pairs[i].base).tolist()], [new.values(pairs[i].new).tolist()]) for i in asked]
    by_pair = dict(zip(asked, changes(sides), strict=True))
    (whole,) = changes([([base.steps.tolist()], [new.steps.tolist()])])
    return {**by_pair, -1: whole}


# --- words

_SUBJECTS: Final[dict[Measure, str]] = {
    "step": "A step takes",
    "window": "The window takes",
    "recording": "All that was recorded takes",
}


def _sentence(rows: Result, fall: Result, verdict: Verdict, counts: tuple[int, int], measure: Measure) -> Sentence:
    """The answer: `A step takes 24% less time: 178 ms → 135 ms; data loading −43.1 ms, host operators +4.2 ms`."""
    before, after = total(rows, "base"), total(rows, "new")
    from_to = say("{before} → {after}", before=before, after=after)
    change = (after - before) / before
    if abs(change.number) < _SAME_STEP_SHARE:
        return say("{takes} as long as before: {from_to}.", takes=_SUBJECTS[measure], from_to=from_to)
    frame = fall.frame
    parts = frame.filter(pl.col("part").is_null()).select("category", "change").rows()
    least = _MIN_CATEGORY_SHARE * max(abs(time) for _, time in parts)
    words = [
        say(
            "{label} {change}",
            label=LABELS[category],
            change=cell(fall, "change", category=category, part=None).words(signed(time)),
        )
        for category, time in parts[:_MAX_CATEGORIES]
        if abs(time) >= least
    ]
    return say(
        "{takes} {share} {less} time: {from_to}; {words}.{doubt}",
        takes=_SUBJECTS[measure],
        share=change.words(shown(abs(change.number), "fraction")),
        less="less" if change.number < 0 else "more",
        from_to=from_to,
        words=join(words, ", "),
        doubt=_doubt(verdict, counts, measure),
    )


def _of_two_programs(rows: Result) -> Sentence:
    """Steps of different programs are not alike: nothing is gained or lost between them."""
    return say(
        "These are different programs: a step of the first takes {base}, of the second {new}.",
        base=total(rows, "base"),
        new=total(rows, "new"),
    )


def _doubt(verdict: Verdict, counts: tuple[int, int], measure: Measure) -> str:
    """Notes that a reader must know of the change before it is believed."""
    if verdict.word in ("worse", "better"):
        return ""
    if verdict.word == "same":
        return " That is within noise."
    if measure != "step":
        return f" There is one {measure} of each: nothing tells how much they differ by themselves."
    if max(counts) == 1:
        return " There is one step of each: nothing tells how much steps differ by themselves."
    return " That may be noise: more steps, or several runs of each, would tell."


def signed(change: int, unit: Unit = "ns") -> str:
    """`−43.1 ms`, with a sign that is as wide as a plus."""
    return f"{'+' if change > 0 else '−' if change < 0 else '±'}{shown(abs(change), unit)}"


def _notes(base: RunProfile, new: RunProfile) -> Iterator[Note]:
    """Notes on the comparison, and those on each run."""
    for note in dict.fromkeys([*base.notes, *new.notes]):
        if note.about == "shapes" and base.has_shapes != new.has_shapes:
            continue
        both = note in base.notes and note in new.notes
        yield note if both else note.reworded(f"{base.path if note in base.notes else new.path}: {note}")
    yield from filter(None, (averaged(base), averaged(new)))
    if base.ranks != new.ranks:
        yield Note(
            "DIFFERENT_RANKS",
            f"The runs have different ranks: {listed(base.ranks)}, and {listed(new.ranks)}; each is its own mean.",
        )
    if base.has_device != new.has_device:
        on, off = (base, new) if base.has_device else (new, base)
        yield Note(
            "DEVICE_WORK_ON_ONE_SIDE",
            f"{on.path} has device work, {off.path} has none: their times are of different machines, or options.",
        )
    if base.has_modules != new.has_modules:
        yield Note(
            "MODULES_ON_ONE_SIDE",
            "Modules were recorded in one of the runs only: call paths are compared without them.",
        )
    if one_sided := [PART_WORDS[part] for part in PARTS if part in base.unknown ^ new.unknown]:
        yield Note(
            "PARTS_ON_ONE_SIDE",
            f"Known in one of the runs only, and counted as the rest of the step in both: {', '.join(one_sided)}.",
        )
    if base.has_shapes != new.has_shapes:
        yield Note(
            "SHAPES_ON_ONE_SIDE",
            "Shapes were recorded in one of the runs only: calls of all shapes are compared together.",
        )
