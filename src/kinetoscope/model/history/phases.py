"""Phases of a run: what its marks name, by what it is for, and how long each takes.

Frameworks for reinforcement learning time the same parts of an iteration under names of their own; a name that is not
known is a phase of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.history.run_series import RunSeries, who
from kinetoscope.model.history.shifts import Shift, around
from kinetoscope.model.history.tables import PHASES

_QUARTER_OF_TIMES: Final = 0.25
"""Share of a phase's occurrences, at either end, that are compared."""

_MOST_NAMES: Final = 5
"""Names of a phase that its row has."""

_LEAST_COMPARED: Final = 8
"""Occurrences from which on they are."""

_NAMES: Final = {
    "waiting for data": "wait_for_enough_samples wait_for_training_batch wait_for_batch train_wait buffer_starvation"
    " data_wait",
    "generation": "gen generate generation rollout rollouts generate_sequences generate_async exposed_generation"
    " generate_batch vllm_generate sglang_generate rollout_collection collect_rollouts",
    "tools": "tool_calls tools environment env env_step",
    "reward": "reward rewards reward_calculation compute_score calculate_rewards",
    "log-probabilities": "old_log_prob log_probs log_prob logprob_inference_prep policy_and_reference_logprobs"
    " get_per_token_logps get_per_token_logps_and_entropies compute_logprobs",
    "reference": "ref ref_log_probs ref_log_prob reference",
    "values": "values value value_inference",
    "advantages": "adv advantage advantages advantage_calculation",
    "update": "update_actor update_critic actor_train policy_training value_training train ppo_train forward_backward"
    " update_policy optim",
    "weight transfer": "update_weights param_sync sync_rollout_weights weight_sync transfer_and_update_weights"
    " sync_weights refit broadcast ref_model_update",
    "offload and restore": "sleep wake_up offload_before_refit prepare_for_generation offload restore switch_to_trainer"
    " switch_to_rollout",
    "validation": "testing validation validate eval evaluation",
    "saving": "save_checkpoint save_model checkpointing save",
}
"""Names that verl, slime, NeMo-RL, OpenRLHF, TRL, Megatron and torchtitan give their timers, by what they time."""

_PHASE: Final = {name: phase for phase, names in _NAMES.items() for name in names.split()}

_TIMERS_AROUND_ALL: Final = frozenset({"step", "total_step", "step_total", "total", "iteration"})
"""Names of timers around all others: they are no phases."""

_SHARE_OF_CHANGE: Final = 0.5
"""Share of a change that a phase makes up at least to be named with it."""


def phase_of(name: str) -> str:
    """The phase that a name stands for; "" for one around all phases."""
    last = re.split(r"[/.:]", name.strip())[-1].strip("_")
    word = re.sub(r"_(time|total)$", "", re.sub(r"[\s-]+", "_", last)).lower()
    return "" if word in _TIMERS_AROUND_ALL else _PHASE.get(word, name.strip())


def phase_marks(run: RunSeries) -> pl.DataFrame:
    """Marks of phases: rank, step, phase, and time in ns."""
    marks = run.marks.filter(pl.col("kind") == "phase", pl.col("detail").is_not_null())
    names = marks["detail"].unique().to_list()
    return marks.select(
        "rank",
        "step",
        phase=pl.col("detail").replace_strict({name: phase_of(name) for name in names}, return_dtype=pl.String),
        name="detail",
        time=pl.col("end") - pl.col("start"),
    ).filter(pl.col("phase") != "", pl.col("time") >= 0)


def phases_of(run: RunSeries) -> pl.DataFrame:
    """The rows of PHASES, what takes longest first."""
    marks = phase_marks(run)
    if not marks.height:
        return PHASES.empty()
    rows = [_row(str(phase), some, run) for (phase,), some in marks.group_by("phase", maintain_order=True)]
    rows.sort(key=lambda row: (-row["time"], row["phase"]))
    return PHASES.frame([{"number": number, **row} for number, row in enumerate(rows, 1)])


def _row(phase: str, marks: pl.DataFrame, run: RunSeries) -> dict[str, Any]:
    rows = np.isin(run.numbers, marks["rank"].unique().to_numpy())
    count, total = int(rows.sum()), int(marks["time"].sum())
    longest = marks.sort("time", "step", descending=[True, False]).row(0, named=True)
    early, late = _ends(marks)
    return {
        "phase": phase,
        "names": ", ".join(sorted(marks["name"].unique().to_list())[:_MOST_NAMES]),
        **who(run, rows),
        "count": marks.height / count,
        "mean": total / marks.height,
        "time": total / count,
        "share": total / max(sum(each.whole for each, has in zip(run.ranks, rows, strict=True) if has), 1),
        "longest": longest["time"],
        "longest_step": longest["step"],
        "longest_rank": longest["rank"],
        "early": early,
        "late": late,
        "growth": None if not early or late is None else late / early - 1,
    }


def _ends(marks: pl.DataFrame) -> tuple[float | None, float | None]:
    """Typical time of the first and of the last occurrences; None of too few."""
    times = marks.sort("step")["time"]
    count = int(_QUARTER_OF_TIMES * len(times))
    if len(times) < _LEAST_COMPARED:
        return None, None
    return float(times.head(count).median()), float(times.tail(count).median())  # type: ignore[arg-type]


def phase_of_shift(run: RunSeries, marks: pl.DataFrame, shift: Shift, rows: Bools) -> dict[str, Any]:
    """The columns of CHANGES about the phase that makes up half of a change of step time and more; empty without one.

    Of several, of which one is in the other, the shortest. marks: see `phase_marks`.
    """
    if not marks.height:
        return {}
    low, high = around(shift)
    size = (shift.after - shift.before) * (0.8 if shift.is_drift else 1)
    causes = [
        (after, phase, before)
        for phase, before, after in _by_phase(run, marks, rows, low, high)
        if (after - before) / size >= _SHARE_OF_CHANGE
    ]
    if not causes:
        return {}
    after, phase, before = min(causes)
    return {"phase": phase, "phase_before": before, "phase_after": after}


def _by_phase(
    run: RunSeries, marks: pl.DataFrame, rows: Bools, low: slice, high: slice
) -> Iterator[tuple[str, float, float]]:
    """Phases with their time in a step of these ranks, in both stretches of blocks."""
    ranks = [run.ranks[row].rank for row in np.flatnonzero(rows).tolist()]
    count = run.means.shape[1]
    for (phase,), some in marks.filter(pl.col("rank").is_in(ranks)).group_by("phase", maintain_order=True):
        place = (some["step"].to_numpy() - run.first) // run.block
        inside = (place >= 0) & (place < count)
        weights = some["time"].to_numpy()[inside].astype(np.float64)
        time = np.bincount(place[inside], weights=weights, minlength=count).astype(np.float64)
        steps = len(ranks) * run.block
        yield str(phase), float(time[low].mean()) / steps, float(time[high].mean()) / steps
