"""Frames of Python call stacks: their text, and which are lines of the user's own program."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from kinetoscope.model.execution.marks import MODULE

SEPARATOR: Final = ";"
"""Between the frames of a stack, the outermost first, as folded stacks have it."""

MAX_DEPTH: Final = 1000
"""Levels of calls that become frames: Python's own limit; a crafted file with more would fill the memory."""

_ADDRESS: Final = re.compile(r" at 0x[0-9a-fA-F]+")
_INSTANCE: Final = re.compile(r"_\d+$")
_NO_FRAME: Final = re.compile(r"[;\r\n]+")
_FRAME: Final = re.compile(r"(.+)\((\d{1,9})\): (.*)")
_LIBRARY: Final = re.compile(
    r"(?:^|/)(?:torch|site-packages|dist-packages|lib/python\d[^/]*|contextlib\.py|functools\.py|threading\.py)(?:/|$)"
    r"|(?:^|/)kinetoscope/record/|(?:^|/)c[a-z2-7]{50,52}\.py$|^<|^(?:importlib|multiprocessing|concurrent|asyncio)/|^runpy\.py$"
)
"""Files that are not the user's: torch, what is installed, the recorder itself (profilers strip the folder of what is
installed), what Inductor generated, and what Python itself calls functions through."""


def recorded_stack(text: str) -> str:
    """The frames of an operator's `Call stack`, which has the innermost first, from the outermost on."""
    frames = [frame.strip() for frame in _ADDRESS.sub("", text).split(SEPARATOR)]
    return SEPARATOR.join(frame for frame in reversed(frames) if frame)


def frame_text(name: str) -> str:
    """The name of a frame without semicolons, line breaks and addresses of objects."""
    return _NO_FRAME.sub(" ", _ADDRESS.sub("", name))


class CodeLocation(NamedTuple):
    """A line of the source; None where it is not known."""

    file: str | None
    line: int | None
    function: str | None


def user_source(stack: str) -> CodeLocation:
    """The line of the innermost frame that is the user's own: neither torch's, nor installed, nor Python's own."""
    end = len(stack)
    while end >= 0:
        begin = stack.rfind(SEPARATOR, 0, end) + 1
        if source := _users(stack[begin:end]):
            return source
        end = begin - 1
    return CodeLocation(None, None, None)


def user_sources(stack: str) -> tuple[CodeLocation, ...]:
    """The lines of all frames that are the user's own, each once, outermost first."""
    return tuple(dict.fromkeys(source for frame in stack.split(SEPARATOR) if (source := _users(frame))))


def module_class(stack: str) -> str | None:
    """The class of the module whose call leads straight to the innermost frame that is the user's own."""
    frames = stack.split(SEPARATOR)
    while frames and not _users(frames[-1]):
        frames.pop()
    for frame in reversed(frames[:-1]):
        if frame.startswith(MODULE):
            return _INSTANCE.sub("", frame.removeprefix(MODULE))
        if _users(frame):
            break
    return None


def is_users_file(file: str) -> bool:
    """True if a file, parted by slashes, is the user's own."""
    return _LIBRARY.search(file) is None


@lru_cache(1 << 16)
def _users(frame: str) -> CodeLocation | None:
    """The line of a frame, if it is the user's. Stacks share most of their frames."""
    match = _FRAME.fullmatch(frame)
    if match and is_users_file(match[1].replace("\\", "/")):
        return CodeLocation(match[1], int(match[2]), match[3])
    return None
