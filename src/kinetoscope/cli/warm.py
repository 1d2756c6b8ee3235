"""`kinetoscope warm`: compile everything now, so that no later run waits for the compiler.

Run it when a container image is built. Compiled code is kept beside the package, or in NUMBA_CACHE_DIR.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinetoscope.cli.shared.options import Parser
from kinetoscope.cli.shared.progress import Meter, shown

if TYPE_CHECKING:
    from kinetoscope.model.job import Job

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
    from kinetoscope.model.tables.tables import TABLES, table
    from kinetoscope.reading import read
    from kinetoscope.server.timeline.lanes import named
    from kinetoscope.server.timeline.tile import tile

    for jobs in (1, 2):  # one thread parses, then two, whose tables are joined
        job = read(path, jobs=jobs, progress=meter)
        _ask(job, between)
        for name in TABLES:
            table(job.trace(), name)
        between()
        tile(job.trace(), 10, 0, *named(job.trace(), None))
    snapshot = path.with_name("snapshot.json")
    snapshot.write_text(json.dumps(_snapshot()))
    with resources.as_file(resources.files("kinetoscope") / "demo" / "training.pt.trace.json.gz") as real:
        for each in (snapshot, _ranks(path.with_name("ranks")), real):
            _ask(read(each, jobs=1, progress=meter), between)
    small = path.with_name("few.json")
    small.write_text(json.dumps(list(islice(_events(), 20))))
    _convert(small, meter)


def _ask(job: Job, between: Callable[[], None]) -> None:
    from kinetoscope.advisor.advice import advise
    from kinetoscope.analyses import ANALYSES

    for analysis in ANALYSES:
        between()
        analysis(job)
    between()
    advise(job)


def _ranks(folder: Path) -> Path:
    """Two ranks of a job, the second of which comes later to each collective."""
    folder.mkdir()
    for rank in range(2):
        events = [{**each, "ts": each["ts"] + rank * (each["ts"] % 7)} for each in islice(_events(), _RANK_EVENTS)]
        about = {"rank": rank, "world_size": 2, "backend": "nccl"}
        document = {"schemaVersion": 1, "distributedInfo": about, "traceEvents": events}
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    return folder


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


def _snapshot() -> dict[str, Any]:
    """A memory snapshot: requests that come and go in a segment of each pool, and one that failed."""
    frames = [{"name": 'operator"" _x', "filename": "train.py", "line": 1}]  # what has to be escaped
    taken = [1 << 40, (1 << 41) + (1 << 20)]
    history = [
        {"action": action, "addr": taken[place], "size": size, "stream": 0, "time_us": time, "frames": frames}
        for time, (action, place, size) in enumerate(
            (action, place, size)
            for _ in range(_SNAPSHOT_STEPS)
            for place, size in enumerate((512, 3 << 20))
            for action in ("alloc", "free_requested", "free_completed")
        )
    ]
    failed = {"action": "oom", "device_free": 1 << 20, "size": 1 << 30, "stream": 0, "time_us": len(history)}
    sizes = {"allocated_size": 0, "active_size": 0, "requested_size": 0}
    segments = [
        {
            "device": 0,
            "address": 1 << power,
            "total_size": size,
            "stream": 0,
            "segment_type": kind,
            **sizes,
            "blocks": [{"address": 1 << power, "size": size, "requested_size": 0, "state": "inactive"}],
        }
        for power, size, kind in ((40, 2 << 20, "small"), (41, 20 << 20, "large"))
    ]
    return {"segments": segments, "device_traces": [[*history, failed]]}


_SNAPSHOT_STEPS = 8
_RANK_EVENTS = 200

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
