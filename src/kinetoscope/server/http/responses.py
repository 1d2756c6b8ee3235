"""Answers that need nothing but words; importing this is cheap, so that the page is sent while the rest is imported."""

from __future__ import annotations

import json
from typing import Final

from starlette.responses import Response

JSON: Final = "application/json"


def refused(status: int, message: str, hint: str = "") -> Response:
    """What is wrong, in one line."""
    text = json.dumps({"error": " ".join(message.split()), "hint": hint}, ensure_ascii=False)
    return Response(text.encode("utf-8", "replace"), status, media_type=JSON)
