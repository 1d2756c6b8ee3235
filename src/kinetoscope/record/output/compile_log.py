"""Torch's structured log of torch.compile in the folder of a run: why and how long it compiles, where graphs break.

Torch writes it for those who set TORCH_TRACE, without a limit. Here the records that our analyses read are kept, in
torch's own format, up to a number of bytes; whatever goes wrong ends the log and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

from kinetoscope.record.output.guards import described, tell
from kinetoscope.record.session.options import rank_identity

FOLDER: Final = "compile"
"""The folder in that of the run."""

_LOGGER: Final = "torch.__trace"
_METRICS: Final = "compilation_metrics"
_FACTS: Final = frozenset(
    (
        _METRICS,
        f"bwd_{_METRICS}",
        f"{_METRICS}_runtime",
        f"bwd_{_METRICS}_runtime",
        "dynamo_error",
        "dynamo_graph_break_reason",
        "fx_graph_cache_bypass",
        "fx_graph_cache_hit",
        "fx_graph_cache_miss",
        "recompile_reasons",
        "torch_version",
    )
)
"""Short records, which are kept as long as there is room."""

_GRAPHS: Final = frozenset(
    (
        "dynamo_output_graph",
        "inductor_output_code",
        "inductor_post_grad_graph",
        "inductor_provenance_tracking_kernel_stack_traces",
        "inductor_provenance_tracking_node_mappings",
    )
)
"""Records with graphs and code: longer ones are left out, and all once most of the room is taken."""

_MAX_BYTES: Final = 64 << 20
_MAX_BYTES_WITH_GRAPHS: Final = 48 << 20
_MAX_RECORD_BYTES: Final = 4 << 20

_lock = threading.Lock()
_kept: dict[str, CompileLog] = {}


def keep(folder: str) -> None:
    """Keep the log of this process in the folder of a run from now on; one folder may be named several times."""
    if "://" in folder:  # a store takes whole files only
        return
    with _lock:
        log = _kept.get(folder)
        if log is None:
            log = _kept[folder] = CompileLog(folder)
            # Before torch's own, which takes itself out while the list is being walked.
            logging.getLogger(_LOGGER).handlers.insert(0, log)
            log.catch_up()
        log.users += 1


def leave(folder: str) -> None:
    """Whoever named the folder needs the log no longer."""
    with _lock:
        log = _kept.get(folder)
        if log is not None:
            log.users -= 1
            if not log.users:
                _kept.pop(folder).end()


class CompileLog(logging.Handler):
    """A handler of torch's logger; the file is made with the first record.

    Attributes:
        users: how many named its folder.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.users = 0
        self._folder = Path(folder) / FOLDER
        self._file: IO[str] | None = None
        self._pid = 0
        self._bytes = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, if it is of a kind that is kept."""
        try:
            metadata: Mapping[str, Any] = record.metadata  # type: ignore[attr-defined] # torch's
            kind = next(iter(metadata))
            name = metadata[kind].get("name") if kind == "artifact" else kind
            if name not in _FACTS and name not in _GRAPHS:
                return
            payload: str = record.payload or ""  # type: ignore[attr-defined] # torch's
            self._write(kind, name, metadata, payload, f"{record.pathname}:{record.lineno}")
        except Exception as error:  # noqa: BLE001 - compiling goes on, whatever happens here
            self.end()
            tell(f"what torch.compile does is not kept any longer: {described(error)}")

    def catch_up(self) -> None:
        """Write the metrics that torch still has of what it compiled before."""
        utils = sys.modules.get("torch._dynamo.utils")
        try:
            known = utils.get_compilation_metrics() if utils is not None else ()
            for each in known:
                metrics = {
                    key: sorted(map(str, value)) if isinstance(value, set) else value
                    for key, value in vars(each).items()
                }
                kind = ("bwd_" if metrics.get("is_forward") is False else "") + _METRICS
                kind += "_runtime" if metrics.get("is_runtime") is True else ""
                ids = str(metrics.get("compile_id")).split("/")
                place = dict(zip(("frame_id", "frame_compile_id"), map(int, ids), strict=True)) if len(ids) == 2 else {}
                self._write(kind, kind, {kind: metrics, **place}, "", "before:0")
        except Exception:  # noqa: BLE001 - torch of another version
            return

    def end(self) -> None:
        """Write no more."""
        with contextlib.suppress(ValueError):
            logging.getLogger(_LOGGER).handlers.remove(self)
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _write(self, kind: str, name: str, metadata: Mapping[str, Any], payload: str, source: str) -> None:
        if name.endswith((_METRICS, "_runtime")):  # without what torch was configured with
            short = {key: value for key, value in metadata[kind].items() if not key.endswith("_config")}
            metadata = {**metadata, kind: short}
        elif name.startswith("fx_graph_cache"):  # without the graph that was looked up
            facts = json.loads(payload) if len(payload) < _MAX_RECORD_BYTES else {}
            payload = json.dumps({key: value for key, value in facts.items() if key != "components"})
        now = time.time_ns()
        when = time.strftime("%m%d %H:%M:%S", time.localtime(now // 1_000_000_000))
        head = (
            f"V{when}.{now % 1_000_000_000 // 1000:06d} {os.getpid()} {source}] {json.dumps(metadata, default=repr)}\n"
        )
        text = head + "".join(f"\t{line}\n" for line in payload.split("\n") if payload)
        if name in _GRAPHS and (len(text) > _MAX_RECORD_BYTES or self._bytes + len(text) > _MAX_BYTES_WITH_GRAPHS):
            return
        if self._bytes + len(text) > _MAX_BYTES:
            self.end()
            return
        self._opened().write(text)
        self._bytes += len(text)

    def _opened(self) -> IO[str]:
        """The file of this process; a child of fork has one of its own."""
        if self._file is None or self._pid != os.getpid():
            where = rank_identity()
            name = f"dedicated_log_torch_trace_rank_{where.rank}_{where.host}_{where.pid}.log"
            self._folder.mkdir(parents=True, exist_ok=True)
            # Line by line, so that nothing is lost with the process, and nothing of the parent's is in the child's.
            self._file = (self._folder / name).open("a", encoding="utf-8", errors="replace", buffering=1)
            self._pid, self._bytes = where.pid, self._file.tell()
        return self._file
