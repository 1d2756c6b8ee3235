"""The outermost part: who may ask, the front end's files at once, and the API as soon as it has been imported."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio.to_thread
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from kinetoscope.server.http.access import Access, Rules
from kinetoscope.server.http.static_files import Static

API: Final = "/api/"

BUILT: Final = Path(__file__).parents[1] / "static"
"""Where the built front end lies."""

_MIN_PACKED_BYTES: Final = 1000
"""Bytes of an answer from which it is packed."""

_GZIP_LEVEL: Final = 5
"""Of gzip: beyond this it takes longer and saves little."""


def front(make_api: Callable[[], ASGIApp], rules: Rules | None) -> ASGIApp:
    """The whole server as ASGI. `make_api` is called once, in a thread, when something of it is first asked for.

    Without `rules` whoever reaches it may ask: another server stands before it.
    """
    app: ASGIApp = GZipMiddleware(_Front(make_api), minimum_size=_MIN_PACKED_BYTES, compresslevel=_GZIP_LEVEL)
    return app if rules is None else Access(app, rules)


class _Front:
    def __init__(self, make_api: Callable[[], ASGIApp]) -> None:
        self._make = make_api
        self._api: ASGIApp | None = None
        self._lock = threading.Lock()
        self._static = Static(BUILT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        # The path below the folder at which the server is mounted.
        if not scope["path"].removeprefix(scope.get("root_path", "")).startswith(API):
            await self._static(scope, receive, send)
            return
        api = await anyio.to_thread.run_sync(self._made) if self._api is None else self._api
        await api(scope, receive, send)

    def _made(self) -> ASGIApp:
        with self._lock:
            if self._api is None:
                self._api = self._make()
            return self._api
