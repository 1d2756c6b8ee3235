"""`with kinetoscope.profile("runs/baseline") as prof: ... prof.step()`: as torch.profiler, without its sharp edges."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from kinetoscope.errors import UsageError
from kinetoscope.record.output.guards import harmless, tell
from kinetoscope.record.output.writing import WindowOutcome
from kinetoscope.record.session.options import RecordOptions
from kinetoscope.record.session.recorder import Recorder

_NO_ACTION: Final = "NONE"
_WARMUP: Final = "WARMUP"
_RECORD: Final = "RECORD"
_SAVE: Final = "RECORD_AND_SAVE"
_NO_END: Final = 1 << 62
_PROVISIONAL_SECONDS: Final = 60.0


class profile:  # noqa: N801 - what users type is kinetoscope.profile
    """Record some steps of a training loop; each cycle becomes one trace in `dir`.

    Nothing that goes wrong with recording is raised into the loop, and what the loop computes stays the same. As in
    torch.profiler, `wait` steps are skipped, `warmup` steps warm the profiler up, `active` steps are recorded, and that
    `repeat` times (0: until the block ends). Where step() is never called, what happened in the block is recorded
    lightly, and a line says so.

    Args:
        dir: where the traces go: a folder, or a URL that fsspec knows.
        wait: steps to skip.
        warmup: steps to warm up.
        active: steps to record.
        repeat: how many cycles; 0 for as many as there are steps for.
        skip_first: steps to skip once, before the first cycle.
        schedule: instead of these five, a function of torch.profiler's kind: from a step's number to ProfilerAction.
        on_trace_ready: called with torch's profiler after each cycle; its errors are printed, not raised.
        activities: as for torch, or names of activities: "cpu", "cuda".
        record_shapes: as for torch; on by default.
        profile_memory: as for torch; on by default.
        memory_snapshot: keep the history of CUDA's allocator from here on, and write a snapshot with each cycle, and
            where memory runs out, into `snapshots` in the folder. Best made before the model.
        with_stack: as for torch. By far the dearest: keep it to a few steps.
        with_flops: as for torch.
        with_modules: as for torch.
        experimental_config: as for torch.
        execution_trace_observer: as for torch.
        all_threads: record threads that Python started, too; torch then records no memory.
        spans: mark the forward and the backward pass and each call of a module, as `kinetoscope record` does; the
            callbacks of frameworks do.
        run: name of the run, for the sidecar.
        about: what else to know of it (parameters, batch_size, precision), for the sidecar.
        step: number of the first step, if a run goes on where another ended.
        max_memory: bytes that the process may grow by while it records a cycle, and when torch stops (1 GB).
        max_events: how many events a cycle may have, about (10 million).
        max_step: how many times as long as the longest step before it a step may take, beyond 5 s (10).
        options: further limits; see `kinetoscope.record.session.options.RecordOptions`.

    Example:
        >>> with kinetoscope.profile("runs/baseline", wait=1, warmup=1, active=3) as prof:
        ...     for batch in loader:
        ...         train(batch)
        ...         prof.step(samples=len(batch))
    """

    def __init__(
        self,
        dir: str | os.PathLike[str],  # noqa: A002 - what users type
        *,
        wait: int = 1,
        warmup: int = 1,
        active: int = 3,
        repeat: int = 1,
        skip_first: int = 0,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        activities: Sequence[Any] | None = None,
        record_shapes: bool = True,
        profile_memory: bool = True,
        memory_snapshot: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        all_threads: bool = False,
        spans: bool = False,
        run: str = "",
        about: Mapping[str, Any] | None = None,
        step: int = 0,
        max_memory: int | None = None,
        max_events: int | None = None,
        max_step: float | None = None,
        options: RecordOptions | None = None,
    ) -> None:
        if min(wait, warmup, repeat, skip_first, step) < 0 or active < 1:
            raise UsageError("wait, warmup, repeat, skip_first and step must be 0 or more, and active 1 or more")
        from dataclasses import replace

        limits: dict[str, Any] = {"max_memory": max_memory, "max_events": max_events, "max_step": max_step}
        if any(each is not None and each < 0 for each in limits.values()):
            raise UsageError("max_memory, max_events and max_step must be 0 (no limit) or more")
        self._options = replace(
            options or RecordOptions(),
            **{name: each for name, each in limits.items() if each is not None},
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            memory_snapshot=memory_snapshot or (options is not None and options.memory_snapshot),
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            all_threads=all_threads,
            run=run,
            about=about or {},
        )
        self._dir = os.fspath(dir)
        self._action = schedule or _cycle(skip_first, wait, warmup, active, repeat)
        self._on_trace_ready = on_trace_ready
        self._recorder = Recorder(dir, self._options, step=step)
        self._marks_spans = spans
        self._spans: Any = None
        self._number = 0
        self._now = _NO_ACTION
        self._opened = self._running = self._provisional = False
        self._stepped = False
        self._done: list[WindowOutcome] = []

    # --- as torch.profiler.profile has them -----------------------------------------------------------------------

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._finish("" if kind is None else f"exception: {kind.__name__}")

    @harmless(None)
    def start(self) -> None:
        """Begin with the schedule's first step."""
        if self._running:
            return
        self._running = True
        self._now = self._asked(0)
        if self._now in (_RECORD, _SAVE):
            self._open()
        elif self._now in (_NO_ACTION, _WARMUP):
            # If no step ever ends, this is all there will be; thrown away at the first step().
            self._provisional = self._start_window(provisional=True)

    @harmless(None)
    def step(self, samples: int | None = None) -> None:
        """A step ended, with so many samples."""
        if not self._running:
            return
        self._stepped = True
        self._number += 1
        before, self._now = self._now, self._asked(self._number)
        if self._provisional:
            self._provisional = False
            self._recorder.discard()
        ends = before == _SAVE or (before == _RECORD and self._now in (_NO_ACTION, _WARMUP))
        records = self._now in (_RECORD, _SAVE)
        self._recorder.hint(begin=records, end=ends)
        self._recorder.step(samples)
        if ends or self._now == _NO_ACTION:
            self._opened = False
        if records and not self._opened:
            self._open()
        elif self._now == _WARMUP and not self._opened:
            self._opened = self._start_window(warmup=_NO_END)

    def stop(self) -> None:
        """End it; what is recorded so far is written."""
        self._finish("")

    @property
    def step_num(self) -> int:
        """Number of steps that have ended."""
        return self._number

    # --- what torch does not have ---------------------------------------------------------------------------------

    @property
    def traces(self) -> list[str]:
        """The traces written so far; waits for those that are being written."""
        self._recorder.flush()
        return [each.path for each in self._done if each.path is not None]

    @property
    def written(self) -> list[WindowOutcome]:
        """The outcome of each cycle; waits for those that are being written."""
        self._recorder.flush()
        return list(self._done)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _asked(self, number: int) -> str:
        try:
            action = self._action(number)
        except Exception as error:  # noqa: BLE001 - the schedule is the user's
            tell(f"the schedule failed at step {number}: {type(error).__name__}: {error}")
            return _NO_ACTION
        name = action if isinstance(action, str) else str(getattr(action, "name", _NO_ACTION))
        return name if name in (_NO_ACTION, _WARMUP, _RECORD, _SAVE) else _NO_ACTION

    def _open(self) -> None:
        # A window that could not be opened is not tried again before the next cycle.
        self._opened = True
        if self._recorder.state == "idle":
            self._start_window()

    def _start_window(self, *, warmup: int = 0, provisional: bool = False) -> bool:
        from dataclasses import replace

        options = self._options
        if provisional:
            options = replace(options, max_seconds=min(options.max_seconds, _PROVISIONAL_SECONDS))
        on_end = self._end_spans if self._marks_spans and not provisional else None
        opened = self._recorder.start_window(
            warmup,
            _NO_END,
            self._ready,
            reason="profile",
            options=options,
            provisional=provisional,
            on_ready=self._on_trace_ready,
            on_end=on_end,
        )
        if opened and on_end is not None:
            self._begin_spans()
        return opened

    def _begin_spans(self) -> None:
        from kinetoscope.record.always_on.hooks import PassSpans

        self._spans = self._spans or PassSpans(self._recorder.poll)
        self._spans.attach(record_shapes=self._options.record_shapes)
        if self._recorder.state == "idle":  # it has ended meanwhile
            self._end_spans()

    def _end_spans(self) -> None:
        if self._spans is not None:
            self._spans.detach()

    def _finish(self, why: str) -> None:
        if not self._running:
            return
        self._running = False
        if self._provisional and not self._stepped and not why:
            tell("step() was never called, so all of the block was recorded, without shapes")
        elif self._recorder.state == "recording" and not why:
            why = "the block ended before its steps did" if self._stepped or self._now != _SAVE else ""
        self._recorder.leave(why)

    def _ready(self, written: WindowOutcome) -> None:
        self._done.append(written)
        if written.path is None:
            return
        if written.problem:
            tell(written.problem)
        if sum(each.path is not None for each in self._done) == 1:
            tell(f"trace: {written.path} (next: kinetoscope summary {self._dir})")


def _cycle(skip_first: int, wait: int, warmup: int, active: int, repeat: int) -> Callable[[int], str]:
    """The schedule of torch.profiler.schedule."""
    length = wait + warmup + active

    def action(step: int) -> str:
        if step < skip_first:
            return _NO_ACTION
        cycle, at = divmod(step - skip_first, length)
        if repeat and cycle >= repeat:
            return _NO_ACTION
        if at < wait:
            return _NO_ACTION
        if at < wait + warmup:
            return _WARMUP
        return _RECORD if at < length - 1 else _SAVE

    return action
