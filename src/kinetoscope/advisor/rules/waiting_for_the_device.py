"""HOST002: calls that make the host wait for the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.host_waits import (
    WaitSite,
    copies_of_site,
    stakes_of_sites,
    time_of_site,
    wait_sites,
    without_waits,
)
from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import NO_SERVER, RankView, Rule
from kinetoscope.advisor.wording import quoted
from kinetoscope.algorithms.intervals.intervals import intersection, merge
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.views.sentences import say

_CHANGES: Final = (
    (("item", "_local_scalar_dense", "is_nonzero"),
     "- total += value.item()\n+ total += value.detach()  # and .item() once every so many steps"),
    (("nonzero", "masked_select", "unique", "index", "index_put_", "argwhere", "repeat_interleave", "bincount"),
     "- x = x[mask]\n+ x = torch.where(mask, x, 0)  # a shape that does not depend on values"),
    (("to", "_to_copy", "copy_", "cpu"),
     '- y = x.cpu()\n+ y = x.to("cpu", non_blocking=True)  # and read it when the step is over'),
    (("cudaDeviceSynchronize", "hipDeviceSynchronize", "cudaEventSynchronize", "cudaStreamSynchronize"),
     "- torch.cuda.synchronize()"),
)  # fmt: skip
"""What helps, by the operator's name without its namespace, or by that of the call."""


def waiting_for_the_device(rank: RankView) -> Iterator[Finding]:
    """Which calls make the host wait for the device, so that the device then waits for the host?

    What it checks. Calls that wait for a stream, an event or the device, by outermost operator and source line: those
    of `.item()`, `.cpu()`, `nonzero` and `torch.cuda.synchronize()`. Copies to the device, calls that free memory, and
    copies for operators on the host belong to other rules; so do all waits of a server (SERVING004, SERVING005).

    Why it matters. The host usually runs ahead of the device. A call that waits lets the queue run empty, and the
    device is idle until the host has launched something again. The waiting itself costs nothing where the device is the
    bottleneck. At stake is the time that the steps gain without these calls and the operators around them; eight tenths
    of it are the lower end, as the value has still to be fetched at some time. Where the host waits at several places,
    removing only one may bring little: the interval reaches from that gain to the place's share of the gain from
    removing all.

    What to do. Keep values on the device, fetch them once every n steps, and avoid code that depends on how many
    elements meet a condition.
    """
    for site, stake in stakes_of_sites(rank, wait_sites(rank)):
        yield waiting_claim(rank, site, stake)


def waiting_claim(rank: RankView, site: WaitSite, stake: Stake) -> Finding:
    """The finding about a site; of servers SERVING005 makes it."""
    trace = rank.trace
    took = trace.end[site.calls] - trace.start[site.calls]
    longest = int(np.argmax(took))
    row, top = int(site.calls[longest]), int(site.top[longest])
    name = call_name(trace.strings.glance(int(trace.name[top])), EventKind.HOST_OP)
    where = user_source_of(trace, row)
    waits = intersection(rank.spans(site.calls), rank.time).length
    around = intersection(merge(rank.spans(site.top), copies_of_site(rank, site)), rank.time).length
    waiting, whole = rank.time_per_step(waits), rank.time_per_step(around)
    return Finding(
        message=say(
            "{name}{where} makes the host wait for the device. It waits {waits} of each step ({times}){around}, and the"
            " device then idles {idle}.",
            name=quoted(name),
            where=in_source(where),
            around=say(", with the operators around it {took}", took=whole) if whole.text != waiting.text else "",
            waits=waiting,
            times=rank.each_step(len(took), "time"),
            idle=rank.time_per_step(site.idle),
        ),
        stake=stake,
        takes=rank.per_step(around + site.idle if rank.program == "serving" else around),
        change=_change(name),
        why=say("The value has to be fetched some time: eight tenths of the gain without the wait remain at least."),
        evidence=(rank.event(row, "the longest of these calls", "synchronizations", where),),
        time=time_of_site(rank, site),
        factors=without_waits(rank, [site], 0.0),
        key=f"{name}{in_source(where)}",
    )  # fmt: skip


def _change(name: str) -> str:
    last = name.rpartition("::")[2]
    return next((change for names, change in _CHANGES if last in names), "")


RULE = Rule("HOST002", "The host waits for the device", waiting_for_the_device, needs="device", programs=NO_SERVER)
