"""What is measured of each tool, run by the Python of that tool's own environment: only the standard library here.

    python peer_work.py TOOL TRACE [again]

Prints a line of JSON after each stage: what was done, and the seconds of wall and processor time that it took. With
`again` everything is done twice, and the stages of the second time say so: modules are imported then, and what is
compiled is loaded.
"""

import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

MARK = "@@ "  # before each such line: tools print as they like

# A tool yields what it has just done; the clock is read between.
Stages = Iterator[str]


def json_load(path: str) -> Stages:
    """Not a tool: what any tool pays that takes Python's dicts for a trace."""
    trace = json.loads(_text(path), strict=False)
    yield "load"
    assert trace


def orjson_load(path: str) -> Stages:
    """The same with the fastest parser that makes dicts; it refuses some of what torch writes."""
    import orjson  # type: ignore[import-not-found, unused-ignore]

    yield "import"
    trace = orjson.loads(_text(path))
    yield "load"
    assert trace


def _text(path: str) -> bytes:
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        return bytes(file.read())


def hta(path: str) -> Stages:
    """Holistic Trace Analysis: the rank is 0, and no chart is drawn."""
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found, unused-ignore]

    yield "import"
    analysis = TraceAnalysis(trace_files={0: path})
    yield "load"
    assert len(analysis.get_temporal_breakdown(visualize=False)) == 1
    yield "breakdown"


def hta_iterative(path: str) -> Stages:
    """The same with the parser that HTA recommends for large files; it leaves calls of Python functions out."""
    from hta.common.trace_parser import set_default_trace_parsing_backend  # type: ignore[import-not-found, unused-ignore]
    from hta.configs.parser_config import ParserBackend  # type: ignore[import-not-found, unused-ignore]

    set_default_trace_parsing_backend(ParserBackend.IJSON_BATCH_AND_COMPRESS)
    yield from hta(path)


def tb_profiler(path: str) -> Stages:
    """The TensorBoard plugin: what it does with a file before the first page is shown, without its server."""
    from torch_tb_profiler.profiler.data import RunProfileData  # type: ignore[import-not-found, unused-ignore]
    from torch_tb_profiler.profiler.run_generator import RunGenerator  # type: ignore[import-not-found, unused-ignore]

    yield "import"
    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker", 1, path, cache)
        yield "load"
        RunGenerator("worker", 1, data).generate_run_profile()
        yield "breakdown"


def tracelens(path: str) -> Stages:
    """TraceLens: its GPU timeline, the smallest of its tables."""
    from TraceLens import TreePerfAnalyzer  # type: ignore[import-not-found, unused-ignore]

    yield "import"
    analyzer = TreePerfAnalyzer.from_file(profile_filepath=path)
    yield "load"
    assert len(analyzer.get_df_gpu_timeline()) > 0
    yield "breakdown"


def kinetoscope(path: str) -> Stages:
    """Ours."""
    import kinetoscope as ours

    yield "import"
    job = ours.read(path)
    job.trace(0)
    yield "load"
    ours.step_breakdown(job)
    yield "breakdown"


TOOLS: dict[str, Callable[[str], Stages]] = {
    "json": json_load,
    "orjson": orjson_load,
    "hta": hta,
    "hta_iterative": hta_iterative,
    "tb_profiler": tb_profiler,
    "tracelens": tracelens,
    "kinetoscope": kinetoscope,
}


def main(tool: str, path: str, *again: str) -> None:
    for prefix in ("", "again ") if again else ("",):
        wall, cpu = time.perf_counter(), time.process_time()
        for stage in TOOLS[tool](path):
            took = {"stage": prefix + stage, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
            print(f"\n{MARK}{json.dumps(took)}", flush=True)
            wall, cpu = time.perf_counter(), time.process_time()


if __name__ == "__main__":
    main(*sys.argv[1:])
