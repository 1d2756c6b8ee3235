"""The sentence about the limits of the device."""

from __future__ import annotations

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.pages.sentences.device_limits import REASONS, device_limits
from kinetoscope.schema import Result

MS = 1_000_000


def steps(*rows: dict[str, float], formula: float = 0.0) -> Result:
    """Steps with these milliseconds by part; device time and covered time follow.

    formula: milliseconds of work that has a formula and no floor, as no peak is known.
    """
    frame = pl.DataFrame(
        [
            {name: round(row.get(name, 0.0) * MS) for name in ("at_limit", *REASONS)}
            | {"device_time": round(sum(row.values()) * MS)}
            for row in rows
        ]
    )
    covered = pl.col("device_time") - pl.col("uncovered")
    known = {"covered_time": covered, "formula_time": covered + round(formula * MS)}
    return Result(frame.with_columns(**known), named("roofline").schema)


def test_the_parts_of_an_average_step_sum_to_its_device_time() -> None:
    first = {"at_limit": 10.0, "fusable": 9.0, "unfilled": 4.0, "uncovered": 1.0}
    text = device_limits(steps(first, first | {"fusable": 11.0}))
    assert text == (
        "Device work takes 25.0\u00a0ms a step, and would take 10.0\u00a0ms at the limits of the device (formulas "
        "cover 96.0%). The difference: 10.0\u00a0ms traffic that fusion removes, 4.00\u00a0ms products with "
        "too few blocks, 1.00\u00a0ms work without a formula."
    )


def test_reasons_beyond_the_first_are_one() -> None:
    row = dict.fromkeys(REASONS, 10.0) | {"at_limit": 20.0}
    text = device_limits(steps(row), marked=False)
    assert text.startswith("Device work takes 100\u00a0ms, and would take 20.0\u00a0ms at the limits")
    assert text.endswith("40.0\u00a0ms other reasons.")
    assert text.count("10.0\u00a0ms") == 4


def test_nothing_is_said_of_what_formulas_do_not_cover() -> None:
    assert device_limits(steps({"uncovered": 5.0})) == ""
    assert device_limits(Result(steps({}).frame.clear(), named("roofline").schema)) == ""
    assert device_limits(steps({"at_limit": 2.0, "uncovered": 8.0})) == (
        "Formulas cover only 20.0% of the device time, too little to say how near it is to its limits."
    )


def test_a_missing_peak_is_no_missing_formula() -> None:
    assert device_limits(steps({"at_limit": 1.0, "uncovered": 9.0}, formula=9.0)) == (
        "Formulas cover 100% of the device time, but the peaks of the device are not known: `--peak` gives them."
    )
