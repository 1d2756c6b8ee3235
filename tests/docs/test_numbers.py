"""The numbers of the README: each is counted, or stands in a committed measurement."""

from __future__ import annotations

import re

import pytest

from docs import speed
from kinetoscope.advisor.rules import rules
from kinetoscope.analyses import ANALYSES
from kinetoscope.model.device.peaks import PEAKS
from kinetoscope.model.roofline.registry import FAMILIES
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("analyses", len(ANALYSES)),
        ("rules", len(rules())),
        ("devices", len(PEAKS)),
        ("operators", sum(map(len, FAMILIES.values()))),
    ],
)
def test_what_is_counted_is_counted_right(what: str, count: int) -> None:
    said = [int(number.replace(",", "")) for number in re.findall(rf"(\d[\d,]*) {what}\b", README)]
    assert said
    assert set(said) == {count}


def test_the_picture_has_each_tool_that_was_measured_and_the_text_its_numbers() -> None:
    whole = speed.wholes("large")
    assert set(whole) == set(speed.WHAT)
    ours = whole.pop("kinetoscope")
    times = sorted(row["wall"] / ours["wall"] for row in whole.values() if not row["note"])
    memory = sorted(row["peak"] / ours["peak"] for row in whole.values() if not row["note"])
    warm = {row["tool"]: row["wall"] for row in speed.measured()["rows"] if row["what"] == "warm: load + answer"}
    assert f"{times[0]:.0f} to {times[-1]:.0f} times as long" in README
    assert f"{memory[0]:.0f} to {memory[-1]:.0f} times the memory" in README
    assert f"{warm['kinetoscope']:.2f} s, HTA {warm['HTA']:.1f} s" in README
    assert speed.measured()["date"] in README
