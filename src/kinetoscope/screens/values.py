"""Values as text: the page that each is shown by, on a terminal."""

from __future__ import annotations

from kinetoscope.advisor.advice import Advice
from kinetoscope.pages.findings import of_advice
from kinetoscope.screens import terminal


def advice_text(advice: Advice) -> str:
    """All findings."""
    return terminal.text(of_advice(advice, limit=0))
