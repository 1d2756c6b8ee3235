"""Who waits for whom: the sentence of Distributed, and of all that speaks for several ranks."""

from __future__ import annotations

from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped, shown


def who_waits(stragglers: Result, balance: Result) -> str:
    """Which rank the others wait for and why, or that none makes them wait."""
    slow = stragglers.frame.filter("straggler").sort("lost", descending=True)
    waiting = float(balance.frame.get_column("exposed_waiting").sum() or 0)
    whole = float(balance.frame.get_column("duration").sum() or 0)
    waits = f"Ranks wait {shown(waiting / whole, 'fraction')} of the time for one another" if whole and waiting else ""
    if slow.height:
        rank, lost, cause, share = slow.select("rank", "lost", "cause", "lost_share").row(0)
        others = f", and {grouped(slow.height - 1)} more" if slow.height > 1 else ""
        why = f" ({cause})" if cause else ""
        found = (
            f"The others wait for rank {rank}{why}{others}: {shown(lost, 'ns')} in all, {shown(share, 'fraction')} of"
        )
        return f"{found} their steps."
    return f"{waits}; no rank is slower than the others." if waits else "No rank makes the others wait."
