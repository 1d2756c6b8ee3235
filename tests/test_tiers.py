"""No test is outside of both tiers: what `make test` leaves out `make test-all` runs, and CI runs both."""

from __future__ import annotations

import re
from functools import partial
from itertools import chain, combinations

from _pytest.mark.expression import Expression

from tests.conftest import ROOT

MARKS = ("slow", "torch", "hypothesis")


def test_each_test_is_in_a_tier() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    tiers = [Expression.compile(text) for text in re.findall(r"^(?:FIRST|REST) := (.*)$", makefile, re.MULTILINE)]
    assert len(tiers) == 2
    for marks in chain.from_iterable(combinations(MARKS, count) for count in range(len(MARKS) + 1)):
        assert any(tier.evaluate(partial(_has, marks)) for tier in tiers), marks
    for name in ("test", "test-all"):
        assert f"stage make {name}\n" in (ROOT / ".ci" / "run").read_text("utf-8")


def _has(marks: tuple[str, ...], name: str, /, **_: object) -> bool:
    return name in marks
