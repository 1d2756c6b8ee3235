"""Why a request is not answered, as an exception: a status of HTTP, one line, and what to do about it."""

from __future__ import annotations

from kinetoscope.errors import KinetoscopeError, NotFoundError, UsageError


class RefusedError(KinetoscopeError):
    """The server says no.

    Attributes:
        status: of HTTP.
        hint: what to do about it; "" where nothing can be done.
    """

    status = 400

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class AbsurdError(RefusedError):
    """A parameter has a value that it cannot have."""


class ForbiddenError(RefusedError):
    """Whoever asks may not have it."""

    status = 403


class MissingError(RefusedError):
    """There is no such thing."""

    status = 404


def status_of(error: KinetoscopeError) -> int:
    """The status of HTTP for an error: what the asker did wrong, what is not there, what is wrong with a trace."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, UsageError):
        return 400
    return 404 if isinstance(error, NotFoundError) else 409
