"""How far device work is from the limits of its device, and why: one sentence for all faces."""

from __future__ import annotations

from typing import Final

from kinetoscope.schema import Result
from kinetoscope.views.numbers import scale, shown
from kinetoscope.views.sentences import say, total

REASONS: Final = {
    "fusable": "traffic that fusion removes",
    "unfused_attention": "attention without a fused kernel",
    "small_kernels": "small kernels",
    "unfilled": "products with too few blocks",
    "below_peak": "arithmetic below its peak",
    "below_bandwidth": "traffic below the bandwidth",
    "links": "copies and collectives, waiting included",
    "uncovered": "work without a formula",
}
"""Why device work takes longer than at the limits, by the columns of `roofline`."""

_LEAST_COVERED: Final = 0.5
"""Share of the device time with a floor, below which nothing can be said of the whole."""

LEAST_NAMED_SHARE: Final = 0.01
"""Share of the device time from which a reason is named."""

_DEVICE: Final = ("Device work takes", "device", "device time")
_HOST: Final = ("The operators take", "host", "time of the operators")
_DIFFERENCE: Final = "The difference: "

_MAX_NAMED: Final = 4
"""Reasons that are named; the others are one."""


def device_limits(steps: Result, *, marked: bool = True, device: bool = True) -> str:
    """A sentence about the device time of an average step, its limit, and the difference by reason; parts sum to it.

    It is "" where no device work was recorded, or no cost of it is known.

    Args:
        steps: `roofline` with a row a step.
        marked: whether there are steps; if not, the whole window is one.
        device: whether a device was used; if not, it is the operators of the host.
    """
    columns = ("device_time", "covered_time", "formula_time", "at_limit", *REASONS)
    means = {name: float(steps.frame.get_column(name).sum()) / max(steps.frame.height, 1) for name in columns}
    whole, covered = means["device_time"], means["covered_time"]
    takes, of, time = _DEVICE if device else _HOST
    if device and covered < _LEAST_COVERED * whole <= means["formula_time"]:
        return say(
            "Formulas cover {share} of the {time}, but the peaks of the device are not known: `--peak` gives them.",
            share=total(steps, "formula_time") / total(steps, "device_time"),
            time=time,
        )
    if not covered:
        return ""
    share = shown(covered / whole, "fraction")
    if covered < _LEAST_COVERED * whole:
        return f"Formulas cover only {share} of the {time}, too little to say how near it is to its limits."
    largest = sorted(REASONS, key=lambda name: -means[name])[:_MAX_NAMED]
    named = [name for name in largest if means[name] >= LEAST_NAMED_SHARE * whole]
    unit = scale([whole], "ns")
    parts = [f"{unit.with_unit(means[name])} {REASONS[name]}" for name in named]
    rest = whole - means["at_limit"] - sum(means[name] for name in named)
    if rest >= LEAST_NAMED_SHARE * whole or not named:
        parts.append(f"{unit.with_unit(rest)} other reasons" if named else unit.with_unit(rest))
    return (
        f"{takes} {unit.with_unit(whole)}{' a step' if marked else ''}, and would take "
        f"{unit.with_unit(means['at_limit'])} at the limits of the {of} (formulas cover {share}). "
        f"{_DIFFERENCE}{', '.join(parts)}."
    )


def without_reasons(words: str) -> str:
    """The same words where a picture beside them shows the parts of the difference."""
    return words.partition(_DIFFERENCE)[0].rstrip()
