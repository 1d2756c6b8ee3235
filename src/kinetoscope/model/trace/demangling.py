"""Events are named by what their mangled names stand for; how the file names them is known for writing it again."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, marked
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.strings import Strings, spelled
from kinetoscope.model.trace.trace import Trace

_MAX_CHARACTERS: Final = 1 << 20
"""Of mangled names that are looked into, all names of a trace together."""


def with_demangled(names: Int32s, strings: Strings) -> Strings:
    """Name events by what their mangled names stand for, in place; the table that holds these texts, too.

    Two mangled names of one text stay as they are: they are two kernels. So does a name whose text the file has
    already, and what lies beyond a million characters of them.

    Args:
        names: int32 [events], codes of their names, −1 for none.
        strings: the table.
    """
    texts = _texts(strings)
    if not texts:
        return strings
    used = marked(len(strings) + 1, names)
    texts = {code: text for code, text in texts.items() if used[code] and strings.code(text) < 0}
    if not texts:
        return strings
    table, codes = strings.extended([spelled(text) for text in texts.values()], np.zeros(len(texts), np.uint8))
    place = np.arange(len(strings) + 1, dtype=np.int32)
    place[-1] = -1
    place[list(texts)] = codes
    names[:] = place[names]
    return table


@derived
def written_names(trace: Trace) -> dict[int, int]:
    """The code of the mangled name as the file has it, by the code of its text."""
    strings = trace.strings
    return {strings.code(text): code for code, text in _texts(strings).items() if strings.code(text) > code}


def _texts(strings: Strings) -> dict[int, str]:
    """The demangled names among the strings, by their codes."""
    candidates = np.flatnonzero(strings.holding(("_Z",))).tolist()
    if not candidates:
        return {}
    from kinetoscope.model.trace.mangled import demangled

    room, texts = _MAX_CHARACTERS, dict[int, str]()
    for code in candidates:
        name = strings.glance(code) if strings.raw(code).startswith(b"_Z") else ""
        room -= len(name)
        if room >= 0 and (text := demangled(name)) != name:
            texts[code] = text
    many = Counter(texts.values())
    return {code: text for code, text in texts.items() if many[text] == 1}
