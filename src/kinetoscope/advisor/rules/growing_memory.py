"""MEMORY005: memory grows from step to step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from kinetoscope.advisor.evidence.memory import memory_use
from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted
from kinetoscope.model.execution.optimizers import optimizer_classes
from kinetoscope.views.sentences import EMPTY, Sentence, cell, measured, say

_MIN_BYTES_PER_STEP: Final = 4096
"""Growth that is reported; numbers in a list are less."""


_DETACH: Final = "- losses.append(loss)\n+ losses.append(loss.detach())  # without the graph that it came from"

_HISTORY: Final = " LBFGS keeps what it needs of up to `history_size` steps: then this growth ends."

_CHANGES: Final = {
    "stream": "- tensor.record_stream(stream)\n+ torch.cuda.current_stream().wait_stream(stream)  # before it is freed",
    "graph pool": "- torch.cuda.graph(graph)\n+ torch.cuda.graph(graph, pool=pool)  # one pool for all graphs",
}
"""Changes by what holds the memory."""

_HELD: Final = {
    "stream": ", was freed, and waits for work of another stream",
    "graph pool": ", in the pool of a CUDA graph",
}


def growing_memory(rank: RankView) -> Iterator[Finding]:
    """Does memory grow from step to step?

    What it checks. The analysis `memory_growth`: whether memory in use at the ends of the steps grows, with 99 %
    confidence, and which memory was allocated in a step and kept. With a memory snapshot it names the line of the
    program, and what holds the memory.

    Why it matters. A run that keeps some memory of each step ends when none is left. The usual cause is a loss with its
    graph, outputs or hidden states that are kept in a list or carried over. No time is at stake, so it is a note.

    LBFGS keeps directions and gradients of its last steps, 100 of them by default: until then memory grows by itself.

    What to do. Keep numbers, not tensors: `.detach()`, and now and then `.item()`.
    """
    growth = rank.ask("memory_growth")
    keeps_history = "LBFGS" in optimizer_classes(rank.trace)
    leaks = growth.frame.filter((pl.col("verdict") == "leak") & (pl.col("per_step") >= _MIN_BYTES_PER_STEP))
    for whole in leaks.iter_rows(named=True):
        device = str(whole["device"])
        lasting = growth.frame.filter(
            (pl.col("device") == device) & (pl.col("kind") != "device") & (pl.col("size") > 0)
        )
        lasting = lasting.filter(pl.col("steps").fill_null(whole["steps"]) * 2 >= whole["steps"] - 1)
        source = _source(lasting.row(0, named=True)) if len(lasting) else EMPTY
        holder = lasting["held_by"][0] if len(lasting) else None
        yield Finding(
            message=say(
                "Memory grows from step to step on {device}. It grows by {per_step} a step{source}{until}.",
                device=quoted(device),
                per_step=measured(whole["per_step"], "bytes"),
                source=source,
                until=_until(rank, device, whole["per_step"]),
            ),
            change=_CHANGES.get(holder or "", _DETACH if rank.program == "training" and not keeps_history else ""),
            why=say(
                "No time is at stake, but the run. {evidence}{history}",
                evidence=cell(growth, "evidence", **_keys(whole)),
                history=_HISTORY if keeps_history else "",
            ),
            evidence=(Evidence("the memory that is kept, and where it was allocated", "memory_growth"),),
            key=device,
        )


def _keys(row: dict[str, Any]) -> dict[str, Any]:
    """The cells that tell a row of `memory_growth` from all others."""
    return {name: row[name] for name in ("device", "kind", "verdict", "per_step")}


def _source(lasting: dict[str, Any]) -> Sentence:
    module = say(" in {module}", module=quoted(str(lasting["module"]))) if lasting["module"] else EMPTY
    where = "at" if lasting["kind"] == "stack" and ":" in str(lasting["name"]) else "by"
    return say(
        "; most of what is kept was allocated {where} {name}{module}{held}",
        where=where,
        name=quoted(str(lasting["name"])),
        module=module,
        held=_HELD.get(str(lasting["held_by"]), ""),
    )


def _until(rank: RankView, device: str, growth: float) -> Sentence:
    """How many steps are left until the device is full."""
    uses = [use for use in memory_use(rank) if use.device == device and use.total > use.peak]
    if not uses or growth <= 0:
        return EMPTY
    return say(": it is full in {left} steps", left=measured(int((uses[0].total - uses[0].peak) / growth)))


RULE = Rule("MEMORY005", "Memory grows from step to step", growing_memory)
