"""HOST010: operators compute on the host in the midst of work for a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.host_islands import HostIslands, host_islands
from kinetoscope.advisor.evidence.source_location import in_source, user_evidence, user_frame_of
from kinetoscope.advisor.finding import NEGLIGIBLE_STEP_SHARE, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import Saving, saving
from kinetoscope.advisor.wording import quoted
from kinetoscope.algorithms.arrays import Int32s, marked
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.intervals.intervals import merge
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.call_tree import enclosing_module, enclosing_op, inside
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_CERTAIN_SHARE: Final = 0.7
"""Certain share of the gain: on the device the operator takes some time, too, and some fetch values after all."""

_MADE: Final = frozenset({"randn", "rand", "randint", "randperm", "arange", "zeros", "ones", "full", "linspace", "eye"})
"""Functions that make a tensor without reading one: a device makes it itself."""

_MAX_SITES: Final = 4
"""Sites that are looked at one by one, those with most time."""


def computing_on_the_host(rank: RankView) -> Iterator[Finding]:
    """Do operators compute on the host, in the midst of device work?

    What it checks. Operators of 30 µs and more, on threads that launch device work, in which nothing is launched, and
    whose neighbours in the order of launches are copies: the input was fetched from the device just before, or the
    result is sent to it just after. They are grouped by operator and source line. Operators of data loaders do not
    count.

    Why it matters. An operator that a device has no kernel for, or that somebody calls on a copy of the tensor on the
    host, makes the host wait for the input, computes on one processor what the device could, and the device idles until
    the result is back. At stake is the time that the steps gain if the operator and the copies around it are launched
    like others; seven tenths of what they gain without the operator alone are the lower end.

    What to do. Keep the tensor on the device; replace the operator by one that the device has.
    """
    trace, islands = rank.trace, host_islands(rank.trace)
    chosen = np.flatnonzero(rank.scope.host_mask[islands.rows])
    if not len(chosen):
        return
    rows = islands.rows[chosen]
    frame = user_frame_of(trace, rows)
    site, _ = group(trace.name[rows], np.where(frame >= 0, trace.name[frame], np.int32(-1)))
    took = np.bincount(site, weights=trace.end[rows] - trace.start[rows])
    for each in np.argsort(-took, kind="stable")[:_MAX_SITES].tolist():
        if took[each] < NEGLIGIBLE_STEP_SHARE * rank.time.length:
            break
        here = chosen[site == each]
        own, calls = islands.rows[here], np.concatenate([islands.fetch[here], islands.send[here]])
        calls = np.unique(calls[calls >= 0])
        best = _without(rank, own, calls)
        low, high = rank.gains(_without(rank, own, calls[:0])), rank.gains(best)
        time = merge(rank.spans(own), rank.spans(_around(trace, calls)))
        copies = rank.work_time(np.isin(rank.work.launch, calls))
        sure, goes = _CERTAIN_SHARE * np.minimum(low, high), merge(rank.exposed(time), copies)
        saved = saving(rank, sure, high, time, took=merge(time, copies).length, goes=goes, factors=best)
        if saved is not None:
            yield _claim(saved, islands, here)


def _claim(saved: Saving, islands: HostIslands, here: Int32s) -> Finding:
    rank, trace, own = saved.rank, saved.rank.trace, islands.rows[here]
    longest = rank.longest(own)
    name = call_name(trace.strings.glance(int(trace.name[longest])), EventKind.HOST_OP).strip()
    shown = user_evidence(rank, longest, "the longest of these operators", "operators")
    module = int(enclosing_module(trace)[longest])
    inner = f" of {quoted(trace.strings.label(int(trace.name[module])))}" if module >= 0 and not shown.file else ""
    fetched, sent = (islands.fetch[here] >= 0).any(), (islands.send[here] >= 0).any()
    ways = " and ".join(
        ["fetched from the device for it"] * bool(fetched)
        + ["sent back after it" if fetched else "sent to the device after it"] * bool(sent)
    )
    return saved.finding(
        message=say(
            "{name}{where} computes on the host while the device waits. It takes {own} of each step ({calls}), with the"
            " copies around it {all}; data is {ways}.",
            name=quoted(name),
            where=in_source(shown) or inner,
            own=rank.time_per_step(rank.spans(own).length),
            calls=rank.each_step(len(own), "call"),
            all=saved.per_step,
            ways=ways,
        ),
        change=_change(name, fetched=bool(fetched)),
        why=say(
            "At most, the operator and the copies around it take no time; at least, seven tenths of what the steps gain"
            " without the operator alone."
        ),
        confidence="high" if fetched and sent else "medium",
        evidence=shown,
        key=f"{name}{in_source(shown)}",
    )


def _change(name: str, *, fetched: bool) -> str:
    made = name.removeprefix("aten::").rstrip("_")
    if made in _MADE:
        return f"- x = torch.{made}(size).to(device)\n+ x = torch.{made}(size, device=device)"
    if fetched:
        return "- y = f(x.cpu()).to(device)\n+ y = f(x)  # with operators that the device has"
    return "- y = f(x_on_cpu).to(device)\n+ y = f(x_on_cpu.to(device))"


def _without(rank: RankView, own: Int32s, calls: Int32s) -> Factors:
    """Without these operators; and the calls of these copies take no time, and wait for nothing."""
    trace, factors = rank.trace, rank.factors()
    gone = marked(len(trace), own)
    factors.host[inside(trace, gone)] = 0.0
    if len(calls):
        work = rank.work
        copied = np.isin(work.launch, calls)
        factors.work[copied] = factors.gap[copied] = 0.0
        tops = marked(len(trace), _around(trace, calls))
        around = inside(trace, tops)
        factors.host[around] = 0.0
        waits = host_waits(trace).call
        factors.free[waits[around[waits]]] = True
    return factors


def _around(trace: Trace, calls: Int32s) -> Int32s:
    """The outermost operator around each copy that launches nothing else: `aten::to`, else the call."""
    op = enclosing_op(trace)[calls]
    return np.where(op >= 0, op, calls)


RULE = Rule("HOST010", "Operators compute on the host while the device waits", computing_on_the_host, needs="device")
