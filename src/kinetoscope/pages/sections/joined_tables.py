"""Tables of a page about several ranks, or cycles: a row for all of them, as the reader chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.pages.blocks import Block, Control, ControlsBlock, Page, TableBlock, chosen_value

PARAMETER: Final = "across_ranks"

_CHOICES: Final = {"sum": "sum", "mean": "mean", "min": "least", "max": "greatest", "each": "a row for each"}


def with_joined_tables(page: Page, job: Job, params: Mapping[str, str]) -> Page:
    """The page with a choice of what its tables show of several traces, and with tables that show that: sums at first.

    Tables whose rows cannot be joined, such as those of single events, stay as they are.
    """
    joinable = [block for block in page.blocks if isinstance(block, TableBlock) and _is_joinable(block)]
    if len(job) == 1 or not joinable:
        return page
    how = chosen_value(params, PARAMETER, tuple(_CHOICES), "sum")
    what = "ranks" if len(job.ranks) > 1 else "cycles"
    control = Control(PARAMETER, f"All {what} in tables", how, tuple(_CHOICES.items()))
    return replace(page, blocks=_with_control([_joined(block, how) for block in page.blocks], control))


def _is_joinable(block: TableBlock) -> bool:
    return not named(block.analysis).not_over_ranks


def _joined(block: Block, how: str) -> Block:
    if how == "each" or not isinstance(block, TableBlock) or not _is_joinable(block):
        return block
    columns = ("ranks", *(name for name in block.columns if name != "rank")) if block.columns else ()
    return replace(block, params={**block.params, PARAMETER: how}, columns=columns)


def _with_control(blocks: list[Block], control: Control) -> tuple[Block, ...]:
    """Beside the first controls of the page; before everything where it has none."""
    for place, block in enumerate(blocks):
        if isinstance(block, ControlsBlock) and not block.title:
            blocks[place] = replace(block, controls=(*block.controls, control))
            return tuple(blocks)
    return (ControlsBlock((control,)), *blocks)
