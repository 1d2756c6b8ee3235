"""Contents of the files of hosts: stacks by `faulthandler`, our recorder's notes, exit codes, and lines of logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kinetoscope.model.trace.text import number_of


@dataclass(frozen=True)
class ThreadStack:
    """A thread of Python.

    Attributes:
        thread: its number, as "0x00007f70f0a02b80".
        stack: its frames, outermost first, as `model.execution.frames` has them; "" where none is known.
        collects: it is within Python's garbage collector.
    """

    thread: str
    stack: str
    collects: bool = False


@dataclass(frozen=True)
class HostNote:
    """A note of our recorder about a rank.

    Attributes:
        rank, world, host, pid, torch: of the process; world 0 where unknown.
        written: ns since 1970.
        why: step, before the first step, trigger, exception, end, the interpreter stood still, SIGTERM.
        step: steps that had ended.
        since_step: seconds since the last one, or since the process began to be watched.
        main_thread: as `ThreadStack.thread`; "" where unknown.
        code: the source of the line that the main thread was in; "" where unknown.
        exception: that ended the program: kind and first line; "" for none.
        failed_call: the collective that raised it, such as all_reduce; "" for none.
        is_over: the program had come to its end, or an exception had ended it.
        went_on: the step that hung has ended after all.
        members: ranks of the process groups, by name.
        descriptions, backends: of them.
    """

    rank: int
    world: int = 0
    host: str = ""
    pid: int = 0
    torch: str = ""
    written: int = 0
    why: str = ""
    step: int = 0
    since_step: float = 0.0
    main_thread: str = ""
    code: str = ""
    exception: str = ""
    failed_call: str = ""
    is_over: bool = False
    went_on: bool = False
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    backends: Mapping[str, str] = field(default_factory=dict)

    @property
    def hangs(self) -> bool:
        """True if a step took much too long when it was written, and has not ended."""
        return self.why in ("step", "before the first step", "the interpreter stood still") and not self.went_on


@dataclass(frozen=True)
class HostExit:
    """How a rank ended, as whoever started it, or a log, says.

    Attributes:
        rank: of it.
        code: its exit code, negative for a signal; None where only the reason is known.
        reason: out of memory, watchdog; "" for none.
    """

    rank: int
    code: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class HostFile:
    """The content of a file; what it has nothing of is empty.

    Attributes:
        url: the file.
        rank: by its name or content; None where neither says.
        threads: in the order of the file.
        note: of our recorder.
        exits: of ranks.
        is_log: it is the text that the job printed.
    """

    url: str
    rank: int | None = None
    threads: tuple[ThreadStack, ...] = ()
    note: HostNote | None = None
    exits: tuple[HostExit, ...] = ()
    is_log: bool = False

    @property
    def words(self) -> str:
        """A few words on what it is."""
        if self.is_log:
            return f"a log that says of {number_of(len(self.exits), 'rank')} how it ended"
        if self.note is not None:
            return f"a note ({self.note.why or 'without a reason'}, after step {self.note.step})"
        if self.exits:
            return f"how rank {self.exits[0].rank} ended"
        return f"stacks of {number_of(len(self.threads), 'thread')}"
