"""Parameters of pages: what their readers may choose, and what they chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinetoscope.errors import UsageError
from kinetoscope.pages.parts.blocks import Control


def chosen(params: Mapping[str, str], name: str, choices: Sequence[str], default: str) -> str:
    """The value of a parameter.

    Raises:
        UsageError: it is none of its choices.
    """
    value = params.get(name, default)
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; it can be {', '.join(choices)}")
    return value


def choice(name: str, label: str, value: str, choices: Sequence[tuple[str, str]], doc: str = "") -> Control:
    """A control with a few choices, each a value and its words."""
    return Control(name, label, value, choices, doc=doc)
