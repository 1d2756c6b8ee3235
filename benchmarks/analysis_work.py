"""Each analysis of a tool on a trace that it has loaded, run by the Python of that tool's own environment.

    python analysis_work.py TOOL TRACE REPEAT

Prints a line of JSON for each: its name, and the least seconds of REPEAT samples, or the error. On one core.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MARK = "@@ "  # before each such line: tools print as they like

Call = Callable[[], object]
Named = tuple[str, Call, Call]
"""A name, what is done before each sample, and what is measured."""


def nothing() -> None:
    """Where a sample needs no preparation."""


def kinetoscope(path: str) -> Iterator[Named]:
    """Ours. Before each sample everything that the trace has derived is forgotten: a first answer is measured."""
    import kinetoscope as ours
    from kinetoscope.model.execution.call_tree import call_tree
    from kinetoscope.model.execution.device_work import device_work
    from kinetoscope.model.steps.steps import steps

    job = ours.read(path, jobs=1)
    trace = job.trace()

    def shared() -> None:
        call_tree(trace)
        device_work(trace)
        steps(trace, None)

    yield "events", nothing, lambda: len(trace)
    shared()
    trace.forget()
    yield "(call tree, links, steps)", trace.forget, shared
    for analysis in ours.ANALYSES:
        yield analysis.name, trace.forget, lambda analysis=analysis: analysis(job)  # type: ignore[misc]


def hta(path: str) -> Iterator[Named]:
    """Holistic Trace Analysis: what answers the same questions. Charts are not drawn where that can be said."""
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found, unused-ignore]

    analysis = TraceAnalysis(trace_files={0: path})
    operator = "aten::linear"
    folder = tempfile.mkdtemp()
    yield "get_temporal_breakdown", nothing, lambda: analysis.get_temporal_breakdown(visualize=False)
    yield "get_gpu_kernel_breakdown", nothing, lambda: analysis.get_gpu_kernel_breakdown(visualize=False)
    yield "get_idle_time_breakdown", nothing, lambda: analysis.get_idle_time_breakdown(visualize=False)
    yield "get_comm_comp_overlap", nothing, lambda: analysis.get_comm_comp_overlap(visualize=False)
    yield "get_queue_length_summary", nothing, analysis.get_queue_length_summary
    yield "get_queue_length_time_series", nothing, analysis.get_queue_length_time_series
    yield "get_memory_bw_summary", nothing, analysis.get_memory_bw_summary
    yield "get_memory_bw_time_series", nothing, analysis.get_memory_bw_time_series
    yield (
        "get_cuda_kernel_launch_stats",
        nothing,
        lambda: analysis.get_cuda_kernel_launch_stats(visualize=False, include_memory_events=True),
    )
    yield (
        "get_gpu_user_annotation_breakdown",
        nothing,
        lambda: analysis.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False),
    )
    yield (
        "get_gpu_kernels_with_user_annotations",
        nothing,
        lambda: analysis.get_gpu_kernels_with_user_annotations(0),
    )
    yield "critical_path_analysis", nothing, lambda: analysis.critical_path_analysis(0, "ProfilerStep", 1)
    yield (
        "get_frequent_cuda_kernel_sequences",
        nothing,
        lambda: analysis.get_frequent_cuda_kernel_sequences(
            operator_name=operator, output_dir=folder, min_pattern_len=1, visualize=False
        ),
    )
    yield "get_aten_op_kernels_and_delay", nothing, lambda: _quiet(analysis.get_aten_op_kernels_and_delay)


def tb_profiler(path: str) -> Iterator[Named]:
    """The TensorBoard plugin: all tables of all its views, which it makes together."""
    from torch_tb_profiler.profiler.data import RunProfileData  # type: ignore[import-not-found, unused-ignore]
    from torch_tb_profiler.profiler.run_generator import RunGenerator  # type: ignore[import-not-found, unused-ignore]

    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker", 1, path, cache)
        yield "all its tables", nothing, lambda: RunGenerator("worker", 1, data).generate_run_profile()


def _quiet(call: Call) -> None:
    """Without the chart that HTA draws whatever it is told."""
    import plotly.io  # type: ignore[import-not-found, import-untyped, unused-ignore]

    plotly.io.renderers.default = "json"
    call()


TOOLS: dict[str, Callable[[str], Iterator[Named]]] = {
    "hta": hta,
    "tb_profiler": tb_profiler,
    "kinetoscope": kinetoscope,
}


def main(tool: str, path: str, repeat: str) -> None:
    """Prints as it measures."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name, before, call in TOOLS[tool](path):
        said: dict[str, object] = {"name": name}
        try:
            samples = []
            for _ in range(int(repeat)):
                before()
                begin = time.perf_counter()
                answer = call()
                samples.append(time.perf_counter() - begin)
                if sum(samples) > 30:
                    break
            said["seconds"] = min(samples)
            if isinstance(answer, int):
                said["count"] = answer
        except Exception as error:  # noqa: BLE001 - whatever a peer raises stands in the table
            said["error"] = f"{type(error).__name__}: {error}"[:160]
        print(f"\n{MARK}{json.dumps(said)}", flush=True)


if __name__ == "__main__":
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    main(*sys.argv[1:])
