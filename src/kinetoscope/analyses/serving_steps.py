"""What each step of a serving engine did, how long it took, and why the device waited before it."""

from __future__ import annotations

import numpy as np
import polars as pl

from kinetoscope.charts import StackedBars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.serving.steps import serving_steps as find_steps
from kinetoscope.model.steps.scope import origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

GAP_PARTS = ("gap_scheduler", "gap_inputs", "gap_synchronization", "gap_detokenizing", "gap_launch", "gap_other")
PARTS = ("device_busy", "device_between", "device_idle", "gap")
SHARES = ("attention", "gemm", "moe", "communication", "sampling", "other")

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, counted from 0."),
    Column("kind", pl.String, "prefill, decode, mixed, verify, draft or idle; null where the name does not say."),
    Column("batch", pl.Int64, "Requests."),
    Column("padded_batch", pl.Int64, "Requests that it computes for, with those that fill up a graph."),
    Column("tokens", pl.Int64, "New tokens of all requests."),
    Column("context", pl.Int64, "Tokens that attention reads, of all requests: those in the cache and the new ones."),
    Column("duration", pl.Int64, "From the end of the steps before on the device to its own end there.", "ns"),
    Column("device_busy", pl.Int64, "Time in which its device work runs; the six shares sum to it.", "ns"),
    Column("gap", pl.Int64, "Before its first device work, the device is idle; the six causes sum to it.", "ns"),
    Column("gap_cause", pl.String, "Cause of the largest part of the gap."),
    Column("replayed", pl.Float64, "Durations of its device work in replays of graphs / of all of it.", "fraction"),
    Column("tokens_per_second", pl.Float64, "Tokens / duration (without device work / wall)."),
    Column("wall", pl.Int64, "Length of the step on the host.", "ns"),
    Column("attention", pl.Int64, "Attention runs.", "ns"),
    Column("gemm", pl.Int64, "Products of matrices run, and nothing above.", "ns"),
    Column("moe", pl.Int64, "Routing and products of experts run, and nothing above.", "ns"),
    Column("communication", pl.Int64, "A collective runs, and no computation.", "ns"),
    Column("sampling", pl.Int64, "The choice of the next tokens runs, and no attention, GEMM or MoE.", "ns"),
    Column("other", pl.Int64, "Other computation, or a copy that nothing hides.", "ns"),
    Column("device_idle", pl.Int64, "Between its first and last device work, none of its work runs.", "ns"),
    Column("device_between", pl.Int64, "Before its first device work, work of no step runs.", "ns"),
    Column("gap_scheduler", pl.Int64, "The host schedules, or waits for the scheduler.", "ns"),
    Column("gap_inputs", pl.Int64, "The host prepares the inputs of the step, which it has begun.", "ns"),
    Column("gap_synchronization", pl.Int64, "The host is in a call that waits for a device.", "ns"),
    Column("gap_detokenizing", pl.Int64, "The host handles the results of the step before, and sends them on.", "ns"),
    Column("gap_launch", pl.Int64, "The first work, or the graph that it is in, is launched and has not begun.", "ns"),
    Column("gap_other", pl.Int64, "Between steps, and nothing that was recorded says what the host did.", "ns"),
    Column("pause", pl.Int64, "Before it, the server had no requests; null if it had some.", "ns"),
    Column("decode_delay", pl.Int64, "How long it held up requests that decode; null if it held up none.", "ns"),
    Column("acceptance", pl.Float64, "Accepted tokens / proposed ones; null where not known.", "fraction"),
    Column(
        "rank_waiting",
        pl.Int64,
        "What the slowest rank computes longer in the same step; null where no other rank shares it.",
        "ns",
    ),
    Column("prefill_tokens", pl.Int64, "Those of requests in prefill."),
    Column("decode_tokens", pl.Int64, "Those of requests in decode; of verify steps the proposed ones too."),
    Column("prefill_requests", pl.Int64, "Requests in prefill."),
    Column("decode_requests", pl.Int64, "Requests in decode."),
    Column("engine", pl.String, "Engine whose step it is; null if unknown."),
    Column("start", pl.Int64, "When the host began it, from the first event of the trace on.", "ns", instant=True),
    Column(
        "end", pl.Int64, "When its last device work ended, on the same clock; null if none ran.", "ns", instant=True
    ),
    Column("row", pl.Int64, "Row of its annotation among the events of the trace; null where steps are inferred."),
    Column("name", pl.String, "Name that the engine gave to it; null where steps are inferred."),
    across={
        "key": "step name engine kind",
        "own": "row start end tokens_per_second replayed",
        "agreed": "batch padded_batch tokens prefill_tokens decode_tokens prefill_requests decode_requests context "
        "gap_cause acceptance",
        "sum": " ".join(
            (
                "wall duration device_busy device_idle device_between gap pause decode_delay rank_waiting",
                *SHARES,
                *GAP_PARTS,
            )
        ),
    },
)


