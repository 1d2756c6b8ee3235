"""Functions that a value offers and that stand in rooms above it: what draws it, writes it, examines it.

A value does not import what shows it, as that imports the value: it asks here for a function by its own kind and a
name. Each is loaded when it is first called.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

FUNCTIONS: Final[dict[str, dict[str, str]]] = {
    "Advice": {"text": "screens.values.advice_text", "html": "screens.values.advice_html"},
    "AdvicePlan": {"text": "screens.values.plan_text", "html": "screens.values.plan_html"},
    "Diff": {"text": "screens.values.diff_text", "html": "screens.values.diff_html"},
    "Gate": {
        "text": "screens.values.gate_text",
        "html": "screens.values.gate_html",
        "sentence": "pages.sentences.gate.sentence",
    },
    "Job": {"html": "screens.values.job_html", "sql": "model.tables.sql.sql"},
    "Page": {"text": "screens.terminal.text", "html": "screens.html.html", "markdown": "screens.markdown.text"},
    "Result": {
        "text": "views.terminal.screen.to_text",
        "html": "views.notebook.to_html",
        "chart": "views.charts.chart.chart_in_cell",
        "save": "outputs.opening.save",
    },
    "Trace": {
        "companion": "readers.job.find_companions.read_file",
        "event": "model.trace.json_events.event",
        "health": "model.health.check.examine",
        "series": "readers.history.alone.series",
        "table": "model.tables.tables.table",
        "window_numbers": "outputs.window_summary.numbers_by_window",
    },
    "Tried": {"text": "screens.values.tried_text", "html": "screens.values.tried_html"},
    "object": {"job": "reading.read"},
}
"""Names of functions below `kinetoscope`, by the class of their first argument and the name that it calls them by."""


def text(value: object) -> str:
    """What `print` shows of a value."""
    return str(call("text", value))


def html(value: object) -> str:
    """What a cell of a notebook shows of a value."""
    return str(call("html", value))


def call(name: str, value: object, *arguments: object) -> Any:
    """What the function of this name gives for a value; of a derived class it may be that of its base."""
    kind = next(each.__name__ for each in type(value).__mro__ if name in FUNCTIONS.get(each.__name__, ()))
    module, _, function = FUNCTIONS[kind][name].rpartition(".")
    return getattr(import_module(f"kinetoscope.{module}"), function)(value, *arguments)
