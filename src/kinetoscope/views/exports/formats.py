"""The formats of files that a result is written to, by name and by ending."""

from __future__ import annotations

import os
from typing import Final

from kinetoscope.errors import UsageError

FORMATS = ("json", "csv", "parquet", "markdown", "xlsx")

ENDINGS: Final = {"md": "markdown"}
"""Endings of files that are not the name of their format."""

BUDGETED = ("json", "markdown")
"""Formats that can be bounded in tokens: the note that says what is left out is a part of them."""


def form_of(path: str | os.PathLike[str]) -> str:
    """The format of a file by its ending.

    Raises:
        UsageError: it has none of ours.
    """
    ending = os.fspath(path).rpartition("/")[2].rpartition(".")[2].lower()
    form = ENDINGS.get(ending, ending)
    if form not in FORMATS:
        endings = ", ".join(
            f".{each}" for each in (*(form for form in FORMATS if form not in ENDINGS.values()), *ENDINGS)
        )
        raise UsageError(f"{os.fspath(path)} has no ending that says its format; it can be {endings}")
    return form
