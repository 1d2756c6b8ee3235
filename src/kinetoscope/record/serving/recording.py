"""One recording of a server: its profiler is switched on, the steps and the files are awaited, it is switched off.

vLLM records between `POST /start_profile` and `POST /stop_profile`, into the folder that it was started with, and
counts its steps in `/metrics`. SGLang is told the folder and the number of steps, and stops by itself. Both write one
file a rank. The profiler is switched off whatever ends the recording; where the server does not confirm it, the user is
told how to.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from kinetoscope.errors import InputError, UsageError
from kinetoscope.record.serving import client as http
from kinetoscope.record.serving.client import TOKEN, PendingAnswer, ServerAnswer, ServerClient
from kinetoscope.record.serving.engines import EngineName, ServingServer, counts_of_vllm, identified, new_steps
from kinetoscope.record.serving.files import CUT_OFF_PROBLEM, file_problem, new_traces, trace_sizes
from kinetoscope.record.serving.interruption import InterruptedBySignal, SignalWatch

WRITING_SECONDS: Final = 1800.0
"""Seconds in which a server has written its traces: minutes, where Python calls are recorded."""

SETTLED_SECONDS: Final = 2.0
"""Seconds for which files have not grown when they are complete."""

MISSING_RATIO: Final = 5
"""Multiple of those seconds after which what is missing or cut off is not awaited any more."""

POLL_SECONDS: Final = 0.05
"""Seconds between two looks at the count of steps, and at the folder."""

ALIVE_SECONDS: Final = 1.0
"""Seconds between two requests whose only question is whether SGLang still answers."""

LATE_SECONDS: Final = 60.0
"""Seconds in which a server answers that it has stopped, where something went wrong before."""

_IN_USE: Final = re.compile(r"\balready\b", re.IGNORECASE)
"""In a server's reason not to start: somebody else records, and is not to be stopped."""

