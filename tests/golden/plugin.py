"""The TensorBoard plugin's golden values: which files there are, what is in them, and the traces that they are of."""

from __future__ import annotations

import functools
import gzip
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from kinetoscope import Job, Trace, read
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from tests.catalog.samples import GOLDEN, SHARED

NAME: Final = "the plugin"
FOLDER: Final = GOLDEN / "tensorboard_plugin"

TRACES: Final[dict[str, str]] = {
    "resnet50_num_workers_0__worker0__span1": "resnet50_v100/num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "resnet50_num_workers_0__worker0__span2": "resnet50_v100/num_workers_0/worker0.1623143566756.pt.trace.json.gz",
    "resnet50_num_workers_4__worker0__span1": "resnet50_v100/num_workers_4/worker0.1623212756351.pt.trace.json.gz",
    "resnet50_num_workers_4__worker0__span2": "resnet50_v100/num_workers_4/worker0.1623213129365.pt.trace.json.gz",
    "edge_head/cpu_only__worker0__span1": "cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "edge_head/hta_rank_non_gpu__worker0__span1": "hostile/rank_non_gpu.json.gz",
    "edge_head/lightning__worker0__span1": "../golden/tensorboard_plugin/inputs_edge/lightning/worker0.1.pt.trace.json",
    "edge_head/ddp_oldstyle__host_0__span1": (
        "../golden/tensorboard_plugin/inputs_edge/ddp_oldstyle/host_0.1.pt.trace.json"
    ),
    "edge_head/ddp_oldstyle__host_1__span1": (
        "../golden/tensorboard_plugin/inputs_edge/ddp_oldstyle/host_1.1.pt.trace.json"
    ),
    "edge_head/cpu_only__All__span1": "cpu_only",
    "edge_head/ddp_oldstyle__All__span1": "../golden/tensorboard_plugin/inputs_edge/ddp_oldstyle",
    **{
        f"own_head/{name}__worker0__span1": f"torch_2_13_cpu/{name}.pt.trace.json.gz"
        for name in ("conv", "leak", "mlp", "mlp_default", "transformer")
    },
}
"""Where the trace of each worker and span lies, for the pages about all workers their folder."""

PARTS: Final = ("steps", "performance", "recommendations", "environments", "gpu_metrics")
"""What the overview consists of: sections of their own here."""

_FILE: Final = re.compile(r"(?P<name>.*?__span\d+)_(?P<section>.*)|(?P<run>.*)_(?P<views>views)|(?P<diff>diff\w*)")

NOT_THIS: Final[dict[str, str]] = {
    "views": "which pages a front end shows",
    "diff": "a comparison of two runs, which is no analysis of one rank",
    "diffnode": "a comparison of two runs, which is no analysis of one rank",
    "overview/recommendations": "advice, which rules give and no analysis",
}
"""Sections that no analysis answers, and why."""

HOST_CALLS: Final = "calls on the host are communication"
"""The rule of the pages about all workers."""


@functools.cache
def sections() -> tuple[tuple[str, str], ...]:
    """Name and section of all golden values."""
    found = []
    for path in sorted(FOLDER.rglob("*.json*")):
        if path.is_relative_to(FOLDER / "inputs_edge"):
            continue
        stem = path.relative_to(FOLDER).as_posix().removesuffix(".gz").removesuffix(".json")
        folder, _, file = stem.rpartition("/")
        match = _FILE.fullmatch(file)
        assert match is not None, file
        name = match["name"] or match["run"] or match["diff"]
        section = match["section"] or match["views"] or re.sub(r"\d.*|(?<=diff)\d", "", file)
        if file.startswith("diff"):
            section = "diffnode" if re.match(r"diff\d+node", file) else "diff"
        name = f"{folder}/{name}" if folder else name
        if section == "overview":
            found += [(name, f"overview/{part}") for part in json.loads(path.read_text())]
        else:
            found.append((name, section))
    return tuple(found)


@functools.lru_cache(maxsize=3)
def original(path: Path) -> Job:
    """The job as we read it."""
    return read(path, jobs=1)


@functools.lru_cache(maxsize=4)
def content(path: Path) -> Any:
    """What a golden file holds."""
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def host_calls(trace: Trace) -> Intervals:
    """Calls on the host that start communication on the device."""
    rows = np.flatnonzero(rows_named(trace, lambda name: name.startswith("nccl:"), EventKind.HOST_OP))
    return union(trace.start[rows], trace.end[rows])


@dataclass(frozen=True)
class Case:
    """A section of the golden values of one worker and span."""

    name: str
    section: str

    error: None = None

    @property
    def golden(self) -> Any:
        """The plugin's answer."""
        file, _, part = self.section.partition("/")
        path = FOLDER / f"{self.name}_{file}.json"
        found = content(path if path.exists() else path.with_name(path.name + ".gz"))
        return found[part] if part else found

    @property
    def path(self) -> Path:
        """Where the trace lies."""
        return SHARED / TRACES[self.name]

    @property
    def job(self) -> Job:
        """The trace."""
        return original(self.path)

    @property
    def workers(self) -> dict[str, int]:
        """The rank of each worker of a page about all of them: both are in order."""
        names = sorted(next(iter(content(FOLDER / f"{self.name}_dist_overlap.json")["data"].values())))
        return dict(zip(names, self.job.ranks, strict=True))

    @property
    def in_doubles(self) -> bool:
        """Have the times decimals, which the plugin rounds as it adds them up?"""
        return not self.name.startswith(("resnet50", "edge_head/lightning", "edge_head/ddp", "edge_head/hta"))
