"""The compilations of a rank: what torch's structured log says of each, and what the trace shows of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kinetoscope.model.compile.log import METRICS, RECOMPILE_REASONS, LogEntry, first_line, log_entries
from kinetoscope.model.compile.regions import PHASES
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_CUMULATIVE: Final = (
    ("dynamo_cumulative_compile_time_us", "entire_frame_compile_time_s"),
    ("aot_autograd_cumulative_compile_time_us", "backend_compile_time_s"),
    ("inductor_cumulative_compile_time_us", "inductor_compile_time_s"),
    ("inductor_code_gen_cumulative_compile_time_us", "code_gen_time_s"),
    ("triton_compile_time_us", ""),
)
"""Fields of torch's metrics, each a part of the one before; the second name is that of torch until 2.5."""

_CACHES: Final = (
    "inductor_fx_local_cache",
    "inductor_fx_remote_cache",
    "aotautograd_local_cache",
    "aotautograd_remote_cache",
)
_MAX_REASON_CHARACTERS: Final = 400
_MAX_NS: Final = 1 << 62


@dataclass(slots=True)
class Compilation:
    """One compilation of one frame, as the log tells of it; None and "" are unknown.

    Attributes:
        compile_id: `0/1`.
        function, file, line: of the compiled function.
        start: when it began, ns since 1970.
        phases: ns in each of PHASES, those of the backward pass included.
        backward: of them, what compiling the backward pass took, ns.
        cache_hits, cache_misses: lookups in the caches of AOTAutograd and Inductor.
        operators, guards: of its graph, and of the conditions under which it may be run.
        attempts: how often it was begun.
        reasons: why the earlier compilations did not fit: id and failed guard of each.
        failure: why there is no compiled code.
        is_measured: the log has the metrics of its forward pass.
    """

    compile_id: str
    function: str = ""
    file: str = ""
    line: int | None = None
    start: int | None = None
    phases: list[int] = field(default_factory=lambda: [0] * len(PHASES))
    backward: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    operators: int | None = None
    guards: int | None = None
    attempts: int = 1
    reasons: tuple[str, ...] = ()
    failure: str = ""
    is_measured: bool = False


@derived
def compilations(trace: Trace) -> tuple[Compilation, ...]:
    """The compilations that the log of the rank tells of, in order of time; () where there is no log."""
    return tuple(of_log(log_entries(trace)))


def of_log(entries: Iterable[LogEntry]) -> Iterable[Compilation]:
    """The compilations that the records of a log tell of."""
    by_id: dict[str, Compilation] = {}
    counted: set[tuple[str, str, int | None]] = set()
    for entry in entries:
        if not entry.compile_id or not (entry.kind in METRICS or entry.name == RECOMPILE_REASONS):
            continue
        compilation = by_id.setdefault(entry.compile_id, Compilation(entry.compile_id))
        if entry.name == RECOMPILE_REASONS:
            compilation.reasons = _reasons(entry.payload)
        else:
            record = entry.compile_id, entry.kind, _nanoseconds(entry.metadata, "start_time_us", "start_time")
            if record not in counted:  # two logs may have it, or one twice: of two recordings in one process
                _add(compilation, entry)
            counted.add(record)
    return sorted(by_id.values(), key=lambda each: (each.start is None, each.start or 0))


def _add(compilation: Compilation, entry: LogEntry) -> None:
    facts = entry.metadata
    start, took = _nanoseconds(facts, "start_time_us", "start_time"), _nanoseconds(facts, "duration_us", "")
    if start is not None:
        compilation.start = start if compilation.start is None else min(start, compilation.start)
    cumulative = [_nanoseconds(facts, *names) or 0 for names in _CUMULATIVE]
    is_backward = entry.kind.startswith("bwd")
    if entry.kind.endswith("runtime"):
        cumulative, run_time = [0] * len(_CUMULATIVE), took or 0
    else:
        run_time = 0
        if is_backward:  # it has no tracing: what is not Inductor's is AOTAutograd's
            cumulative[:2] = [
                max(cumulative[2], _nanoseconds(facts, "backward_cumulative_compile_time_us", "") or 0)
            ] * 2
    for place in range(1, len(cumulative)):
        cumulative[place] = min(cumulative[place], cumulative[place - 1])
    own = [time - inner for time, inner in zip(cumulative, [*cumulative[1:], 0], strict=True)]
    compilation.phases = [a + b for a, b in zip(compilation.phases, [*own, run_time], strict=True)]
    compilation.backward += cumulative[0] if is_backward else 0
    for name in _CACHES:
        compilation.cache_hits += _count(facts.get(f"{name}_hit_count")) or 0
        compilation.cache_misses += _count(facts.get(f"{name}_miss_count")) or 0
    if entry.kind == METRICS[0]:
        compilation.is_measured = True
        compilation.function = _text(facts.get("co_name"))
        compilation.file = _text(facts.get("co_filename"))
        compilation.line = _count(facts.get("co_firstlineno"))
        compilation.operators, compilation.guards = (
            _count(facts.get("graph_op_count")),
            _count(facts.get("guard_count")),
        )
        compilation.attempts = entry.attempt + 1
        compilation.failure = first_line(_text(facts.get("fail_reason")))
        compilation.reasons = compilation.reasons or _reasons(_text(facts.get("recompile_reason")))


def _reasons(payload: str) -> tuple[str, ...]:
    """`0/0: tensor 'x' size mismatch at index 0. expected 8, actual 12`, for each earlier compilation."""
    try:
        value = json.loads(payload) if payload.startswith(("[", '"')) else payload
    except (ValueError, RecursionError):
        value = payload
    texts = value if isinstance(value, list) else [value]
    return tuple(shortened for text in texts if isinstance(text, str) and (shortened := _guard(text)))


_SPACES: Final = re.compile(r"\s{2,}")
_ADVICE: Final = re.compile(r"\s*\((?:HINT: |hint: ).*", re.DOTALL)
_SOURCE: Final = re.compile(r"\s{2,}# .*", re.DOTALL)


def _guard(text: str) -> str:
    """A failed guard in one line: without the line of source that torch prints behind it, and without its advice."""
    line = _ADVICE.sub("", text.split("\nUser stack trace:", maxsplit=1)[0])
    return _SPACES.sub(" ", _SOURCE.sub("", line)).strip()[:_MAX_REASON_CHARACTERS]


# --- values of a hostile file


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_NS else None


def _nanoseconds(facts: Mapping[str, Any], microseconds: str, seconds: str) -> int | None:
    """A time that torch gives in microseconds, or, in older versions, in seconds."""
    for name, unit in ((microseconds, 1_000), (seconds, 1_000_000_000)):
        value = facts.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value * unit < _MAX_NS:
            return round(value * unit)
    return None
