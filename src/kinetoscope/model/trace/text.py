"""Numbers and counts as sentences name them."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def number_of(count: int, one: str, more: str = "") -> str:
    """A count and its noun: `1 event`, `2,000 events`; `more` is the plural where that is not `one` and an s."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def duration_text(nanoseconds: int) -> str:
    """A duration for a sentence, with one decimal and a unit."""
    for size, unit in ((86_400 * 10**9, "days"), (10**9, "s"), (10**6, "ms"), (10**3, "µs")):
        if nanoseconds >= size:
            return f"{nanoseconds / size:,.1f} {unit}"
    return f"{nanoseconds} ns"


def numbered(noun: str, numbers: Collection[int]) -> str:
    """Numbers and what they are of: `step 3`, `steps 3-5`."""
    return f"{noun}{'s' * (len(set(numbers)) > 1)} {listed(numbers)}"


def listed(numbers: Iterable[int], limit: int = 10) -> str:
    """Numbers in order, runs of them in short: `0-3, 7`; "" for none. Of many runs the first `limit`, and an …."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:limit]]
    return ", ".join([*shown, "…"] if len(runs) > limit else shown)
