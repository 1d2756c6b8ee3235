"""How promises of rules turned out where they were tried: a small file of this user's, of which nothing is sent.

A line is a trial that was run: codes of rules, shares of the step, the outcome, a digest of the machine, the day. It
has no paths, no commands, no names of hosts or programs. `KINETOSCOPE_NO_HISTORY=1` keeps it from being read and
written. What is damaged, or cannot be written, is passed over: nobody waits for it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from kinetoscope.advisor.finding import Finding
from kinetoscope.views.sentences import EMPTY, Sentence, join, measured, say

OPT_OUT: Final = "KINETOSCOPE_NO_HISTORY"

MAX_LINES: Final = 4000
"""Lines that the file has at most; the oldest half goes when there are more."""

_MAX_BYTES: Final = 2_000_000
_CPU_FACTS: Final = Path("/proc/cpuinfo")


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """A trial that was run. Shares are of the step without its change.

    Attributes:
        trial: its name.
        codes: rules whose findings it answered.
        promised_low, promised_high: what they promised.
        brought: by what share the step became shorter; None where the trial failed.
        brought_low, brought_high: the interval of that.
        outcome: of the trial: kept, no gain, failed.
        machine: digest of what it ran on, see `machine_of`.
        date: the day, as 2026-11-28.
    """

    trial: str
    codes: tuple[str, ...]
    promised_low: float
    promised_high: float
    brought: float | None = None
    brought_low: float | None = None
    brought_high: float | None = None
    outcome: str = ""
    machine: str = ""
    date: str = ""

    @property
    def word(self) -> str:
        """How the promise turned out: as promised where its interval and that of what came have a value in common."""
        if self.brought is None:
            return "failed"
        low = self.brought if self.brought_low is None else self.brought_low
        high = self.brought if self.brought_high is None else self.brought_high
        if high < self.promised_low:
            return "less than promised"
        return "more than promised" if low > self.promised_high else "as promised"


def machine_of(*parts: str) -> str:
    """A digest of the processor's model and of `parts`, such as the names of devices and the version of torch."""
    return hashlib.sha256("\n".join((_processor(), *parts)).encode("utf-8", "replace")).hexdigest()[:12]


def _processor() -> str:
    with suppress(OSError):
        for line in _CPU_FACTS.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def history_file() -> Path | None:
    """The file, whether it exists or not; None where there shall be none."""
    if os.environ.get(OPT_OUT, "") not in ("", "0"):
        return None
    with suppress(RuntimeError):  # no home
        home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        return home / "kinetoscope" / "trials.jsonl"
    return None


def remember(records: Iterable[TrialRecord]) -> None:
    """Append the trials to the file, if there may be one."""
    file = history_file()
    text = "".join(json.dumps(asdict(each), allow_nan=False) + "\n" for each in records if _is_finite(each))
    if file is None or not text:
        return
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        number = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
        try:
            os.write(number, text.encode())  # one write: lines of two programs do not mix
        finally:
            os.close(number)
        _shorten(file)


def _is_finite(record: TrialRecord) -> bool:
    return all(math.isfinite(each) for each in vars(record).values() if isinstance(each, float))


def _shorten(file: Path) -> None:
    lines = _text(file).splitlines()
    if len(lines) > MAX_LINES or file.stat().st_size > _MAX_BYTES:
        other = file.with_name(f"{file.name}.{os.getpid()}")
        other.write_text("".join(f"{line}\n" for line in lines[-(MAX_LINES // 2) :]), encoding="utf-8")
        other.replace(file)


def _text(file: Path) -> str:
    """The end of the file, as much as is read at most."""
    with file.open("rb") as opened:
        opened.seek(max(file.stat().st_size - _MAX_BYTES, 0))
        return opened.read(_MAX_BYTES).decode("utf-8", "replace")


def records() -> tuple[TrialRecord, ...]:
    """The trials that are remembered, oldest first."""
    file = history_file()
    if file is None or not file.is_file():
        return ()
    with suppress(OSError):
        return tuple(record for line in _text(file).splitlines() if (record := _record(line)) is not None)
    return ()


def _record(line: str) -> TrialRecord | None:
    """The trial of a line; None of what is none."""
    try:
        values = json.loads(line)
        record = TrialRecord(**{**values, "codes": tuple(values["codes"])})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = (record.trial, record.outcome, record.machine, record.date, *record.codes)
    came = (record.brought, record.brought_low, record.brought_high)
    shares = (record.promised_low, record.promised_high, *(each for each in came if each is not None))
    is_list = isinstance(values["codes"], list)
    fits = is_list and all(isinstance(each, str) for each in texts) and all(map(_is_share, shares))
    return record if fits else None


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def with_records(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, each with how the trials of its rule turned out so far."""
    known = records() if findings else ()
    return tuple(replace(each, record=record_of(each.code, known)) for each in findings) if known else tuple(findings)


def record_of(code: str, known: Sequence[TrialRecord]) -> Sentence:
    """`Tried here 3 times: 2 as promised, 1 less than promised.`; "" where the rule's change was not tried."""
    mine = [record for record in known if code in record.codes]
    if not mine:
        return EMPTY
    machines = len({record.machine for record in mine})
    times = measured(len(mine)).words({1: "once", 2: "twice"}.get(len(mine), f"{len(mine)} times"))
    on = say(", on {machines} machines", machines=measured(machines)) if machines > 1 else EMPTY
    each = _counted(Counter(record.word for record in mine))
    return say("Tried here {times}{on}: {each}.", times=times, on=on, each=each)


def _counted(words: Counter[str]) -> Sentence:
    """`as promised`, `each time less than promised`, `2 as promised, 1 failed`."""
    if len(words) > 1:
        return join([say("{count} {word}", count=measured(words[word]), word=word) for word in sorted(words)], ", ")
    word = "it failed" if words["failed"] else next(iter(words))
    return say("each time {word}", word=word) if words.total() > 1 else say("{word}", word=word)
