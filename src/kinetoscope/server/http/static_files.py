"""The built front end: a handful of files with fixed names, sent with a tag so that an unchanged one travels once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kinetoscope.server.errors import refused
from kinetoscope.server.http import perfetto

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
        self._read: dict[str, tuple[int, bytes, str]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a file."""
        answer = await anyio.to_thread.run_sync(self._answer, Request(scope))
        await answer(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return refused(405, "that is not done this way")
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if path.startswith(perfetto.PREFIX):
            return perfetto.answer(request, path)
        name = path.lstrip("/") or "index.html"
        # One of the names that are there, compared as text: no path that was sent is ever followed.
        files = {path.name: path for path in self._folder.iterdir()} if self._folder.is_dir() else {}
        if name == "index.html" and name not in files:
            return Response(_UNBUILT, media_type=_TYPES[".html"])
        if name == "favicon.ico" and name not in files:
            return Response(status_code=204)  # browsers ask for it by themselves, and complain
        kind = _TYPES.get(Path(name).suffix)
        if kind is None or name not in files:
            return refused(404, "there is no such thing here")
        data, tag = self._content(files[name])
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, media_type=kind, headers=headers)

    def _content(self, path: Path) -> tuple[bytes, str]:
        """A file and its tag, read again when it has changed."""
        changed = path.stat().st_mtime_ns
        kept = self._read.get(path.name)
        if kept is None or kept[0] != changed:
            data = path.read_bytes()
            kept = changed, data, f'"{hashlib.sha256(data).hexdigest()[:20]}"'
            self._read[path.name] = kept
        return kept[1:]
