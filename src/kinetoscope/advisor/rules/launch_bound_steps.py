"""HOST001: the device waits for the host to launch its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.launch_time import launching_time
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_by_time
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.intervals.intervals import merge
from kinetoscope.model.device.launches import launches
from kinetoscope.views.numbers import shown

_CERTAIN_SHARE: Final = 0.9
"""Certain share of the gain of a graph: some parts, such as the optimizer or a loss, may not be captured."""

_MAX_GAIN_RATIO: Final = 1.1
"""Greatest ratio of the gain to the idle time of launching: work that was launched late delays other work, too."""

_GAP: Final = 1_000
"""Between kernels of a graph, ns; those of a device that waits for launches do not tell what it would be."""

_MIN_LAUNCHES: Final = 20
"""Launches a step from which on a graph is worth its trouble."""

_IDLE: Final = 0.05
"""Share of the step in which the device must wait for launches."""


def launch_bound_steps(rank: RankView) -> Iterator[Finding]:
    """Is the device idle because the host cannot launch kernels fast enough?

    What it checks. The time in which a launching thread is in operators and launch calls, including short pauses
    between them, but not waiting, allocating and data loading; and the part of it that no device work hides.

    Why it matters. An operator costs the host some ten microseconds whatever it computes. Where kernels are shorter
    than that, the queue is empty and the device waits for the next launch. At stake is the time that the steps gain if
    launching takes no time. Nine tenths of it, less 1 µs between kernels, count as sure: a captured graph leaves out
    what cannot be captured.

    What to do. Give each kernel more to do (a larger batch), or launch many at once: `torch.compile` fuses kernels, and
    with `mode="reduce-overhead"` launches them as one CUDA graph.
    """
    if not rank.has_device or not rank.step_count:
        return
    launch_time = launching_time(rank)
    if len(launch_time.calls) < _MIN_LAUNCHES * rank.step_count:
        return
    exposed = rank.exposed(merge(*launch_time.stretches.values()))
    if exposed.length < _IDLE * rank.time.length:
        return
    factors = rank.factors()
    factors.cut.update(launch_time.stretches)
    gains = rank.gains(factors)
    # What goes beyond the idle time comes from other things that then begin sooner: it is theirs.
    gains = gains * min(1.0, _MAX_GAIN_RATIO * exposed.length / max(float(gains.sum()), 1.0))
    gaps = _GAP * len(launch_time.calls) / rank.step_count
    stake = stake_by_time(rank, _CERTAIN_SHARE * gains - gaps, gains, exposed)
    if not is_worth_reporting(rank, stake):
        return
    all_launches = launches(rank.trace)
    busy = all_launches.busy[np.isin(all_launches.rows, launch_time.calls) & (all_launches.first >= 0)]
    yield Finding(
        message="The device waits for the host to launch kernels. It waits"
        f" {share(exposed.length, rank.time.length)} of the step:"
        f" {rank.each_step(len(launch_time.calls), 'launch', 'launches')} take the host"
        f" {shown(launch_time.length / len(launch_time.calls), 'ns')} each, and the kernels run"
        f" {shown(float(np.median(busy)) if len(busy) else 0, 'ns')}.",
        stake=stake,
        change=_change(rank),
        why="The upper end is launching that takes no time; a graph brings at least nine tenths of it.",
        confidence="medium" if rank.is_complete else "low",
        evidence=(rank.longest_of(exposed, "the longest stretch without device work while launching",
                                  "idle_breakdown"),),
        time=exposed,
        broad=1,
    )  # fmt: skip


_COMPILE: Final = '- model = Model()\n+ model = torch.compile(Model(), mode="reduce-overhead")  # or a larger batch'
_GRAPHS: Final = '- torch.compile(model)\n+ torch.compile(model, mode="reduce-overhead")  # or a larger batch'


def _change(rank: RankView) -> str:
    """What is not done yet: compiled code, graphs of it, else more of both."""
    if "graphs" in rank.uses:
        return "+ put what is still launched call by call into the graphs too, or give each kernel more to do"
    return _GRAPHS if "compiled" in rank.uses else _COMPILE


RULE = Rule("HOST001", "The host cannot launch kernels fast enough", of_rank=launch_bound_steps)
