"""What a sentence shows, held against the value of the quantity that it shows."""

from __future__ import annotations

import re

from kinetoscope.views.numbers import _SCALES, MISSING
from kinetoscope.views.sentences import Quantity, Value

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")

_TOLERANCE = 0.06
"""Share by which a number may be rounded: a sentence says 9.5% as 10%."""


def agrees(quantity: Quantity) -> bool:
    """Does the first number of the text stand for the value, in some scale of its unit?"""
    value, text = quantity.value, quantity.text
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return value is not None or MISSING in text or not _NUMBER.search(text)
    found = _NUMBER.search(text)
    if found is None:  # words for a number: `all of it`, `a quarter`
        return True
    shown = float(found[0].replace(",", ""))
    divisors = {scale.divisor for scale in _SCALES[quantity.unit]}
    if "under" in text or "less than" in text or text.startswith("<"):
        return any(value / divisor <= shown for divisor in divisors)
    return any(abs(value / divisor - shown) <= max(_TOLERANCE * abs(shown), 0.51) for divisor in divisors)


def same(found: Value, said: Value) -> bool:
    """Is a value that was looked up the one that was said? Sums of floats differ by the order of rows."""
    if isinstance(found, float) and isinstance(said, (int, float)):
        return abs(found - said) <= 1e-6 * max(abs(found), abs(said))
    return found == said
