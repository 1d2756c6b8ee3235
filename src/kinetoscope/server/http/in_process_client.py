"""The server asked from inside the same process: what a report, or a notebook, shows is what a browser would get."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Message

Pairs = Iterable[tuple[str, str]]

_UNESCAPED = "!'()*-._~"
"""What `encodeURIComponent` leaves as it is, beside letters and digits."""


@dataclass(frozen=True, slots=True)
class InProcessAnswer:
    """A response: status, media type, body."""

    status: int
    kind: str
    body: bytes

    def plain(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)


def address(*parts: str, pairs: Pairs = ()) -> str:
    """A path below `api/` with its query, written as the page writes it: pairs sorted, empty ones left out."""
    path = "/".join(quote(part, safe=_UNESCAPED) for part in parts)
    kept = sorted((key, value) for key, value in pairs if value)
    query = "&".join(f"{quote(key, safe=_UNESCAPED)}={quote(value, safe=_UNESCAPED)}" for key, value in kept)
    return f"{path}?{query}" if query else path


class InProcessClient:
    """An application that is asked without a socket."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._portal: BlockingPortal | None = None

    @contextmanager
    def asked_often(self) -> Iterator[None]:
        """One thread for all questions of the block, by one caller: to start one takes longer than most answers."""
        with start_blocking_portal() as self._portal:
            try:
                yield
            finally:
                self._portal = None

    def get(self, address: str) -> InProcessAnswer:
        """The answer to a GET of what is below `api/`."""
        return self._answer("GET", address, b"")

    def post(self, address: str, body: bytes) -> InProcessAnswer:
        """The answer to a POST of JSON."""
        return self._answer("POST", address, body)

    def _answer(self, method: str, address: str, body: bytes) -> InProcessAnswer:
        if self._portal is not None:
            return self._portal.call(self._asgi_answer, method, address, body)
        # In a thread of its own: a notebook's cell runs inside an event loop already.
        with start_blocking_portal() as portal:
            return portal.call(self._asgi_answer, method, address, body)

    async def _asgi_answer(self, method: str, address: str, body: bytes) -> InProcessAnswer:
        path, _, query = address.partition("?")
        received = {"type": "http.request", "body": body, "more_body": False}
        sent: list[Message] = []

        async def receive() -> Message:
            return received

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(_scope(method, f"/api/{path}", query), receive, send)
        headers = dict(sent[0]["headers"])
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return InProcessAnswer(sent[0]["status"], headers.get(b"content-type", b"").decode("latin-1"), content)


def _scope(method: str, path: str, query: str) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
        "client": None,
        "server": ("localhost", 0),
    }
