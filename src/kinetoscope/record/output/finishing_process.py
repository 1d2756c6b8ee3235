"""The process that finishes a trace: of low priority while training goes on, of the usual one if someone waits for it.

On a machine whose cores are all busy, low priority may make it a hundred times slower: a process that ends would wait
for its traces in vain. A lowered priority cannot be raised again, so the work is then begun anew.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.output import finishing, run_info

_NICENESS: Final = 10
_POLL_S: Final = 0.25
"""Seconds between checks whether someone waits."""


TRY_S: Final = 30.0
"""Seconds in which a store has to take a file before the job starts."""


class FinishingProcess:
    """Runs `finishing` for one writer."""

    def __init__(self) -> None:
        self._waiting = 0

    @contextlib.contextmanager
    def hurried(self) -> Iterator[None]:
        """A context in which someone waits for the traces."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def finish(self, task: dict[str, Any]) -> dict[str, Any]:
        """As `finishing.finish`; in this process where there can be no other."""
        if not task["target"].startswith("memory://") and sys.executable:
            with contextlib.suppress(OSError, ValueError):
                code, out, errors = self._run(task)
                answer = json.loads(out) if code == 0 else None
                if isinstance(answer, dict):
                    return answer
                if code > 0:
                    last = errors.decode(errors="replace").strip().splitlines()
                    message = last[-1][:300] if last else "the process that writes it failed"
                    return {"status": "failed", "message": message}
        return finishing.finish(task)

    def _run(self, task: dict[str, Any]) -> tuple[int, bytes, bytes]:
        done = self._patiently(task)
        if done is not None:
            return done
        # The work is begun anew: until the process has answered, the exported file is there.
        with _started(task) as process:
            out, errors = process.communicate(_text(task, 0))
            return process.returncode, out, errors

    def _patiently(self, task: dict[str, Any]) -> tuple[int, bytes, bytes] | None:
        """With low priority, as long as nobody waits; None if it did not come to its end."""
        if self._is_waited_for():
            return None
        with _started(task) as process:
            given: bytes | None = _text(task, _NICENESS)
            while not self._is_waited_for():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    out, errors = process.communicate(given, _POLL_S)
                    return process.returncode, out, errors
                given = None
            process.kill()
        return None

    def _is_waited_for(self) -> bool:
        return self._waiting > 0


def refused(folder: str) -> str:
    """Why the store at a URL takes no files, or "": one is written as the traces will be, and removed."""
    task = {"try_out": folder, "path": [each for each in sys.path if each]}
    with _started(task) as process:
        try:
            out, errors = process.communicate(_text(task, 0), TRY_S)
            answer = json.loads(out)
            return str(answer["message"])
        except subprocess.TimeoutExpired:
            process.kill()
            return f"no answer within {TRY_S:.0f} s"
        except (ValueError, KeyError, TypeError):
            return (errors.decode(errors="replace").strip().splitlines() or ["it cannot be tried"])[-1][:300]


def _text(task: dict[str, Any], nice: int) -> bytes:
    return json.dumps({**task, "nice": nice}, allow_nan=False).encode()


def _started(task: dict[str, Any]) -> subprocess.Popen[bytes]:
    bare = [] if task["path"] else ["-S"]
    return subprocess.Popen(
        [sys.executable, "-I", *bare, "-X", "utf8", str(Path(finishing.__file__).resolve())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=run_info.environment(),
        start_new_session=True,  # an interrupt typed at the terminal is not for it
    )
