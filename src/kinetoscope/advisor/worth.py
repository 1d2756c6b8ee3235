"""What a rule asks of a rank before it says anything: is the device known, and is there enough to gain?"""

from __future__ import annotations

from typing import Final

from kinetoscope.advisor.finding import Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.model.flop_rates import is_host_only

_SMALL: Final = 0.005
"""Share of the step under which a finding about time is not worth a word, as in `survey`."""


def is_worth_it(look: RankView, stake: Stake) -> bool:
    """Is enough at stake at most?"""
    return stake.high >= _SMALL * look.step > 0


def says_who_computes(look: RankView) -> bool:
    """Is there device work, or nothing of a device at all? Else the trace does not show what computes when."""
    return look.count > 0 and (look.has_device or look.trace.of(is_host_only))
