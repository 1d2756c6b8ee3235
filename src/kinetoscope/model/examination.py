"""A look at the events of a trace for what is odd: the part of its health that reading alone cannot tell."""

from __future__ import annotations

from kinetoscope.model.health import Health
from kinetoscope.model.trace import Trace


def examine(trace: Trace) -> Health:
    return Health.of(trace.reading)
