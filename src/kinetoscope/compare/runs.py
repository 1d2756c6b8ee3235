"""What of a run is compared."""

from __future__ import annotations

from dataclasses import replace

from kinetoscope.model.scope import STEADY
from kinetoscope.model.selection import Selection


def settled(select: Selection) -> Selection:
    """The selection, of all steps but those of the warm-up if it names neither steps nor a range of time.

    The advisor looks at the same steps, so that what it promises can be held against what came.
    """
    return replace(select, steps=STEADY) if select.steps is None and select.time is None else select
