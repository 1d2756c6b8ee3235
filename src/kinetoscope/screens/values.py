"""A job, advice, a difference, a gate as text and in a cell of a notebook: HTML with SVG inside.

As in `views.notebook` there is no script, no style sheet and nothing from the network, and all that a trace says is
text. Heights are bounded: what is not shown is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.plan import AdvicePlan
from kinetoscope.analyses import NAMES, asked
from kinetoscope.compare.diff.diff import Diff
from kinetoscope.compare.gate.causes import Causes
from kinetoscope.compare.gate.gate import Gate
from kinetoscope.compare.trials.tried import Tried
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection, default_to_steady
from kinetoscope.model.trace.text import number_of
from kinetoscope.pages.answers.diff import of_diff
from kinetoscope.pages.answers.gate import of_gate
from kinetoscope.pages.answers.plan import of_plan
from kinetoscope.pages.answers.trials import of_tried
from kinetoscope.pages.blocks import Part, PartsBlock
from kinetoscope.pages.digest import average_step
from kinetoscope.pages.findings import of_advice
from kinetoscope.pages.sentences import recorded
from kinetoscope.pages.sentences.steps import TimePart, headline
from kinetoscope.screens import terminal
from kinetoscope.screens.html import SOFT, bold, drawn, html, paragraph, prose, safe
from kinetoscope.views.notebook import boxed

MAX_FINDINGS: Final = 8
"""Findings of an advice that are shown."""

MAX_CALLS: Final = 15
"""Calls of a difference that are shown."""

READ_FOR_A_CELL: Final = 16, 200_000_000
"""Traces, and their bytes as stored, up to which a job that is merely shown is read whole; else its first trace."""

_MAX_REMARKS: Final = 3
_NAME_CELLS: Final = 64


# --- a job


def job_html(job: Job) -> str:
    """What was recorded and where a step's time goes, and the functions to call next; of a large job by one trace."""
    most, size = READ_FOR_A_CELL
    small = len(job) <= most and sum(source.size or 0 for source in job.sources) <= size
    read = job if small else Job(job.path, job.sources[:1], job.engine)
    select = default_to_steady(Selection())
    try:
        results = read.ask({name: asked(name, select=select) for name in ("trace_info", "step_breakdown")})
    except KinetoscopeError as error:
        return boxed(bold(repr(job)), paragraph(str(error)))
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
        bold(recorded.name(info, job.path)),
        paragraph(" · ".join(recorded.facts(info, steps.frame)), SOFT),
        paragraph(left_out),
        bold(words),
        *(paragraph(f"! {said}") for said in recorded.damage(results["trace_info"])),
        _average(parts),
        _remarks(recorded.health(results["trace_info"], job.notes)),
        _next(
            ("summary(job)", "the largest loss, what to change, what takes the time"),
            ("advise(job)", "what to change, and what it would bring"),
            ("view(job)", "the timeline and all tables, in this cell"),
            (f"{'rank_balance' if len(job.ranks) > 1 else 'step_breakdown'}(job)", f"one of {len(NAMES)} analyses"),
        ),
    )


def _average(parts: Sequence[TimePart]) -> str:
    """The average step as one bar, with the meanings of its colours."""
    return drawn(PartsBlock("", [Part(part.kind, part.label, part.time) for part in parts]))


# --- advice


def advice_text(advice: Advice) -> str:
    """All findings, as on a terminal."""
    return terminal.text(of_advice(advice, limit=0))


def advice_html(advice: Advice) -> str:
    """The findings, numbered, the first of them."""
    return html(of_advice(advice, limit=MAX_FINDINGS))


def plan_text(plan: AdvicePlan) -> str:
    """All steps, as on a terminal."""
    return terminal.text(of_plan(plan))


def plan_html(plan: AdvicePlan) -> str:
    """The steps in a cell."""
    return html(of_plan(plan))


# --- several runs


def diff_text(difference: Diff) -> str:
    """The sentence, the fall from the one step to the other, what changed most."""
    return terminal.text(of_diff(difference))


def diff_html(difference: Diff) -> str:
    """The same in a cell."""
    return html(of_diff(difference, limit=MAX_CALLS))


def gate_text(gate: Gate, causes: Causes | None = None) -> str:
    """The sentence, a line for each metric, and the causes of a failure."""
    return terminal.text(of_gate(gate, causes))


def gate_html(gate: Gate) -> str:
    """The same in a cell."""
    return html(of_gate(gate))


# --- trials


def tried_text(tried: Tried) -> str:
    """The gain in a sentence, a line for each trial, the patch."""
    return terminal.text(of_tried(tried))


def tried_html(tried: Tried) -> str:
    """The same in a cell."""
    return html(of_tried(tried))


# --- words


def _remarks(health: Sequence[str]) -> str:
    """The first remarks about the traces, and how many more there are."""
    more = f"<li>… {len(health) - _MAX_REMARKS} more: job.trace().health</li>" if len(health) > _MAX_REMARKS else ""
    items = "".join(f"<li>{prose(message)}</li>" for message in health[:_MAX_REMARKS])
    return f"<ul>{items}{more}</ul>" if items else ""


def _next(*calls: tuple[str, str]) -> str:
    rows = (
        f'<div><code>kinetoscope.{safe(call)}</code> <span style="{SOFT}">{safe(why)}</span></div>'
        for call, why in calls
    )
    return f'<div style="margin-top:0.5em">{"".join(rows)}</div>'
