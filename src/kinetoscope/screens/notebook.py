"""A job, a summary, advice, a difference, a gate in a cell of a notebook: HTML with pictures as SVG inside.

As in `views.notebook` there is no script, no style sheet and nothing from the network, and all that a trace says is
text. Heights are bounded: what is not shown is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Final

import polars as pl

from kinetoscope.advisor.advice import METHOD, Advice, is_part_sure, stake_of, stake_text
from kinetoscope.advisor.commands import call_of
from kinetoscope.advisor.finding import Finding
from kinetoscope.analyses import NAMES, named
from kinetoscope.compare.diff.diff import Diff
from kinetoscope.compare.gate.gate import Gate
from kinetoscope.compare.gate.report import sentence, table
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection, default_to_steady
from kinetoscope.model.trace.text import number_of
from kinetoscope.pages.digest import Digest, TopRow, average_step
from kinetoscope.pages.sentences import recorded
from kinetoscope.pages.sentences.steps import TimePart, headline
from kinetoscope.schema import Result
from kinetoscope.screens.advice import mark
from kinetoscope.screens.diff import axis, bars
from kinetoscope.views.charts.palette import KINDS
from kinetoscope.views.charts.spans import Span, proportions, spans
from kinetoscope.views.names import shortened
from kinetoscope.views.notebook import boxed, grid, notes, to_html
from kinetoscope.views.numbers import shown
from kinetoscope.views.terminal.bars import sparkline
from kinetoscope.views.text import middle, printable

MAX_FINDINGS: Final = 8
"""Findings of an advice that are shown."""

MAX_CALLS: Final = 15
"""Calls of a difference that are shown."""

MAX_WIDTH_PX: Final = 960
"""Of prose: longer lines are hard to read."""

READ_FOR_A_CELL: Final = 16, 200_000_000
"""Traces, and their bytes as stored, up to which a job that is merely shown is read whole; else its first trace."""

_CALL_COLUMNS: Final = (
    *("category", "name", "status", "base", "new", "change", "share", "base_calls", "new_calls", "verdict"),
)
_SEVERITY_KINDS: Final = {"critical": "waiting", "warning": "communication", "note": "host"}
_MAX_REMARKS: Final = 3
_NAME_CELLS: Final = 64
_SOFT: Final = "opacity:0.7"


# --- a job


def job_html(job: Job) -> str:
    """What was recorded and where a step's time goes, and the functions to call next; of a large job by one trace."""
    most, size = READ_FOR_A_CELL
    small = len(job) <= most and sum(source.size or 0 for source in job.sources) <= size
    read = job if small else Job(job.path, job.sources[:1], job.engine)
    select = default_to_steady(Selection())
    questions: dict[str, Callable[[Job], Result]] = {
        name: partial(named(name), select=select) for name in ("trace_info", "step_breakdown")
    }
    try:
        results = read.ask(questions)
    except KinetoscopeError as error:
        return boxed(_bold(repr(job)), _paragraph(str(error)))
    info, steps = results["trace_info"].frame, results["step_breakdown"]
    device, stacks = recorded.has_device_work(info), recorded.has_stacks(info)
    parts = average_step(steps, device=device, stacks=stacks)
    words = headline(
        parts,
        ranks=steps.frame.get_column("rank").n_unique(),
        device=device,
        marked=recorded.has_steps(info),
        before=recorded.has_work_before(info),
    )
    left_out = "" if small else f"{number_of(len(job), 'trace')} in all; this is about rank {read.ranks[0]} alone."
    return boxed(
        _bold(recorded.name(info, job.path)),
        _paragraph(" · ".join(recorded.facts(info, steps.frame)), _SOFT),
        _paragraph(left_out),
        _bold(words),
        *(_paragraph(f"! {said}") for said in recorded.damage(results["trace_info"])),
        _average(parts),
        _remarks(recorded.health(results["trace_info"], job.notes)),
        _next(
            ("summary(job)", "the largest loss, what to change, what takes the time"),
            ("advise(job)", "what to change, and what it would bring"),
            ("view(job)", "the timeline and all tables, in this cell"),
            (f"{'rank_balance' if len(job.ranks) > 1 else 'step_breakdown'}(job)", f"one of {len(NAMES)} analyses"),
        ),
    )


# --- a summary


