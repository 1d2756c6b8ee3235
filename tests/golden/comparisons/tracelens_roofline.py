"""TraceLens' operations and bytes of each operator and shape."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

from tests.golden import tracelens
from tests.golden.comparison import fewest
from tests.golden.outcome import CannotApply, Outcome
from tests.golden.tracelens import Case, Figures, tensors

ANALYSIS = "roofline"
SECTIONS = tuple(section for _, section in tracelens.sections() if section not in tracelens.NOT_THIS)

_TIME_TOLERANCE: Final = 0.0016
"""Microseconds: TraceLens keeps times since 1970 as 64-bit floats of microseconds, in steps of a 1024th."""

Answer = dict[str, float]


def compare(case: Case) -> Outcome:
    figures = case.figures
    if figures.flop is None or figures.bytes is None:
        return CannotApply("it launches nothing on a device")
    rules = [
        name for name, (operators, _) in RULES.items() if case.section.split()[0].removeprefix("aten::") in operators
    ]
    return fewest(case.golden, lambda chosen: _ours(case, figures, chosen), rules)


def _ours(case: Case, figures: Figures, rules: frozenset[str]) -> Answer:
    assert figures.flop is not None
    assert figures.bytes is not None
    answer = {"calls": float(figures.calls), "flop": figures.flop, "bytes": figures.bytes}
    for name in RULES:  # in this order
        if name in rules:
            RULES[name][1](answer, figures)
    if "bytes" not in case.golden:
        del answer["bytes"]
    if "microseconds" in (golden := case.golden):
        close = abs(figures.microseconds - golden["microseconds"]) <= _TIME_TOLERANCE
        answer["microseconds"] = golden["microseconds"] if close else figures.microseconds
    return answer


# --- what TraceLens does otherwise, applied to our answer


def _copies(answer: Answer, figures: Figures) -> None:
    answer["flop"] += tensors(figures.given)[0].elements


def _links(answer: Answer, figures: Figures) -> None:
    if figures.links == {"host"}:
        answer["bytes"] *= 2


def _expanded(answer: Answer, figures: Figures) -> None:
    answer["bytes"] += sum(
        each.type.bytes * (each.elements - each.distinct) for each in tensors(figures.given) if each.type
    )


def _promoted(answer: Answer, figures: Figures) -> None:
    result, other = tensors(figures.given)[:2]
    assert result.type is not None
    assert other.type is not None
    answer["bytes"] += result.elements * (other.type.bytes - result.type.bytes)


def _gradients(answer: Answer, figures: Figures) -> None:
    if figures.given.text(10) == "[False, True, False]":
        answer["flop"], answer["bytes"] = 2 * answer["flop"], 2 * answer["bytes"]


def _read_twice(answer: Answer, figures: Figures) -> None:
    answer["bytes"] += tensors(figures.given)[0].bytes or 0


def _skipped(answer: Answer, figures: Figures) -> None:
    """Adds what no window of a convolution covers, counted place by place."""
    given = tensors(figures.given)
    backward = len(given) == 3
    image, weight = given[-2:]
    assert image.type is not None
    covered = prod(image.shape[:2])
    for axis, (size, kernel) in enumerate(zip(image.shape[2:], weight.shape[2:], strict=True)):
        stride, padding, dilation = (figures.given.integers(place + backward)[axis] for place in (3, 4, 5))
        outputs = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        places = {out * stride - padding + tap * dilation for out in range(outputs) for tap in range(kernel)}
        covered *= len(places & set(range(size)))
    answer["bytes"] += (image.elements - covered) * image.type.bytes


def _one_result(answer: Answer, figures: Figures) -> None:
    given = tensors(figures.given)[0]
    assert given.type is not None
    reduced = [each % len(given.shape) for each in figures.given.integers(1)]
    results = prod(size for place, size in enumerate(given.shape) if place not in reduced)
    answer["bytes"] -= (results - 1) * given.type.bytes


def _norm_operations(answer: Answer, figures: Figures) -> None:
    elements, channels, backward = _norm(figures)
    answer["flop"] = 9 * elements if backward else 5 * elements + 6 * channels


def _norm_bytes(answer: Answer, figures: Figures) -> None:
    elements, channels, backward = _norm(figures)
    answer["bytes"] = 6 * elements + 8 * channels if backward else 4 * elements + 12 * channels


def _norm(figures: Figures) -> tuple[int, int, bool]:
    """Elements, channels, and whether it is the backward pass."""
    given = tensors(figures.given)
    return given[0].elements, given[-1].shape[0], given[1].shape == given[0].shape


def _numbers(answer: Answer, figures: Figures) -> None:
    answer["bytes"] -= 4


_NORMS: Final = frozenset({"layer_norm", "batch_norm", "native_batch_norm", "native_batch_norm_backward"})
_ARITHMETIC: Final = frozenset({"mul", "div", "add_", "add", "copy_"})

RULES: Final[dict[str, tuple[frozenset[str], Callable[[Answer, Figures], Any]]]] = {
    "operations of a norm": (_NORMS, _norm_operations),
    "statistics of channels": (_NORMS, _norm_bytes),
    "copies compute": (frozenset({"copy_"}), _copies),
    "links are memory": (frozenset({"copy_"}), _links),
    "expanded tensors in full": (_ARITHMETIC, _expanded),
    "results in place are promoted": (frozenset({"add_"}), _promoted),
    "all gradients": (frozenset({"convolution_backward"}), _gradients),
    "gradients are read twice": (frozenset({"convolution_backward"}), _read_twice),
    "windows cover everything": (frozenset({"convolution", "convolution_backward"}), _skipped),
    "one result of a reduction": (frozenset({"sum", "mean"}), _one_result),
    "numbers have four bytes": (frozenset({"div"}), _numbers),
}
"""The rules, the operators that they are about, and what they make of an answer."""
