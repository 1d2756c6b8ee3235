"""Kinetoscope tells why a PyTorch job is slow, and what to change.

    >>> import kinetoscope
    >>> job = kinetoscope.read("runs/baseline")        # a file, a folder, a glob, a URL
    >>> kinetoscope.step_breakdown(job)                # where the time of each step goes
    >>> kinetoscope.advise(job)                        # what to change, and what it would bring

Importing this is cheap: names are loaded when they are first used.
"""

import importlib
from importlib.util import find_spec

from kinetoscope.analyses import NAMES, named, names

__version__ = "0.1.0.dev0"

HOMES = {
    "ALL": "model.steps.selection",
    "ANALYSES": "analyses",
    "Job": "model.job",
    "KinetoscopeError": "errors",
    "Result": "schema",
    "Selection": "model.steps.selection",
    "Trace": "model.trace.trace",
    "advise": "advisor.advice",
    "convert": "outputs.convert",
    "critical_path_graph": "model.critical_path.frames",
    "delivery": "compare.delivery",
    "diff": "compare.diff.diff",
    "extend": "extensions",
    "gate": "compare.gate.gate",
    "ledger": "compare.ledger.ledger",
    "memory_diff": "compare.diff.memory",
    "page": "outputs.page",
    "plan": "advisor.plan",
    "profile": "record.profile",
    "range": "record.ranges",
    "read": "reading",
    "report": "outputs.report",
    "sql": "model.tables.sql",
    "summary": "outputs.summary",
    "trace_handler": "record.trace_handler",
    "try_changes": "trying.session",
    "view": "integrations.notebook",
}
"""Modules of the public names that are no analyses; an analysis is the function of its module."""

__all__ = sorted([*HOMES, *NAMES])  # noqa: PLE0605 - `__init__.pyi`, which docs/generate.py writes, has the types


def __getattr__(name: str) -> object:
    if name not in __all__ and not _is_of_extension(name):
        raise _unknown(name)
    if name in HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)
    else:
        from kinetoscope.model.job import public_function

        value = public_function(named(name))
    globals()[name] = value
    return value


def _is_of_extension(name: str) -> bool:
    """Whether it is an analysis of an extension; `from kinetoscope import pages` asks it too, and must load none."""
    return not name.startswith("_") and find_spec(f"{__name__}.{name}") is None and name in names()


def _unknown(name: str) -> AttributeError:
    """The error for a name that is not there; with an `obj` Python adds no suggestion of its own in a traceback."""
    from kinetoscope.errors import nearest

    near = "" if name.startswith("_") else nearest(name, __all__)
    return AttributeError(f"module {__name__!r} has no attribute {name!r}{near}", name=name, obj=None)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