def digest_html(digest: Digest) -> str:
    """The same as `screens.summary` draws."""
    after = "".join(f" ({each.severity}, {each.code})" for each in digest.changes[:1])
    changes = [f"<li>{_badge(each)} {_safe(stake_of(each))}: {prose(each.title)}</li>" for each in digest.changes[1:]]
    spread = ""
    if digest.spread is not None:
        line = sparkline([column.time for column in digest.spread.columns][:60])
        spread = f"<p>{_safe(digest.spread.title)} <code>{line}</code> {_safe(digest.spread.words)}</p>"
    return boxed(
        _bold(digest.name),
        _paragraph(" · ".join(digest.facts), _SOFT),
        _bold(digest.headline),
        *(_paragraph(f"! {said}") for said in digest.damage),
        *(_paragraph(said) for said in digest.memory),
        _paragraph(digest.serving),
        _paragraph(digest.limits),
        _paragraph(digest.ranks),
        _paragraph("" if digest.changes else digest.loss),
        _bold(f"What to change: {digest.first}{after}") if digest.first else "",
        f"<ul>{''.join(changes)}</ul>" if changes else "",
        _average(digest.parts),
        spread,
        *(_top(title, rows) for title, rows in digest.tops if rows),
        _remarks(digest.health),
        _next(
            ("advise(job)", "what to change"),
            ("idle_breakdown(job)", "why the device waits"),
            ("critical_path(job)", "what to speed up"),
            ("view(job)", "the timeline and all tables"),
        ),
    )


def _average(parts: Sequence[TimePart]) -> str:
    """The average step as one bar, with what its colours mean."""
    of_step = [part for part in parts if part.time > 0]
    total = sum(part.time for part in of_step)
    return proportions(
        [
            (part.label, f"{shown(part.time, 'ns')}, {shown(part.time / total, 'fraction')}", part.time, part.kind)
            for part in sorted(of_step, key=lambda part: -part.time)
        ]
    )


def _top(title: str, rows: Sequence[TopRow]) -> str:
    names = shortened([row.name for row in rows], _NAME_CELLS)
    lines = [
        Span(
            name,
            f"{shown(row.time, row.unit)}, {shown(row.share, 'fraction')}{row.count and f', {row.count} calls'}",
            KINDS[row.kind].light,
            0,
            row.share,
        )
        for name, row in zip(names, rows, strict=True)
    ]
    return f"<p>{_safe(title)}</p>{spans(lines, 0, max(row.share for row in rows))}"


# --- advice


def advice_html(advice: Advice) -> str:
    """The findings, numbered: what is wrong, the stake, why, what to change, and the call that shows it."""
    counts = ((name, len(advice.of(name))) for name in _SEVERITY_KINDS)
    said = ", ".join(f"{count} {name}{'s' * (count > 1 and name != 'critical')}" for name, count in counts if count)
    seen = advice.findings[:MAX_FINDINGS]
    more = len(advice.findings) - len(seen)
    findings = "".join(f'<li style="margin-bottom:0.8em">{"".join(_finding(each, advice))}</li>' for each in seen)
    return boxed(
        _bold(advice.headline),
        _paragraph(f"{advice.measure}{': ' * bool(said)}{said}.", _SOFT),
        f"<ol>{findings}</ol>" if seen else "",
        _paragraph(f"… {more} more of {len(advice.findings)} findings: advice.result has all." if more > 0 else ""),
        _paragraph(METHOD if advice.timed else "", _SOFT),
        notes(advice.notes),
    )


def _finding(finding: Finding, advice: Advice) -> Iterator[str]:
    yield f"<b>{prose(finding.title)}.</b> {prose(finding.detail)}<br>"
    stake = f" {_safe(stake_text(finding))} of a step" if finding.step > 0 and finding.stake.high > 0 else ""
    yield f"{_badge(finding)}{stake}"
    if stake:
        yield _bar_of_stake(finding)
    for remark in (finding.why, *finding.remarks(max(advice.ranks, 1))):
        yield _paragraph(remark, _SOFT)
    if finding.change:
        lines = (_changed(line) for line in finding.change.splitlines())
        yield f'<pre style="margin:0.3em 0;white-space:pre-wrap">{"<br>".join(lines)}</pre>'
    for each in finding.evidence:
        place = f" ({each.file}:{each.line})" if each.file else ""
        of_rank = f" on rank {each.rank}" if each.rank is not None and advice.ranks > 1 else ""
        call = f" <code>{_safe(call_of(each))}</code>{of_rank}" if each.analysis else ""
        yield f'<div style="{_SOFT}">→ {prose(each.text + place)}{call}</div>'


