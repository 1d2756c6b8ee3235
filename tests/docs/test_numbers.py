"""The numbers of the README: each is counted, or stands in a committed measurement."""

from __future__ import annotations

import re

import pytest

from docs import speed
from kinetoscope.advisor.rules import rules
from kinetoscope.analyses import ANALYSES
from kinetoscope.model.device.peaks import PEAKS
from kinetoscope.model.roofline.formulas.registry import ENTRIES
from tests.conftest import ROOT

SAID = " ".join((ROOT / "README.md").read_text("utf-8").split())


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("analyses", len(ANALYSES)),
        ("rules", len(rules())),
        ("devices", len(PEAKS)),
        ("operators", len(ENTRIES)),
    ],
)
def test_what_is_counted_is_counted_right(what: str, count: int) -> None:
    said = [int(number.replace(",", "")) for number in re.findall(rf"(\d[\d,]*) {what}\b", SAID)]
    assert said
    assert set(said) == {count}


@pytest.mark.parametrize("file", ["large", "varied"])
def test_the_text_has_the_numbers_of_the_picture(file: str) -> None:
    whole = speed.wholes(file)
    assert set(whole) == set(speed.WHAT)
    ours = whole.pop("kinetoscope")
    times = sorted(row["wall"] / ours["wall"] for row in whole.values() if not row["note"])
    memory = sorted(row["peak"] / ours["peak"] for row in whole.values() if not row["note"])
    assert f"{times[0]:.0f} to {times[-1]:.0f} times as long" in SAID
    assert f"{memory[0]:.0f} to {memory[-1]:.0f} times the memory" in SAID


def test_the_text_says_when_it_was_measured_and_what_is_warm() -> None:
    warm = {row["tool"]: row["wall"] for row in speed.measured()["rows"] if row["what"] == "warm: load + answer"}
    assert f"{warm['kinetoscope']:.2f} s, HTA {warm['HTA']:.1f} s" in SAID
    assert speed.measured()["date"] in SAID
