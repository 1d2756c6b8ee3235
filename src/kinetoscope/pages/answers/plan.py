"""The plan of a job: numbered steps, what each saves after those before it, and the step that remains."""

from __future__ import annotations

from typing import Final

from kinetoscope.advisor.plan import RESULT, AdvicePlan, PlanStep
from kinetoscope.pages.blocks import Block, NoteBlock, Page, RowsBlock
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.pages.sections.tables import table
from kinetoscope.schema import Schema
from kinetoscope.views.numbers import scale

METHOD: Final = (
    "All findings are replayed together: each saves what the step is shorter by after those before it. The limit is"
    " what most of the replayed step is made of, if each brings the most."
)

_HEADS: Final = ("", "saves then", "saves alone", "step then")


def of_plan(plan: AdvicePlan, *, limit: int | None = None) -> Page:
    """The plan as `advise --plan` says it; at most `limit` steps (None, 0: all)."""
    shown = plan.steps[: limit or None]
    rest = len(plan.steps) - len(shown)
    blocks: tuple[Block, ...] = (NoteBlock("No finding promises time, so there is no order to plan."),)
    if shown:
        grid = GridBlock(
            "",
            _HEADS,
            _rows(plan, len(shown)),
            whole=True,
            rest=f"{rest} more steps" if rest else "",
            note=f"{METHOD} The bar is the middle of what remains.",
        )
        blocks = (grid,)
    return Page("plan", "", plan.headline, (f"{plan.advice.measure}.",), blocks, plan.notes)


def plan_table(plan: AdvicePlan) -> RowsBlock:
    """The steps of a plan as a small table."""
    shown = Schema(*(RESULT[name] for name in _COLUMNS))
    return table("In which order", shown, plan.result.frame.select(_COLUMNS), note=METHOD)


_COLUMNS: Final = (
    "number",
    "code",
    "title",
    "saves_low",
    "saves_high",
    "remains_low",
    "remains_high",
    "limit",
    "limit_time",
)


def _rows(plan: AdvicePlan, count: int) -> list[GridRow]:
    return [
        GridRow(
            (
                f"{number}. {step.code}",
                span(step.after.low, step.after.high),
                span(step.alone.low, step.alone.high),
                span(step.remaining.low, step.remaining.high),
            ),
            step.limit and _KINDS.get(step.limit, step.limit),
            0.0,
            step.remaining.middle,
            about=_about(plan, number, step),
        )
        for number, step in enumerate(plan.steps[:count], 1)
    ]


def _about(plan: AdvicePlan, number: int, step: PlanStep) -> list[str]:
    """The trouble, and the limit then."""
    guess = " (a guess)" if step.finding.certainty == "guess" else ""
    limit = plan.limit_after(number)
    return [f"{step.title}{guess}", *([limit] if limit else [])]


_KINDS: Final = {"data_loading": "data", "launch": "host", "gaps": "idle", "copies": "memcpy"}
"""Colours of the causes that are not called as their kind of time."""


def span(low: float, high: float) -> str:
    """`28.4 – 53.6 ms`; `53.6 ms` where both ends look alike."""
    unit = scale([high], "ns")
    last = unit.with_unit(high)
    return last if unit.with_unit(low) == last else f"{unit.text(low)} – {last}"