_WITHOUT_PROFILER: Final[dict[EngineName, str]] = {
    "vLLM": (
        'start it with --profiler-config \'{"profiler": "torch", "torch_profiler_dir": "DIR"}\', or before 0.13 with '
        "VLLM_TORCH_PROFILER_DIR=DIR"
    ),
    "SGLang": "it is too old, or a router stands before it: name the server itself",
}


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The order that a server is given.

    Attributes:
        url: of the server: http://host:port.
        folder: where the traces are to be; "" where the server knows.
        steps: how many to record; 0 to record for `seconds`.
        seconds: how long to record.
        timeout: seconds in which the profiler has begun, and once more in which the steps have run.
        with_stack: record Python calls, which slows the scheduler down.
        shapes: record shapes of inputs.
        by_stage: record prefill and decode apart (SGLang).
    """

    url: str
    folder: str = ""
    steps: int = 5
    seconds: float = 0.0
    timeout: float = 300.0
    with_stack: bool = False
    shapes: bool = True
    by_stage: bool = False

    @property
    def amount(self) -> str:
        """How much, in words."""
        return f"{self.steps} step{'s' * (self.steps != 1)}" if self.steps else f"{self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class ServerRecording:
    """The outcome of a server's recording.

    Attributes:
        traces: paths of those that are whole.
        complete: whether the server confirmed that its profiler is off, and no file is damaged.
    """

    traces: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class _WaitOutcome:
    """How the waiting for the steps ended.

    Attributes:
        steps: that ran; 0 where they were not counted.
        stopped: the server has switched its profiler off by itself.
        short: why there are fewer steps than asked for; "" if there are not.
    """

    steps: int = 0
    stopped: bool = False
    short: str = ""


@dataclass(slots=True)
class _ServerSession:
    """The recording that goes on."""

    plan: ServerPlan
    server: ServingServer
    client: ServerClient
    folder: Path
    signals: SignalWatch
    say: Callable[[str], object]
    before: dict[str, int] = field(default_factory=dict)

    @property
    def engine(self) -> EngineName:
        return self.server.engine


def record_server(plan: ServerPlan, say: Callable[[str], object]) -> ServerRecording:
    """Record, wait until the server has written, and return what came.

    say: takes lines about how it goes.

    Raises:
        UsageError: the server does not say where it writes, and no folder is named; or the URL is none.
        InputError: no such server answers, it refuses, or nothing came of it.
        InterruptedBySignal: a signal came; the profiler was switched off.
    """
    if not re.match(r"https?://[^/]", plan.url):
        raise UsageError(f"{plan.url} is no address of a server: http://HOST:PORT")
    with SignalWatch() as signals:
        client = ServerClient(plan.url, signals.check)
        server = identified(client)
        folder = Path(plan.folder or server.folder or _own_folder(server, plan)).absolute()
        here = _ServerSession(plan, server, client, folder, signals, say)
        return _recorded(here)


def _own_folder(server: ServingServer, plan: ServerPlan) -> str:
    if server.engine == "SGLang":
        return f"runs/sglang-{time.strftime('%Y%m%d-%H%M%S')}"
    raise UsageError(
        f"{plan.url}: vLLM does not say where it writes: -o DIR names the folder that it was started with "
        "(torch_profiler_dir)"
    )


def _recorded(here: _ServerSession) -> ServerRecording:
    plan = here.plan
    with contextlib.suppress(OSError):
        here.folder.mkdir(parents=True, exist_ok=True)
    here.before = trace_sizes(here.folder)
    _check_that_it_counts(here)
    here.say(f"recording {plan.amount} of {here.engine} {here.server.version}".rstrip() + _place(here))
    with _Profiler(here) as profiler:
        profiler.start()
        outcome = _vllm_ran(here) if here.engine == "vLLM" else _sglang_ran(here)
        profiler.may_run = not outcome.stopped
        if outcome.short:
            here.say(outcome.short)
    whole, damaged = _awaited(here, outcome, confirmed=not profiler.problem)
    for path, problem in damaged.items():
        here.say(f"{path} {problem}")
    came, ranks = len(whole) + len(damaged), here.server.files
    missing = here.engine == "SGLang" and came < ranks
    if missing:
        here.say(f"{came} of {ranks} traces came: those of the other ranks are missing")
    stopped = not profiler.problem or (here.engine == "SGLang" and not missing)  # it stops before it writes
    return ServerRecording(tuple(whole), complete=stopped and not damaged)


def _place(here: _ServerSession) -> str:
    return f" at {here.plan.url}, into {here.folder}"


# --- the profiler of the server


class _Profiler:
    """The server's profiler; it is switched off at the end of the block, if it may run.

    Attributes:
        may_run: whether it may run, so that it has to be switched off.
        problem: why it is not known to be off; "" if it is.
    """

    def __init__(self, here: _ServerSession) -> None:
        self.may_run = False
        self.problem = ""
        self._here = here
        self._start: PendingAnswer | None = None

    def __enter__(self) -> _Profiler:
        return self

    def __exit__(self, _type: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.may_run:
            self._stop(WRITING_SECONDS if error is None else LATE_SECONDS)
            if isinstance(error, InterruptedBySignal) and not self.problem:
                self._here.say(f"the profiler of {self._here.engine} is off; it writes into {self._here.folder}")

    def start(self) -> None:
        """Switch it on.

        Raises:
            InputError: it is not on, or not for us.
        """
        here = self._here
        body = _orders(here.plan, here.folder) if here.engine == "SGLang" else None
        self.may_run = True
        self._start = here.client.send("/start_profile", body, post=True, seconds=here.plan.timeout)
        answer = here.client.wait(self._start)
        if answer.ok:
            return
        if answer.status in (404, 405):
            self.may_run = False
            why = _WITHOUT_PROFILER[here.engine]
            raise InputError(
                f"{here.plan.url}: this {here.engine} has no profiler (/start_profile: {answer.status}): {why}"
            )
        unsure = not answer.status or answer.status >= 500  # it may have begun all the same
        self.may_run = unsure and not _IN_USE.search(answer.text)
        if self.may_run:
            raise InputError(
                f"{here.plan.url}: {here.engine} did not confirm that it records (/start_profile: {answer.reason}); as "
                "it may, it was told to stop"
            )
        hint = f"; if nobody records, {_stop_command(here.plan.url)} ends what was left on"
        raise InputError(
            f"{here.plan.url}: {here.engine} refuses to profile ({answer.reason})"
            + hint * bool(_IN_USE.search(answer.text))
        )

    def _stop(self, seconds: float) -> None:
        """Switch it off. vLLM answers when it has written its traces."""
        here = self._here
        if self._start is not None:
            self._hurried(self._start)  # what comes before it would stop nothing
        answer = self._hurried(here.client.send("/stop_profile", post=True, seconds=seconds))
        begins = self._start is None or self._start.answer is None
        if answer.ok and not begins:
            return
        self.problem = "/start_profile is not answered yet" if answer.ok else f"/stop_profile: {answer.reason}"
        by_itself = here.engine == "SGLang" and here.plan.steps and answer.status == 500
        here.say(
            f"{here.engine} did not confirm that its profiler is off ({self.problem}): it may still record; "
            f"{_stop_command(here.plan.url)} switches it off"
            + " (SGLang answers so, too, where it had stopped by itself)"
            * bool(by_itself)
        )

    def _hurried(self, pending: PendingAnswer) -> ServerAnswer:
        """The answer; where a signal came, soon."""
        until = math.inf

        def over() -> bool:
            nonlocal until
            if self._here.signals.number:
                until = min(until, time.monotonic() + http.ANSWER_SECONDS)
            return time.monotonic() > until

        return pending.wait(over)


def _orders(plan: ServerPlan, folder: Path) -> dict[str, Any]:
    """The request that says what SGLang is to record."""
    return {
        "output_dir": str(folder),
        "activities": ["CPU", "GPU"],
        "with_stack": plan.with_stack,
        "record_shapes": plan.shapes,
        "profile_by_stage": plan.by_stage,
        "detailed_annotations": True,
    } | ({"num_steps": plan.steps} if plan.steps else {})


def _stop_command(url: str) -> str:
    key = f' -H "Authorization: Bearer ${TOKEN}"' if os.environ.get(TOKEN) else ""
    return f"`curl -X POST{key} {shlex.quote(url.rstrip('/') + '/stop_profile')}`"


# --- the steps


def _check_that_it_counts(here: _ServerSession) -> None:
    if here.plan.steps == 0 or here.engine != "vLLM":
        return
    answer = here.client.get("/metrics")
    if not counts_of_vllm(answer):
        why = _why_uncounted(answer)
        raise InputError(f"{here.plan.url}: counts no steps at /metrics ({why}); --for 2s records by time")


def _why_uncounted(answer: ServerAnswer) -> str:
    return answer.reason if answer.status != 200 else "no count of steps in it"


def _vllm_ran(here: _ServerSession) -> _WaitOutcome:
    """Wait until vLLM has taken the steps, or for the time; /metrics may miss a few answers."""
    plan, steps, began = here.plan, 0, time.monotonic()
    until = began + (plan.timeout if plan.steps else plan.seconds)
    answered, begun, counted = began, dict[str, float](), 0
    while plan.steps == 0 or steps < plan.steps:
        _pause(here)
        now = time.monotonic()
        if now > until:
            return _timed_out(here, steps, known=counted > 1) if plan.steps else _WaitOutcome()
        if not plan.steps:
            continue
        answer = here.client.get("/metrics")
        if counts := counts_of_vllm(answer):
            counted += 1
            begun = begun or counts  # the first count since it records
            answered, steps = time.monotonic(), new_steps(begun, counts)
        if steps < 0:
            raise InputError(f"{plan.url}: counts its steps anew: it was started again while it recorded")
        if time.monotonic() - answered > http.ANSWER_SECONDS:
            why = _why_uncounted(answer)
            short = f"/metrics tells no steps any more ({why}): ended after {steps} of {plan.amount}, maybe more"
            return _WaitOutcome(steps, short=short)
    return _WaitOutcome(steps)


def _timed_out(here: _ServerSession, steps: int, *, known: bool) -> _WaitOutcome:
    plan = here.plan
    if not known:
        slow = f"/metrics is too slow to count {plan.amount} within {plan.timeout:g} s"
        short = f"{slow}, so fewer may have run; see --timeout"
        return _WaitOutcome(short=short)
    if steps:
        short = f"only {steps} of {plan.amount} ran within {plan.timeout:g} s; send more requests, or see --timeout"
        return _WaitOutcome(steps, short=short)
    raise InputError(
        f"{plan.url}: no step ran within {plan.timeout:g} s: send requests while it records, or give it a longer "
        "--timeout"
    )


def _sglang_ran(here: _ServerSession) -> _WaitOutcome:
    """Wait until SGLang has stopped: as many new traces are in the folder as its ranks write, of each stage."""
    plan, now = here.plan, time.monotonic()
    files = here.server.files * (1 + plan.by_stage)
    until, answered, asked = now + (plan.timeout if plan.steps else plan.seconds), now, now
    while time.monotonic() < until:
        if plan.steps and len(trace_sizes(here.folder).keys() - here.before.keys()) >= files:
            return _WaitOutcome(stopped=True)
        _pause(here)
        if time.monotonic() - asked > ALIVE_SECONDS:
            answer = here.client.get("/version")  # it has none, and says so without asking its scheduler
            asked = time.monotonic()
            answered = asked if answer.status else answered
            if asked - answered > http.ANSWER_SECONDS:
                raise InputError(f"{plan.url}: SGLang no longer answers: {answer.reason}")
    short = (
        f"SGLang had not written the traces of {plan.amount} within {plan.timeout:g} s, so they may hold fewer; send "
        "more requests, or see --timeout"
    )
    return _WaitOutcome(short=short if plan.steps else "")


def _pause(here: _ServerSession) -> None:
    here.signals.check()
    time.sleep(POLL_SECONDS)


# --- the traces


def _awaited(here: _ServerSession, outcome: _WaitOutcome, *, confirmed: bool) -> tuple[list[str], dict[str, str]]:
    """The new traces that are whole, and what is wrong with the others, when all are there and none grows any more.

    vLLM has written them when it says that it has stopped; SGLang only begins then.
    """
    plan, missing = here.plan, MISSING_RATIO * SETTLED_SECONDS
    until = time.monotonic() + (WRITING_SECONDS if here.folder.is_dir() else 0.0)
    last: dict[str, int] = {}
    problems: dict[str, str] | None = None
    first = settled = time.monotonic()
    while time.monotonic() < until:
        patience = plan.timeout if here.engine == "SGLang" and (plan.seconds or last) else missing
        new = new_traces(here.before, here.folder)
        if new != last:
            last, settled, problems = new, time.monotonic(), None
        quiet = time.monotonic() - settled
        if new and quiet > SETTLED_SECONDS and (len(new) >= here.server.files or quiet > patience):
            problems = {path: file_problem(path) for path in sorted(new)} if problems is None else problems
            grows = any(each.startswith(CUT_OFF_PROBLEM) for each in problems.values())
            if not grows or quiet > missing:
                damaged = {path: problem for path, problem in problems.items() if problem}
                return [path for path, problem in problems.items() if not problem], damaged
        if not new and time.monotonic() - first > patience:
            break
        _pause(here)
    raise InputError(f"{plan.url}: no trace came into {here.folder}: {_why_none(here, outcome, confirmed=confirmed)}")


def _why_none(here: _ServerSession, outcome: _WaitOutcome, *, confirmed: bool) -> str:
    elsewhere = f"{here.engine} writes into another folder or on another machine: copy the traces from there"
    if not confirmed:
        return f"{here.engine} did not confirm that it stopped, and may write none before it does"
    if outcome.steps:
        return f"{outcome.steps} steps ran, so {elsewhere}"
    return f"no step ran, as no request came, or {elsewhere}"
