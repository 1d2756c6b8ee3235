"""Which browser opens the page: for tests, benchmarks and pictures."""

from __future__ import annotations

import os
import shutil


def chromium() -> str | None:
    """Debian's Chromium, or the program that $CHROMIUM names; None where there is none."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


ABSENT = "needs a Chromium (apt-get install chromium), or $CHROMIUM"
