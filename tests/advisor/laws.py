"""The laws of promises, held against advice that was given."""

from __future__ import annotations

import math

from kinetoscope.advisor.advice import Advice
from tests.sentences import agrees

ROUNDING = 1.0
"""ns by which a promise may exceed a law: both are floats."""


def keep_the_laws(advice: Advice) -> None:
    """What is promised, held against what the findings themselves say of the same steps."""
    for finding in advice.findings:
        low, high = finding.stake.low, finding.stake.high
        assert 0 <= low <= high, finding
        assert high == 0 or finding.takes is not None, f"{finding} does not say what the thing takes"
        assert high <= (math.inf if finding.takes is None else finding.takes) + ROUNDING, finding
        assert finding.confidence != "low" or (low == 0 and finding.severity in ("note", finding.at_least)), finding
        assert (finding.certainty == "sure") == (finding.confidence == "high" and 2 * low >= high), finding
        for part, quantity in finding.facts:
            assert agrees(quantity), (finding.code, part, quantity)
    if advice.step:
        assert sum(each.stake.high for each in advice.findings) <= advice.step + ROUNDING * len(advice.findings)
    if " of it is sure" in advice.headline and "none of it" not in advice.headline:
        assert advice.notable[0].confidence == "high"
