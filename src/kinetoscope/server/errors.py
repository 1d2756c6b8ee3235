"""Refusals: an exception with an HTTP status, one line and a hint, and the response that carries it.

Importing this is cheap, so that the page is sent while the rest is imported.
"""

from __future__ import annotations

import json
from typing import Final

from starlette.responses import Response

from kinetoscope.errors import KinetoscopeError, NotFoundError, UsageError

JSON: Final = "application/json"


class RefusedError(KinetoscopeError):
    """The server refuses a request.

    Attributes:
        status: HTTP status.
        hint: what the user can do about it; "" where nothing helps.
    """

    status = 400

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BadValueError(RefusedError):
    """An impossible value of a parameter."""


class ForbiddenError(RefusedError):
    """Something that this client may not have."""

    status = 403


class MissingError(RefusedError):
    """Something that does not exist."""

    status = 404


def status_of(error: KinetoscopeError) -> int:
    """The HTTP status of an error: 400 for a wrong request, 404 for what does not exist, 409 for a broken trace."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, UsageError):
        return 400
    return 404 if isinstance(error, NotFoundError) else 409


def refused(status: int, message: str, hint: str = "") -> Response:
    """The response that says in one line what is wrong."""
    text = json.dumps({"error": " ".join(message.split()), "hint": hint}, ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), status, media_type=JSON)
