"""The built front end: a handful of files with fixed names, sent with a tag so that an unchanged one travels once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kinetoscope.server.replies import refused

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}

_UNBUILT: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Kinetoscope</title>"
    "<p>The page is not built here; the server answers below <a href=api/runs>api/</a>.\n"
)


class Static:
    """The files of a folder, by their name; no folders in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file."""
        await self._answer(Request(scope)).__call__(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return refused(405, "that is not done this way")
        name = request.scope["path"].removeprefix(request.scope.get("root_path", "")).lstrip("/") or "index.html"
        kind = _TYPES.get(Path(name).suffix)
        # One of the names that are there, compared as text: no path that was sent is ever followed.
        there = {path.name: path for path in self._folder.iterdir()} if self._folder.is_dir() else {}
        if name == "index.html" and name not in there:
            return Response(_UNBUILT, media_type=_TYPES[".html"])
        if kind is None or name not in there:
            return refused(404, "there is no such thing here")
        data = there[name].read_bytes()
        tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)
