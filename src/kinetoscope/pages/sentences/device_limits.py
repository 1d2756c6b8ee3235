"""How far device work is from the limits of its device, and why: one sentence for all faces."""

from __future__ import annotations

from typing import Final

from kinetoscope.schema import Result
from kinetoscope.views.numbers import Scale, scale
from kinetoscope.views.sentences import EMPTY, Quantity, Sentence, join, mean, part, say, total

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


def device_limits(steps: Result, *, marked: bool = True, device: bool = True) -> Sentence:
    """A sentence about the device time of an average step, its limit, and the difference by reason; parts sum to it.

    It is "" where no device work was recorded, or no cost of it is known.

    Args:
        steps: `roofline` with a row a step.
        marked: whether there are steps; if not, the whole window is one.
        device: whether a device was used; if not, it is the operators of the host.
    """
    takes, of, time = _DEVICE if device else _HOST
    if not float(total(steps, "device_time")):
        return EMPTY
    share = total(steps, "covered_time") / total(steps, "device_time")
    known = total(steps, "formula_time") / total(steps, "device_time")
    if device and float(share) < _LEAST_COVERED <= float(known):
        return say(
            "Formulas cover {share} of the {time}, but the peaks of the device are not known: `--peak` gives them.",
            share=known,
            time=time,
        )
    if not share:
        return EMPTY
    if float(share) < _LEAST_COVERED:
        return say(
            "Formulas cover only {share} of the {time}, too little to say how near it is to its limits.",
            share=share,
            time=time,
        )
    whole, limit = mean(steps, "device_time"), mean(steps, "at_limit")
    unit = scale([float(whole)], "ns")
    return say(
        "{takes} {whole}{a_step}, and would take {limit} at the limits of the {of} (formulas cover {share}). {words}",
        takes=takes,
        whole=whole.words(unit.with_unit(float(whole))),
        a_step=" a step" if marked else "",
        limit=limit.words(unit.with_unit(float(limit))),
        of=of,
        share=share,
        words=_difference(steps, unit, whole, whole - limit),
    )


def _difference(steps: Result, unit: Scale, whole: Quantity, difference: Quantity) -> Sentence:
    """What an average step takes beyond the limits, by its largest reasons."""
    means = {name: mean(steps, name) for name in REASONS}
    largest = sorted(REASONS, key=lambda name: -float(means[name]))[:_MAX_NAMED]
    named = [name for name in largest if float(means[name]) >= LEAST_NAMED_SHARE * float(whole)]
    parts = [
        say("{time} {reason}", time=means[name].words(unit.with_unit(float(means[name]))), reason=REASONS[name])
        for name in named
    ]
    rest = difference
    for name in named:
        rest = rest - means[name]
    if float(rest) >= LEAST_NAMED_SHARE * float(whole) or not named:
        words = rest.words(unit.with_unit(float(rest)))
        parts.append(say("{rest} other reasons", rest=words) if named else say("{rest}", rest=words))
    return say("The difference: {parts}.", parts=join(parts, ", "))


def without_reasons(words: str) -> Sentence:
    """The same words where a picture beside them shows the parts of the difference."""
    return part(words, words.partition(_DIFFERENCE)[0].rstrip())