def serving_steps(trace: Trace, select: Selection) -> Partial:
    """What did each step of a serving engine do, how long did it take, and why did the device wait before it?

    Method. A step is a range that a serving engine named (vLLM, SGLang, ATOM, TensorRT-LLM); of two such ranges in each
    other the outer one. Kind, batch and tokens are what the name says. Else the engine's Python calls are steps, or
    what repeats (see `step_breakdown`); nothing is known of their batches.

    Device work belongs to the step in which it was launched; sampling that is launched after a step, before the next
    one, belongs to it too. `duration` = gap + device_between + device_busy + device_idle; of a decode step it is the
    latency between two tokens. Sampling is what was launched in the engine's sampler, is named so (`argmax`, `top_p`),
    or is computed after the step's last product, which makes the logits; MoE is all that an operator or a module of
    experts launches; the other shares are `categories`. Of work at the same time the first counts: attention, GEMM,
    MoE, sampling, other computation, communication, copies.

    Each instant of the gap has the first cause that applies on the thread of the step: launch, from the call that
    launches the first work on; synchronization; the engine's own ranges and Python calls of detokenizing, scheduling,
    preparing inputs; the step itself (inputs); another step (detokenizing); other.

    A mixed step holds up decode by what it takes longer than the median decode step of as many requests (to the next
    power of two); a prefill step between steps that decode by all its duration. Acceptance follows from the growth of
    the context until the next verify step of as many requests.

    A gap longer than ten median steps on the device is a `pause`, a server without requests: the step then begins with
    its range. Ranks share a step of the same number and name, if a collective runs in it on any of them.

    How to read it. Sort by duration for the slowest steps. Decode steps with a large gap, or `device_idle`, and no
    replays are bound by launches; `gap_cause` says what to shorten.

    Limits. Recording changes batching: Python stacks slow the scheduler, so that gaps look worse. Where neither ranges
    nor Python calls of the engine were recorded, the time between steps is `gap_other`; vLLM records its ranges with
    VLLM_CUSTOM_SCOPES_FOR_PROFILING=1. `padded_batch` is known where a name or the capture of the graph says it.
    """
    served = find_steps(trace, select.steps_by)
    view = scope(trace, select)
    row, host = served.named.row, served.named.host
    chosen = view.begins(host.start)
    if select.steps is not None:
        chosen &= step_of(view.steps.host, host.start) >= 0
    if select.is_within_steps:
        chosen &= np.where(row >= 0, view.host_mask[row], False) if len(row) else chosen
    frame = served.frame.with_row_index("step").with_columns(
        start=pl.col("host_start") - origin_of_time(trace),
        end=pl.col("device_end") - origin_of_time(trace),
        rank_waiting=pl.lit(None, pl.Int64),
    )
    notes = [served.named.note] if served.named.note else []
    if len(row) and not len(device_work(trace)):
        notes.append(no_device_work(trace, "the columns of device time are empty"))
    if len(row) and not any(each.kind for each in served.named.said):
        notes.append(
            Note(
                "STEP_NAMES_SAY_NOTHING",
                "The names of the steps do not say what they do: kind, batch and tokens are not known.",
            )
        )
    pauses = frame["pause"].drop_nulls()
    if len(pauses):
        said = f"Before {number_of(len(pauses), 'step')} the server had no requests, {int(pauses.sum()) / 1e9:.3g} s in"
        notes.append(Note("SERVER_PAUSES", f"{said} all: gaps longer than ten median steps, which count nowhere."))
    if len(row) and (trace.kind == EventKind.PYTHON).any():
        notes.append(
            Note(
                "STACKS_SLOW_ENGINE",
                "Python stacks were recorded, which slows the engine: without them gaps are shorter.",
            )
        )
    columns = RESULT.per_rank.names
    return Partial(frame.filter(pl.Series(chosen)).select(columns).cast(RESULT.per_rank.types), tuple(notes))


def with_rank_waiting(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps of all ranks with what each rank waits for the slowest one."""
    own = pl.col("device_busy") - pl.col("communication")
    same = [name for name in ("cycle", "step", "name") if name in steps.columns]
    together = (pl.col("rank").n_unique().over(same) > 1) & (pl.col("communication").max().over(same) > 0)
    waiting = pl.when(together, pl.col("name").is_not_null()).then(own.max().over(same) - own)
    return steps.with_columns(rank_waiting=waiting)


ANALYSIS = Analysis(
    "Serving steps",
    serving_steps,
    RESULT,
    finish=with_rank_waiting,
    chart=StackedBars("step", PARTS),
    selection_notes="never",
)
