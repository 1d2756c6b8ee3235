"""The calls of all ranks as arrays, for matching."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.alignment.sequence_alignment import Witness
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.collectives.attributes import BINDING, GATHERS, POINT_TO_POINT, UNEVEN_KINDS
from kinetoscope.model.trace import polars_columns

_MIN_USUAL_SHARE: Final = 0.75
"""Share of ranks with the usual number of like calls, where recordings have no gaps."""

_MIN_LAUNCHED_SHARE: Final = 0.95
"""Share of the work with a recorded launch, from the first such on, where recordings have no gaps."""


@dataclass(frozen=True)
class CallArrays:
    """The columns that matching needs, int64 or bool [calls]; codes are numbers of distinct values."""

    rank: Int64s
    clock: Int64s
    number: Int64s
    start: Int64s
    end: Int64s
    group: Int64s
    signature: Int64s
    kind: Int64s
    seq: Int64s
    source: Int64s
    destination: Int64s
    world: int
    recorded: Bools
    binding: Bools
    single: Bools
    sends: Bools
    on_host: Bools
    other: Bools
    sized: Bools
    step: Int64s
    facts: pl.DataFrame

    @cached_property
    def gaps(self) -> bool:
        """True if recordings are known to lack calls in their midst."""
        return _has_gaps(self.facts)

    @cached_property
    def unlaunched(self) -> Bools:
        """Calls that were launched before the recording began: their arguments are unknown."""
        missing = ~(self.facts["launched"] | self.facts["on_host"]).to_numpy() & ~self.recorded
        in_minority = not self.gaps and 2 * missing.sum() < len(missing)
        return np.asarray(missing & in_minority)

    @cached_property
    def stream(self) -> Int64s:
        """The stream of each call, with its device."""
        device, stream = (polars_columns.integers(self.facts[each].fill_null(-1))[0] for each in ("device", "stream"))
        return group(device, stream)[0].astype(np.int64) if len(stream) else stream

    @classmethod
    def of(cls, frame: pl.DataFrame) -> CallArrays:
        """The arrays of calls that are sorted by rank and start."""
        uneven = pl.col("kind").is_in(UNEVEN_KINDS)
        # What comes out of a gather is not recorded where the group is not.
        gathers = pl.col("kind").is_in(GATHERS) & pl.col("candidates").is_not_null()
        sent = pl.coalesce("elements_in", "elements_out")
        size = pl.when(~uneven).then(pl.when(gathers).then(sent).otherwise("bytes"))
        name = pl.when(size.is_null() & ~uneven & (pl.col("kind") != "barrier")).then(pl.col("name"))
        facts = frame.select(
            rank=pl.col("rank").rank("dense") - 1,
            clock=pl.coalesce("host", pl.format("\n{}", "rank")).rank("dense") - 1,
            group=_code("group"),
            signature=pl.struct("kind", "dtype", size.alias("size"), name.alias("name"), "on_host").rank("dense"),
            kind=_code("kind"),
            recorded=pl.col("candidates").is_null() & pl.col("group").is_not_null(),
            binding=pl.col("kind").is_in(BINDING),
            single=pl.col("kind").is_in(POINT_TO_POINT),
            sends=pl.col("kind") == "send",
            on_host=pl.col("on_host"),
            one=pl.col("source_rank"),
            two=pl.col("destination_rank"),
            launched=pl.col("launch").is_not_null(),
            other=pl.col("kind") == "other",
            sized=sent.is_not_null() | (pl.col("kind") == "barrier"),
            candidates=pl.col("candidates"),
            device=pl.col("device"),
            stream=pl.col("stream"),
            cycle=pl.col("cycle") if "cycle" in frame.columns else pl.lit(0, pl.Int64),
            step=pl.col("profiler_step") if "profiler_step" in frame.columns else pl.lit(None, pl.Int64),
        )
        numbers: dict[str, Any] = {
            name: polars_columns.integers(frame[column].fill_null(-1))[0]
            for name, column in (
                ("number", "rank"), ("start", "start"), ("end", "end"), ("seq", "seq"),
                ("source", "source_rank"), ("destination", "destination_rank"),
            )
        }  # fmt: skip
        flags: dict[str, Any] = {
            each: facts[each].to_numpy()
            for each in ("recorded", "binding", "single", "sends", "on_host", "other", "sized")
        }
        codes: dict[str, Any] = {
            each: polars_columns.integers(facts[each])[0] for each in ("rank", "clock", "group", "signature", "kind")
        }
        world: Any = frame["world"].max()
        step = polars_columns.integers(facts["step"].fill_null(-1))[0]
        return cls(**codes, **numbers, **flags, world=world or 0, step=step, facts=facts)

    def witness(self, rows: Int64s) -> Witness:
        """These calls of one rank, to be aligned with those of another."""
        return Witness(
            self.start[rows], self.end[rows], self.signature[rows], self.binding[rows], self.step[rows],
            self.unlaunched[rows],
        )  # fmt: skip


def _has_gaps(facts: pl.DataFrame) -> bool:
    """True if calls are missing in the midst of recordings: some files hold a random part of the events.

    Then work has lost its launches, or ranks of a group have different numbers of like calls. What was launched before
    a recording began comes first on its stream; and ranks whose recordings begin or end a step later lack whole steps.
    """
    since = facts.filter(~pl.col("on_host"))
    since = since.filter(pl.col("launched").cum_sum().over("rank", "cycle", "device", "stream") > 0)
    if len(since) and since["launched"].mean() < _MIN_LAUNCHED_SHARE:  # type: ignore[operator]
        return True
    peers = (
        pl.when("single").then(pl.min_horizontal("one", "two")),
        pl.when("single").then(pl.max_horizontal("one", "two")),
    )
    comparable = pl.col("binding") | (pl.col("single") & pl.col("one").is_not_null() & pl.col("two").is_not_null())
    signature = pl.when(pl.col("binding")).then("signature")  # a send is one side's, its receipt the other's
    keys: dict[str, Any] = {"group": "group", "signature": signature, "low": peers[0], "high": peers[1], "step": "step"}
    like = facts.filter(comparable).group_by(**keys, rank="rank").agg(pl.len())
    like = like.with_columns(usual=pl.col("len").mode().max().over(*keys))
    like = like.filter(pl.len().over(*keys) > 1)
    return len(like) > 0 and like.filter(pl.col("len") == pl.col("usual")).height < _MIN_USUAL_SHARE * len(like)


def _code(column: str) -> pl.Expr:
    return pl.col(column).rank("dense").fill_null(0).cast(pl.Int64)
