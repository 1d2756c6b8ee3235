"""`kinetoscope doctor --recorder`: what this machine can and cannot record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kinetoscope.errors import InputError

if TYPE_CHECKING:
    from kinetoscope.views.terminal.lines import Line

_PATIENCE = 300.0
_VERDICT_MARKS = {"yes": ("✓", "computation"), "no": ("✗", "warn"), "absent": ("–", "dim")}


def run() -> int:
    """Test in a process of its own; the exit code is 1 where something cannot be recorded."""
    from kinetoscope.cli.shared.output import write_lines

    capabilities = _capabilities()
    write_lines(_report(capabilities))
    return int(any(each["can"] == "no" for each in capabilities))


def _capabilities() -> list[dict[str, str]]:
    environment = {**os.environ, "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99")}
    command = [sys.executable, "-W", "ignore", "-m", "kinetoscope.record.selftest"]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"the recorder did not finish three steps within {_PATIENCE:.0f} s") from None
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if "No module named 'torch'" in last:
        raise InputError("torch is not installed for this Python: it is what records (pip install torch)")
    try:
        capabilities: list[dict[str, str]] = json.loads(done.stdout)
    except ValueError:
        raise InputError(f"the recorder ended with exit code {done.returncode}: {last or 'it said nothing'}") from None
    return capabilities


def _report(capabilities: Sequence[dict[str, str]]) -> Iterator[Line]:
    from kinetoscope.views.terminal.lines import plain
    from kinetoscope.views.text import printable

    wide = max(len(each["what"]) for each in capabilities)
    missing = [each["what"] for each in capabilities if each["can"] == "no"]
    yield plain(
        f"This machine cannot record: {', '.join(missing)}." if missing else "All that is here can be recorded.", "bold"
    )
    yield plain()
    for each in capabilities:
        mark, style = _VERDICT_MARKS[each["can"]]
        yield ((f"  {mark} ", style), (each["what"].ljust(wide + 2), "bold"), (printable(each["message"]), ""))
