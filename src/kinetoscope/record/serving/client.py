"""HTTP to a server that may do anything: every answer has a deadline as a whole, however slowly its bytes come."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kinetoscope.errors import UsageError

TOKEN: Final = "KINETOSCOPE_SERVER_TOKEN"
"""Variable of the environment with the key that the server asks of its clients, if it does."""

ANSWER_SECONDS: Final = 10.0
"""Seconds in which a server answers what costs it nothing."""

_CHECK_SECONDS: Final = 0.05
_MAX_ANSWER_BYTES: Final = 1 << 24
_MAX_REASON_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The outcome of a request.

    Attributes:
        status: of HTTP; 0 where no whole answer came.
        text: of the answer, or why there is none.
    """

    status: int
    text: str

    @property
    def ok(self) -> bool:
        """True if the server does what it was asked for; SGLang says in an object whether it does."""
        return 200 <= self.status < 300 and '"success":false' not in self.text.replace(" ", "").lower()

    @property
    def facts(self) -> dict[str, Any]:
        """The object that it is; empty if it is none."""
        try:
            facts = json.loads(self.text) if self.status == 200 else {}
        except (ValueError, RecursionError):
            return {}
        return facts if isinstance(facts, dict) else {}

    @property
    def reason(self) -> str:
        """Status and text in a few words."""
        text = " ".join(self.text.split())[:_MAX_REASON_LENGTH] or "without a reason"
        return f"{self.status}: {text}" if self.status else text


class PendingAnswer:
    """A request that was sent; a thread of its own waits for the answer.

    Attributes:
        answer: what came of it; None until then.
    """

    def __init__(self, request: Callable[[], urllib.request.Request], seconds: float) -> None:
        self.answer: ServerAnswer | None = None
        self._request, self._seconds = request, seconds
        self._until = time.monotonic() + seconds
        self._thread = threading.Thread(target=self._run, name="kinetoscope-server", daemon=True)
        self._thread.start()

    def wait(self, over: Callable[[], bool] = lambda: False) -> ServerAnswer:
        """The answer, when it is there, or one that says that it is not in time; `over` may end the waiting before."""
        seconds = self._seconds
        while self.answer is None and (now := time.monotonic()) < self._until:
            if over():
                seconds = round(now - self._until + self._seconds, 1)
                break
            self._thread.join(_CHECK_SECONDS)
        return self.answer or ServerAnswer(0, f"no whole answer within {seconds:g} s")

    def _run(self) -> None:
        try:
            with urllib.request.build_opener(_NoRedirect).open(self._request(), timeout=self._seconds) as answer:
                self.answer = ServerAnswer(answer.status, self._text(answer))
        except urllib.error.HTTPError as error:
            with error:
                to = f"it redirects to {error.headers['Location']}" if 300 <= error.code < 400 else ""
                self.answer = ServerAnswer(error.code, to or self._text(error))
        except TimeoutError:
            return
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.answer = ServerAnswer(0, str(getattr(error, "reason", None) or error) or type(error).__name__)

    def _text(self, answer: Any) -> str:
        """The bytes that can be read until the deadline."""
        parts, size = list[bytes](), 0
        while size < _MAX_ANSWER_BYTES and time.monotonic() < self._until and (part := answer.read1(1 << 16)):
            parts.append(part)
            size += len(part)
        return b"".join(parts).decode("utf-8", "replace")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A request that switches a profiler on goes to no other address than the user's, nor does a key."""

    def redirect_request(self, *_: Any) -> None:
        return None


class ServerClient:
    """Sends requests to a server.

    Args:
        url: of the server.
        check: called while an answer is awaited; what it raises ends the waiting.
    """

    def __init__(self, url: str, check: Callable[[], None]) -> None:
        self.url, self.check = url.rstrip("/"), check
        self._headers = {"Authorization": f"Bearer {token}"} if (token := _token()) else {}

    def send(
        self, path: str, body: Mapping[str, Any] | None = None, *, post: bool = False, seconds: float = 0.0
    ) -> PendingAnswer:
        """Send a request; the answer comes within so many seconds (10), or is none."""
        data = json.dumps(body).encode() if body is not None else b"" if post else None
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        return PendingAnswer(lambda: urllib.request.Request(self.url + path, data, headers), seconds or ANSWER_SECONDS)

    def get(self, path: str) -> ServerAnswer:
        """The answer of a path."""
        return self.wait(self.send(path))

    def wait(self, pending: PendingAnswer) -> ServerAnswer:
        """The answer to a request."""

        def over() -> bool:
            self.check()
            return False

        return pending.wait(over)


def _token() -> str:
    token = os.environ.get(TOKEN, "").strip()
    if not token.isprintable() or not token.isascii():
        raise UsageError(f"{TOKEN} holds characters that no key has")
    return token
