"""Every exception that Kinetoscope raises on purpose.

    KinetoscopeError              something went wrong that we can name
    ├── InputError                the user's input is wrong: one line says what, and what to do (exit code 1)
    │   ├── NotFoundError         no such file, or a folder without traces
    │   ├── NotATraceError        the file is something else; the message says what it looks like
    │   ├── BrokenTraceError      a trace of which nothing could be kept
    │   └── LimitError            a stated, adjustable limit was exceeded (size, length of one event)
    ├── UsageError                a parameter or option is wrong (exit code 2)
    └── MissingExtraError         an optional dependency is not installed; the message says what to install

A message is one line, names the value that was wrong and ends with what to do about it. It may hold text from a trace:
whoever prints it on a terminal passes it through `views.text.printable` first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_BREAK: Final = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What ends a line, as `str.splitlines` has it."""


def one_line(message: str) -> str:
    r"""A message with the line breaks spelled out, as `\n`, that names and keys of a trace bring into it."""
    return _BREAK.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), message)


class KinetoscopeError(Exception):
    """Base of everything below.

    Attributes:
        exit_code: of the command line.
        is_passing: it says nothing of the next try, so no cache keeps it.
    """

    exit_code = 1
    is_passing = False

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(KinetoscopeError):
    """The user's input is wrong."""


class NotFoundError(InputError):
    """There is no such file, or nothing in the folder that looks like a trace."""


class NotATraceError(InputError):
    """The file was read and is not a Kineto trace."""


class BrokenTraceError(InputError):
    """The file is a trace, but no event of it could be kept."""


class LimitError(InputError):
    """A stated limit was exceeded; the message says which option raises it."""


class UsageError(KinetoscopeError):
    """A parameter or option has a value that it cannot have."""

    exit_code = 2


class StoppedError(BaseException):
    """Nobody waits for the answer any more. No error of the user's or ours: whoever handles those lets it pass."""


def nearest(word: str, words: Iterable[str]) -> str:
    """` (did you mean 'operators'?)`, for the end of a sentence that says a name is unknown; "" if none is near."""
    from difflib import get_close_matches

    matches = get_close_matches(word.lower(), list(words), n=1, cutoff=0.6)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def installing(extra: str) -> str:
    """What to type for an extra: the packages that it stands for, wherever Kinetoscope itself was installed from."""
    from importlib.metadata import requires

    wanted = [need for need in requires("kinetoscope") or () if re.search(rf"\bextra == ['\"]{extra}['\"]", need)]
    return " ".join(["pip install", *(f"'{need.partition(';')[0].strip()}'" for need in wanted)])


class MissingExtraError(KinetoscopeError):
    """An optional dependency is missing."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra: {installing(extra)}")
