"""Torch's structured log of torch.compile (the files of `TORCH_TRACE`), as entries.

A record is a line, `V1122 22:17:44.542000 23127 torch/_dynamo/utils.py:2350] {"KIND": {…}, "frame_id": 0, …}`, and the
lines of its payload, each of which begins with a tab.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kinetoscope.model.compile.files import compile_files
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.strings import json_object
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

ARTIFACT: Final = "artifact"
"""Kind of the records that are told apart by a name in their metadata."""

METRICS: Final = (
    "compilation_metrics",
    "bwd_compilation_metrics",
    "compilation_metrics_runtime",
    "bwd_compilation_metrics_runtime",
)
"""Kinds of what a compilation, that of its backward pass, and compiling while it runs took."""

GRAPH_BREAK: Final = "dynamo_graph_break_reason"
RECOMPILE_REASONS: Final = "recompile_reasons"

_KINDS: Final = frozenset((*METRICS, "dynamo_output_graph", "inductor_output_code"))
_ARTIFACTS: Final = frozenset(
    (
        GRAPH_BREAK,
        RECOMPILE_REASONS,
        "dynamo_error",
        "fx_graph_cache_bypass",
        "fx_graph_cache_hit",
        "fx_graph_cache_miss",
        "inductor_post_grad_graph",
        "inductor_provenance_tracking_kernel_stack_traces",
        "inductor_provenance_tracking_node_mappings",
        "torch_version",
    )
)

_RECORD: Final = re.compile(r"[A-Z]\d{4} [\d:.]+ (\d+) [^\]]{0,4096}\] (\{.*)", re.DOTALL)
_MAX_PAYLOAD_CHARACTERS: Final = 16 << 20
_MAX_ENTRIES: Final = 1 << 20
_MAX_LINE_CHARACTERS: Final = 400


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One record of the log.

    Attributes:
        kind: its key: `artifact`, `compilation_metrics`, `inductor_output_code`, …
        name: of an artifact its name; else the kind.
        compile_id: `0/1`: the frame and which compilation of it; with compiled autograd `!0/0/1`; "" for none.
        attempt: 0, or how often this compilation was begun anew before.
        rank: of the process; −1 where the log does not say.
        metadata: what the record says.
        payload: the lines that follow; "" for none.
    """

    kind: str
    name: str
    compile_id: str
    attempt: int
    rank: int
    metadata: Mapping[str, Any]
    payload: str


@derived
def log_entries(trace: Trace) -> tuple[LogEntry, ...]:
    """The records of the structured logs of a trace's rank, in the order of the files; () where there is no log."""
    collected: list[LogEntry] = []
    for file in compile_files(trace):
        if file.kind == "log":
            own = (each for each in entries(file.lines()) if each.rank in (-1, trace.source.rank))
            collected += own
    return tuple(collected[:_MAX_ENTRIES])


def entries(lines: Iterable[str]) -> Iterator[LogEntry]:
    """The records among the lines of a log, of the kinds that are read here; a line that is none is left out."""
    entry: tuple[str, str, str, int, int, Mapping[str, Any]] | None = None
    payload: list[str] = []
    size = 0
    for line in lines:
        if line.startswith("\t"):
            if entry is not None and (size := size + len(line)) <= _MAX_PAYLOAD_CHARACTERS:
                payload.append(line[1:].rstrip("\n"))
            continue
        if entry is not None:
            yield LogEntry(*entry, "\n".join(payload))
        entry, size = _record(line), 0
        payload.clear()
    if entry is not None:
        yield LogEntry(*entry, "\n".join(payload))


def _record(line: str) -> tuple[str, str, str, int, int, Mapping[str, Any]] | None:
    match = _RECORD.match(line)
    if match is None:
        return None
    # Most records describe tensors and times: they are many, and are not parsed.
    kind = next(iter(re.findall(r'\{"(\w+)":', match[2][:80])), "")
    if kind != ARTIFACT and kind not in _KINDS:
        return None
    record = json_object(match[2])
    metadata = record.get(kind)
    if not isinstance(metadata, dict):
        return None
    name = metadata.get("name") if kind == ARTIFACT else kind
    if not isinstance(name, str) or (kind == ARTIFACT and name not in _ARTIFACTS):
        return None
    return (
        kind,
        name,
        _compile_id(record),
        _integer(record.get("attempt"), 0),
        _integer(record.get("rank"), -1),
        metadata,
    )


def _compile_id(record: Mapping[str, Any]) -> str:
    """As torch prints a `CompileId`."""
    autograd, frame, compilation = (
        _integer(record.get(key), -1) for key in ("compiled_autograd_id", "frame_id", "frame_compile_id")
    )
    text = f"{frame}/{compilation}" if frame >= 0 and compilation >= 0 else ""
    return "/".join(filter(None, (f"!{autograd}", text))) if autograd >= 0 else text


def _integer(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62 else otherwise


def first_line(text: str) -> str:
    """The first line of a text, shortened."""
    return text.strip().partition("\n")[0].strip()[:_MAX_LINE_CHARACTERS]


NOTHING_COMPILED: Final = Note("NOTHING_COMPILED", "Nothing that torch.compile made was recorded.")
"""Says that there is neither compiled code nor a log of it."""


def no_log(consequence: str) -> Note:
    """The note that torch's structured log is not there, and what follows."""
    remedy = "kinetoscope record keeps it; TORCH_TRACE=FOLDER and --compile FOLDER give it"
    return Note("NO_COMPILE_LOG", f"Torch's structured log is not there ({remedy}): {consequence}.")