def _bar_of_stake(finding: Finding) -> str:
    """What is sure, what is possible, and the step: on one line."""
    low, high = (min(max(end / finding.step, 0.0), 1.0) for end in (finding.stake.low, finding.stake.high))
    low = low if is_part_sure(finding) else 0.0
    ink = KINDS["waiting"].light
    parts = ['<rect width="320" height="6" fill-opacity="0.12"/>']
    for share, opacity in ((high, 0.4), (low, 1)):
        parts.append(f'<rect width="{320 * share:.1f}" height="6" fill="{ink}" fill-opacity="{opacity}"/>')
    return f'<br><svg width="320" height="6" fill="currentColor" role="img">{"".join(parts)}</svg>'


def _changed(line: str) -> str:
    """A line of a diff, in the colour of what goes out or comes in."""
    kind = {"-": "waiting", "+": "memory"}.get(line[:1])
    style = f' style="color:{KINDS[kind].light}"' if kind else ""
    return f"<span{style}>{_safe(line)}</span>"


# --- several runs


def diff_html(diff: Diff) -> str:
    """The sentence, the fall from the one step to the other, the change of each kind of time, what changed most.

    Of runs on different devices also what their peaks explain.
    """
    lines = list(bars(diff))
    low, high = axis(diff, lines)
    fall = [Span(bar.label, bar.number, KINDS[bar.kind].light, bar.low, bar.high, strong=bar.is_step) for bar in lines]
    kinds = diff.waterfall.frame.filter(pl.col("part").is_null()).sort("base", descending=True)
    schema = diff.waterfall.schema.only(["category", "base", "new", "change", "share"])
    calls = diff.rows.schema.only(_CALL_COLUMNS)
    rows = Result(diff.rows.frame.select(calls.names), calls, diff.rows.notes)
    return boxed(
        _bold(diff.sentence),
        _paragraph(" → ".join(diff.runs), _SOFT),
        spans(fall, low, high),
        _paragraph(f"The axis begins at {shown(low, 'ns')}." if low else "", _SOFT),
        to_html(Result(kinds.select(schema.names), schema)),
        to_html(rows, limit=MAX_CALLS),
        "" if diff.hardware is None else to_html(diff.hardware, limit=MAX_CALLS),
    )


def gate_html(gate: Gate) -> str:
    """The sentence, and a row for each metric."""
    return boxed(_bold(sentence(gate)), grid(table(gate)), notes(gate.notes))


# --- words


def prose(text: str) -> str:
    """Text from a rule, with what stands between backquotes as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", _safe(text))


def _badge(finding: Finding) -> str:
    ink = KINDS[_SEVERITY_KINDS[finding.severity]].light
    return f'<span style="border-left:4px solid {ink};padding-left:4px">{_safe(mark(finding))}</span>'


def _remarks(health: Sequence[tuple[str, str]]) -> str:
    """The first remarks about the traces, and how many more there are."""
    more = f"<li>… {len(health) - _MAX_REMARKS} more: job.trace().health</li>" if len(health) > _MAX_REMARKS else ""
    items = "".join(f"<li>{prose(message)}</li>" for _, message in health[:_MAX_REMARKS])
    return f"<ul>{items}{more}</ul>" if items else ""


def _next(*calls: tuple[str, str]) -> str:
    rows = (
        f'<div><code>kinetoscope.{_safe(call)}</code> <span style="{_SOFT}">{_safe(why)}</span></div>'
        for call, why in calls
    )
    return f'<div style="margin-top:0.5em">{"".join(rows)}</div>'


def _bold(text: str) -> str:
    return f'<p style="max-width:{MAX_WIDTH_PX}px;margin:0.3em 0"><b>{prose(middle(printable(text), 400))}</b></p>'


def _paragraph(text: str, style: str = "") -> str:
    return f'<p style="max-width:{MAX_WIDTH_PX}px;margin:0.3em 0;{style}">{prose(text)}</p>' if text else ""


def _safe(text: str) -> str:
    return escape(printable(text))
