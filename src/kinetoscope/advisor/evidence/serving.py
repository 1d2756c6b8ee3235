"""The steps of a serving engine as its rules see them, and the words for its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.advisor.rule import JobView, RankView
from kinetoscope.algorithms.arrays import Bools, Int8s, Int64s, scattered
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.serving.steps import serving_steps
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind

DECODING = ("decode", "verify", "draft")
"""Kinds of steps in which every request decodes."""

_MOSTLY_REPLAYED = 0.5
"""Share of the device time of a step from which on graphs launch it."""


GRAPH_SETTINGS: Final = {
    "vLLM": "- vllm serve MODEL --enforce-eager\n+ vllm serve MODEL",
    "SGLang": "- sglang serve --model-path MODEL --disable-cuda-graph\n+ sglang serve --model-path MODEL",
    "TensorRT-LLM": "+ cuda_graph_config: {enable_padding: true}",
    "": '+ capture a CUDA graph for each batch size, or torch.compile(model, mode="reduce-overhead")',
}
"""For an engine that captures no graphs: the lines of a diff by its name, as `setting` takes them."""


@dataclass(frozen=True)
class EngineSteps:
    """The selected steps of an engine.

    Attributes:
        frame: a row for each, with the columns of the analysis `serving_steps`.
        host: when the host was in each.
        step: int64 [work], place in `frame` of each piece of device work; −1 for none.
        share: int8 [work], place in `model.serving.shares.SHARES` of each piece of device work.
        track: the thread of the host that runs most of them.
    """

    frame: pl.DataFrame
    host: Intervals
    step: Int64s
    share: Int8s
    track: int

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def engine(self) -> str:
        """Its name; "" if nothing tells."""
        named = self.frame["engine"].drop_nulls()
        return str(named[0]) if len(named) else ""

    @property
    def decodes(self) -> Bools:
        """Steps in which every request decodes: bool [steps]."""
        return self.frame["kind"].is_in(DECODING).fill_null(False).to_numpy()

    @property
    def is_replayed(self) -> Bools:
        """Steps that graphs launch: bool [steps]."""
        return (self.frame["replayed"].fill_nan(None).fill_null(0.0) >= _MOSTLY_REPLAYED).to_numpy()

    def hosts(self, chosen: Bools) -> Intervals:
        """The time of the host in some of the steps, a union."""
        return union(self.host.start[chosen], self.host.end[chosen])

    def numbers(self, column: str) -> np.ndarray:
        """A column of counts or times: int64 [steps], 0 where nothing is known."""
        return self.frame[column].fill_null(0).to_numpy()


@derived
def engine_steps(rank: RankView) -> EngineSteps | None:
    """The selected steps of the engine; None of what does not serve, or if there is none."""
    if rank.program != "serving" or not rank.step_count:
        return None
    every = serving_steps(rank.trace, rank.select.steps_by)
    start, end = every.named.host
    chosen = np.flatnonzero(step_of(rank.scope.steps.host, start) >= 0)
    if not len(chosen):
        return None
    place = scattered(len(start) + 1, chosen, np.arange(len(chosen)), np.int64)
    track = int(np.bincount(every.named.track[chosen]).argmax())
    host = Intervals(start[chosen], end[chosen])
    return EngineSteps(every.frame[chosen.tolist()], host, place[every.step], every.share, track)


@derived
def shared_steps(job: JobView) -> pl.DataFrame:
    """Steps of a serving engine that several ranks have, with the same number and name, and collectives in them.

    Rows of `serving_steps`, with `same`: the number of each such step. Steps without names are not here.
    """
    if job.program != "serving":
        return pl.DataFrame({"same": []})
    steps = job.ask("serving_steps").frame.drop_nulls("name")
    same = pl.struct([name for name in ("cycle", "step", "name") if name in steps.columns])
    together = steps.with_columns(same=same.rank("dense"))
    several = pl.col("rank").n_unique().over("same") > 1
    return together.filter(several, pl.col("communication").max().over("same") > 0)


def slowed_by_recording(rank: RankView) -> str:
    """A sentence for what rests on the time of the host, to follow another; "" if nothing slowed it."""
    slowed = len(rank.trace.rows(EventKind.PYTHON)) > 0
    return " Python stacks were recorded, which slows the host: without them, less is at stake." if slowed else ""


def setting(engine: str, lines: Mapping[str, str]) -> str:
    """The lines of a diff for an engine; for one that has none, those under ""."""
    return lines.get(engine, lines[""])
