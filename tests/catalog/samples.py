"""Where real traces lie: those that come with the project, and larger ones beside a checkout, which may be absent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from kinetoscope import ANALYSES, Job, Result, read
from kinetoscope.advisor.advice import Advice, advise
from tests import conftest

ROOT, BUNDLED, SHARED = conftest.ROOT, conftest.OURS, conftest.SHARED
GOLDEN = SHARED.parent / "golden"

NO_TRACES = ("execution_trace/benchmark_simple_add_et.json.gz", "memory_timeline/memory_timeline.raw.gz")
"""Files among the shared ones that are something else."""

QUICK = (
    *("mlp", "no_steps", "name_quote"),
    *(
        "alexnet_a100/",
        "broken/metajson_invalid.plain.cpp",
        "cpu_only/",
        "critical_path/cuda_event_sync/",
        "mi250_train/",
    ),
    *("dlrm_ddp_v100_8rank/worker0", "torch_2_13_cpu/mlp_default"),
)
"""How the names of those begin that `make test` asks about: a small one of each maker and era."""

ALIKE = (
    *(f"broken/meta_{what}.stack" for what in ("backslash", "key_quote", "newline", "quote")),
    *("broken/metajson_escaped.stack", "broken/meta_newline.plain.py"),
    *(f"dlrm_ddp_v100_8rank/worker{rank}" for rank in (2, 4, 5, 6, 7)),
    *("torch_2_13_cpu/ddp4_rank1", "torch_2_13_cpu/ddp4_rank2", "trace_diff/test"),
    *("resnet50_v100/num_workers_0/worker0.1623143566756", "resnet50_v100/num_workers_4/worker0.1623213129365"),
    "samples/serving/vllm_prefilldecode_piecewise/capture_traces/graph_capture_rank_0.1773709742341309550",
)
"""How the names of those begin about which nothing is asked here: another rank, cycle or run of a job that is among the
others, the same file again, or the same program with the same quote in its metadata. Tests of reading, of several ranks
and of two runs have them.
"""

ERAS = (
    BUNDLED / "mlp.pt.trace.json.gz",
    SHARED / "resnet50_v100" / "num_workers_0" / "worker0.1623143089861.pt.trace.json.gz",
    SHARED / "alexnet_a100" / "benchmark_result_2869224_1695835535_trace.json.gz",
    SHARED / "ddp_nccl_a100" / "nccl_data.json.gz",
    SHARED / "resnet_ddp_mi300" / "resnet_act_checkpoint.json.gz",
)
"""Of 2021, 2023, 2024, 2025 and now; two makers; with and without devices."""

_SUFFIXES = (".trace.json.gz", ".trace.json", ".json.gz", ".json")


def bundled() -> list[Path]:
    """The traces that come with the project, the one of the demo included."""
    return [*sorted(BUNDLED.rglob("*.pt.trace.json.gz")), conftest.DEMO]


def shared() -> list[Path]:
    """The traces beside the checkout; none where they are absent."""
    found = [path for path in sorted(SHARED.rglob("*")) if path.name.endswith(_SUFFIXES)]
    return [path for path in found if path.relative_to(SHARED).as_posix() not in NO_TRACES]


def everywhere() -> list[ParameterSet]:
    """All of them, for `parametrize`; one that is skipped stands for the shared ones where they are absent.

    Those that `make test` leaves out are marked. What is asked about one trace is asked in one process, which reads it
    once (`job_of`), as xdist keeps a group together.
    """
    near = [_sample(path, path.name.partition(".")[0]) for path in bundled()]
    far = _samples((path, path.relative_to(SHARED).as_posix()) for path in shared())
    absent = pytest.param(None, id="shared", marks=pytest.mark.skip(reason=f"no {SHARED}"))
    return [*near, *(far or [absent])]


def _samples(named: Iterable[tuple[Path, str]]) -> list[ParameterSet]:
    return [_sample(path, name) for path, name in named if not name.startswith(ALIKE)]


def _sample(path: Path, name: str) -> ParameterSet:
    slow = () if name.startswith(QUICK) else (pytest.mark.slow,)
    return pytest.param(path, id=name, marks=(pytest.mark.xdist_group(f"trace {name}"), *slow))


def samples() -> list[ParameterSet]:
    """Runs of serving engines, captures of graphs, and memory snapshots beside the checkout, for `parametrize`."""
    folder = SHARED.parent / "samples"
    paths = sorted([*(folder / "serving").rglob("*.json.gz"), *(folder / "memory").glob("*.pickle")])
    absent = pytest.param(None, id="samples", marks=pytest.mark.skip(reason=f"no {folder}"))
    return _samples((path, f"samples/{path.relative_to(folder).as_posix()}") for path in paths) or [absent]


@lru_cache(maxsize=2)
def job_of(path: Path) -> Job:
    """A trace as a job of one rank; the last ones are kept, with all that was derived from them."""
    return read(path, jobs=1)


@lru_cache(maxsize=2)
def advice_of(path: Path) -> Advice:
    """What is advised about `job_of` a trace."""
    return advise(job_of(path))


@lru_cache(maxsize=2)
def answers_of(path: Path) -> dict[str, Result]:
    """What each analysis answers about `job_of` a trace where nothing is selected."""
    return {analysis.name: analysis(job_of(path)) for analysis in ANALYSES}


def required(path: Path) -> Path:
    """The path, if it is there; else the test is skipped, with the reason."""
    if not path.exists():
        pytest.skip(f"no {path}")
    return path
