"""Files that hosts left of a job that ended or hangs, without a trace or a dump: exits, notes, stacks of our recorder.

They become a trace without events, which has them as its companions: they are read when something asks for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.reader import Reader

NAME: Final = "hang"

STACKS: Final = re.compile(rb"(?m)^(?:Current t|T)hread 0x[0-9a-f]+.{0,80}\(most recent call first\):")
"""How `faulthandler` begins what it writes of a thread."""

_NAMED: Final = re.compile(r"(?:stacks|note|exit)_rank_\d{1,9}\.txt(?:\.gz|\.zst)?")


def is_named(name: str) -> bool:
    """True if our recorder gave a file this name."""
    return _NAMED.fullmatch(name) is not None


def _recognises(name: str, head: bytes) -> bool:
    return is_named(name.replace("\\", "/").rpartition("/")[2]) or STACKS.search(head) is not None


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:  # noqa: ARG001 - see `Reader.load`
    """The trace of a rank whose host left files."""
    from kinetoscope.model.trace.build import TraceBuilder

    urls = source.files(NAME) or (source.url,)
    return TraceBuilder().build(replace(source, companions={**source.companions, NAME: urls}))


READER: Final = Reader(NAME, load, _recognises, named=is_named)
