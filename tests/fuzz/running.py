"""One document, put to every question."""

from __future__ import annotations

import faulthandler
import tempfile
from pathlib import Path
from typing import Final

from tests.fuzz.documents import document
from tests.fuzz.verbs import QUESTIONS, Wrong, asked

PATIENCE: Final = 300
"""Seconds after which a document hangs, and its process ends with a traceback."""

Outcome = tuple[int, tuple[str, ...], list[Wrong]]


def one(seed: int) -> Outcome:
    """Draw the document of a seed, and ask everything about it."""
    drawn = document(seed)
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    try:
        with tempfile.TemporaryDirectory(prefix="kinetoscope-fuzz-") as folder:
            wrong = []
            for name in QUESTIONS:
                file = Path(folder) / name / drawn.name
                file.parent.mkdir()
                file.write_bytes(drawn.content)
                wrong += asked(file, [name])
            return seed, drawn.done, wrong
    finally:
        faulthandler.cancel_dump_traceback_later()
