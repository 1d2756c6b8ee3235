"""Programs of ours that need torch: each runs in a process of its own, and breaks nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from kinetoscope.errors import InputError


def output_of(module: str, *arguments: str, what: str, patience: float) -> Any:
    """The JSON that a module of `kinetoscope.record` prints when it is run.

    Args:
        module: its name there.
        arguments: of its command line.
        what: what runs, for messages.
        patience: seconds after which it is given up.

    Raises:
        InputError: it did not finish, torch is not installed, or it failed.
    """
    environment = {**os.environ, "KINETO_LOG_LEVEL": os.environ.get("KINETO_LOG_LEVEL", "99")}
    command = [sys.executable, "-W", "ignore", "-m", f"kinetoscope.record.{module}", *arguments]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=patience, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{what} did not finish within {patience:.0f} s") from None
    last = (done.stderr.strip().splitlines() or [""])[-1]
    if "No module named 'torch'" in last:
        raise InputError(f"torch is not installed for this Python, and {what} needs it (pip install torch)")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise InputError(f"{what} ended with exit code {done.returncode}: {last or 'it said nothing'}") from None
