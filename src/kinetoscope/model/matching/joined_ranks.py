"""Collectives of all ranks on one clock: what every comparison of ranks begins with."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from kinetoscope.model.matching.clocks import Clocks, aligned, clocks
from kinetoscope.model.matching.match import match


@dataclass(frozen=True)
class Joined:
    """Collectives of all ranks.

    Attributes:
        frame: one row for each as a rank took part in it, with `match`; start and end are on one clock.
        clocks: how the clocks were set against each other.
        notes: what was not matched, or not aligned.
    """

    frame: pl.DataFrame
    clocks: Clocks
    notes: tuple[str, ...]


def joined(frame: pl.DataFrame) -> Joined:
    """Match what all ranks recorded, and set their clocks by it."""
    matched = match(frame)
    found = clocks(matched.frame)
    return Joined(aligned(matched.frame, found), found, (*matched.notes, *found.notes))
