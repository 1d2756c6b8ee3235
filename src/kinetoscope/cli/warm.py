"""`kinetoscope warm`: compile everything now, so that no later run waits for the compiler.

Run it when a container image is built. Compiled code is kept beside the package, or in NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from kinetoscope.cli.shared.options import Parser
from kinetoscope.cli.shared.progress import Meter, shown

_REPEATS = 6_000  # text for two threads, and strings, shapes and tracks enough for each table of the reader to grow


def run(arguments: list[str]) -> int:
    """Ask everything of a small trace that has a bit of everything: a function is compiled at its first call."""
    import sys

    Parser(prog="kinetoscope warm", description=__doc__).parse_args(arguments)
    begin = time.perf_counter()
    meter = Meter()
    with shown(meter):
        compile_all(meter)
    seconds = time.perf_counter() - begin
    sys.stdout.write(
        f"{meter.count} functions compiled in {seconds:.1f} s.\n" if meter.count else "All was compiled.\n"
    )
    return 0


def compile_all(meter: Meter, between: Callable[[], None] = lambda: None) -> None:
    """Use everything once. `between` is called before each thing, and may wait."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.json"
        path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": list(_events())}))
        _use(path, meter, between)


def _use(path: Path, meter: Meter, between: Callable[[], None]) -> None:
    from kinetoscope.analyses import ANALYSES
    from kinetoscope.model.tables.tables import TABLES, table
    from kinetoscope.reading import read
    from kinetoscope.server.timeline.lanes import named
    from kinetoscope.server.timeline.tile import tile

    for jobs in (1, 2):  # one thread parses, then two, whose tables are joined
        job = read(path, jobs=jobs, progress=meter)
        for analysis in ANALYSES:
            between()
            analysis(job)
        for name in TABLES:
            table(job.trace(), name)
        between()
        tile(job.trace(), 10, 0, *named(job.trace(), None))
    few = path.with_name("few.json")
    few.write_text(json.dumps(list(islice(_events(), 20))))
    _convert(few, meter)


def _convert(path: Path, meter: Meter) -> None:
    """Write and read the other forms."""
    from kinetoscope.reading import read
    from kinetoscope.views.exports import perfetto, trace_parquet

    trace = read(path, progress=meter).trace()
    perfetto.write(trace, path.with_name("few.perfetto.json"))
    trace_parquet.write(trace, path.with_name("few"))
    read(path.with_name("few"), progress=meter).trace()


def _events() -> Iterator[dict[str, Any]]:
    """Steps with nested operators, Python calls, launches, device work of each kind, memory events and links."""
    for step in range(_REPEATS):
        at, link, thread = step * 100.0, step * 3, 1 + step % 300
        yield _span("user_annotation", f"ProfilerStep#{step}", at, 99.5, 1)
        yield _span("python_function", f"train.py({step}): step", at, 90, 1, {"Python id": step})
        yield _span("cpu_op", "aten::mm", at + 1, 40, thread, {"External id": step, f"key {step % 900}": step / 7})
        yield _span("cpu_op", f"aten::inner{step}", at + 2, 20.123, thread, {"Input Dims": [[2, step]]})
        for number, (category, name) in enumerate(_WORK):
            yield _span("cuda_runtime", "cudaLaunchKernel", at + 3 + number, 0.5, 1, {"correlation": link + number})
            where = {"device": 0, "stream": 7 + number, "correlation": link + number, "grid": [1, 1, 1]}
            yield _span(category, name, at + 5 + 4 * number, 5, 7 + number, where, pid=0)
        ends = {"cat": "ac2g", "name": "ac2g", "id": link}
        yield {"ph": "s", "pid": 9, "tid": 1, "ts": at + 3, **ends}
        yield {"ph": "f", "pid": 0, "tid": 7, "ts": at + 5, **ends, "bp": "e"}
        memory = {"Total Allocated": step, "Bytes": 512, "Addr": step, "Device Id": 0, "Device Type": 1}
        instant = {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]"}
        yield {**instant, "pid": 9, "tid": 1, "ts": at, "args": memory}


_WORK = (
    ("kernel", "gemm"),
    ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
)

_Args = dict[str, Any]


def _span(
    category: str, name: str, start: float, length: float, tid: int, args: _Args | None = None, *, pid: int = 9
) -> _Args:
    event = {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": length}
    return {**event, "args": args or {}}
