"""Texts that hosts leave, read strictly: stacks as `faulthandler` writes them, our recorder's notes, logs of a job."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.execution.frames import MAX_DEPTH, SEPARATOR, frame_text
from kinetoscope.model.hangs.host_file import HostExit, HostNote, ThreadStack
from kinetoscope.readers.reader import MAX_RANK

MAX_THREADS: Final = 4096
MAX_GROUPS: Final = 1 << 16

_THREAD: Final = re.compile(r"(?:Current t|T)hread (0x[0-9a-f]{1,16})(?: \[.{0,64}\])? \(most recent call first\):")
_FRAME: Final = re.compile(r'  File "(.{0,4096})", line (\d{1,9}|\?\?\?) in (.{1,512})')

_WATCHDOG: Final = re.compile(r"Rank (\d{1,9})\] .{0,40}Watchdog caught collective operation timeout")
_MEMORY: Final = re.compile(r"\[rank(\d{1,9})\]: .{0,80}(?:CUDA out of memory|OutOfMemoryError)")
_RANK: Final = re.compile(r"\s*rank {1,9}: (\d{1,9}) \(local_rank: \d{1,9}\)")
_CODE: Final = re.compile(r"\s*exitcode {1,9}: (-?\d{1,4}) \(pid: \d{1,9}\)")
_FIRST_FAILURE: Final = "Root Cause (first observed failure):"


def thread_stacks(text: str, what: str) -> tuple[ThreadStack, ...]:
    """The threads of a text of `faulthandler`; of several tracebacks in it the last state of each.

    Raises:
        BrokenTraceError: it has none; `what` is its name.
    """
    threads: dict[str, ThreadStack] = {}
    thread, frames, collects = "", list[str](), False

    def close() -> None:
        if thread:
            threads.pop(thread, None)
            threads[thread] = ThreadStack(thread, SEPARATOR.join(reversed(frames)), collects)

    for line in text.splitlines():
        if match := _THREAD.fullmatch(line):
            close()
            thread, frames, collects = match[1].removeprefix("0x").zfill(16), [], False
            thread = f"0x{thread}"
            if len(threads) >= MAX_THREADS:
                break
        elif (match := _FRAME.fullmatch(line)) and len(frames) < MAX_DEPTH:
            number = match[2] if match[2].isdecimal() else "0"
            frames.append(frame_text(f"{match[1]}({number}): {match[3]}"))
        elif line.strip() == "Garbage-collecting":
            collects = True
    close()
    if not threads:
        raise BrokenTraceError(f"{what}: no traceback of faulthandler in it")
    return tuple(threads.values())


def _facts(text: str, what: str) -> Mapping[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenTraceError(f"{what}: no note of the recorder: {error}") from error
    if not isinstance(facts, dict) or _number(facts, "rank", -1) not in range(MAX_RANK):
        raise BrokenTraceError(f"{what}: no note of the recorder: it names no rank")
    return facts


def _number(facts: Mapping[str, Any], key: str, otherwise: int = 0) -> int:
    value = facts.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else otherwise


def _seconds(facts: Mapping[str, Any], key: str) -> float:
    value = facts.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else 0.0


def _text(facts: Mapping[str, Any], key: str) -> str:
    value = facts.get(key)
    return value[:1000] if isinstance(value, str) else ""


def note_of(text: str, what: str) -> HostNote:
    """The note of a rank.

    Raises:
        BrokenTraceError: it is none.
    """
    facts = _facts(text, what)
    why = _text(facts, "why")
    groups = {each["name"]: each for each in _groups(facts.get("groups"))}
    return HostNote(
        rank=_number(facts, "rank"),
        world=max(_number(facts, "world"), 0),
        host=_text(facts, "host"),
        pid=_number(facts, "pid"),
        torch=_text(facts, "torch"),
        written=max(_number(facts, "written"), 0),
        why=why,
        step=_number(facts, "step"),
        since_step=_seconds(facts, "since_step"),
        main_thread=_text(facts, "main_thread"),
        code=_text(facts, "code"),
        exception=_text(facts, "exception"),
        failed_call=_text(facts, "failed_call") if why == "exception" else "",
        is_over=why in ("end", "exception") or "ended" in facts,
        went_on="went_on_after" in facts,
        members={name: tuple(each["ranks"]) for name, each in groups.items() if each["ranks"]},
        descriptions={name: _text(each, "desc") for name, each in groups.items()},
        backends={name: _text(each, "backend") for name, each in groups.items()},
    )


def _groups(groups: object) -> Iterator[dict[str, Any]]:
    for each in groups[:MAX_GROUPS] if isinstance(groups, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("ranks"), list):
            ranks = [rank for rank in each["ranks"] if isinstance(rank, int) and 0 <= rank < MAX_RANK]
            yield {**each, "ranks": ranks}


def exit_of(text: str, what: str) -> HostExit:
    """How a rank ended, as whoever started it has noted.

    Raises:
        BrokenTraceError: it is no such note.
    """
    facts = _facts(text, what)
    code = facts.get("code")
    return HostExit(_number(facts, "rank"), code if isinstance(code, int) and abs(code) < 1 << 16 else None)


def exits_in_log(lines: Iterable[str]) -> tuple[HostExit, ...]:
    """How ranks ended, as a log says: the watchdog's lines, memory that ran out, torchrun's first failure.

    Of the failures that torchrun lists, those after the first are mostly of ranks that it has ended; signals other than
    SIGTERM are no work of its own.
    """
    exits: dict[tuple[int, int | None, str], None] = {}
    rank, is_first = -1, False
    for line in lines:
        if match := _WATCHDOG.search(line):
            exits[int(match[1]), None, "watchdog"] = None
        elif match := _MEMORY.search(line):
            exits[int(match[1]), None, "out of memory"] = None
        elif _FIRST_FAILURE in line:
            is_first = True
        elif match := _RANK.fullmatch(line.rstrip()):
            rank = int(match[1])
        elif (match := _CODE.match(line)) and 0 <= rank < MAX_RANK:
            code = int(match[1])
            if is_first or (code < 0 and code != -15):
                exits[rank, code, ""] = None
            rank, is_first = -1, False
        if len(exits) > MAX_GROUPS:
            break
    return tuple(HostExit(*each) for each in exits)
