"""What is remembered of trials: how promises turned out, in a file that may be missing, damaged, or not wanted."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.advisor import history
from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.history import TrialRecord, history_file, machine_of, record_of, records, remember
from kinetoscope.compare.trials.learned import records_of
from kinetoscope.pages.findings import of_advice
from kinetoscope.reading import read
from tests.conftest import OURS
from tests.sentences import agrees
from tests.tried import FAILED, KEPT, NO_GAIN, TOGETHER

AS_PROMISED = TrialRecord(
    trial="workers",
    codes=("DATA001",),
    promised_low=0.3,
    promised_high=0.6,
    brought=0.63,
    brought_low=0.58,
    brought_high=0.66,
    outcome="kept",
    machine="a",
    date="2026-11-28",
)
LESS = replace(AS_PROMISED, brought=0.2, brought_low=0.15, brought_high=0.25)
MORE = replace(AS_PROMISED, brought=0.7, brought_low=0.65, brought_high=0.75)
FAILURE = replace(AS_PROMISED, brought=None, brought_low=None, brought_high=None, outcome="failed")


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the history is, in a folder of the test's own."""
    monkeypatch.delenv(history.OPT_OUT)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "kinetoscope" / "trials.jsonl"


def test_what_is_remembered_comes_back(file: Path) -> None:
    remember([AS_PROMISED, LESS])
    remember([FAILURE])
    assert records() == (AS_PROMISED, LESS, FAILURE)
    assert file.stat().st_mode & 0o077 == 0


def test_nothing_is_kept_where_that_is_not_wanted(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember([AS_PROMISED])
    monkeypatch.setenv(history.OPT_OUT, "1")
    remember([LESS])
    assert records() == ()
    assert history_file() is None
    monkeypatch.setenv(history.OPT_OUT, "0")
    assert records() == (AS_PROMISED,)


def test_no_test_reads_the_file_of_a_developer() -> None:
    assert history_file() is None


def test_a_line_has_no_path_no_command_and_no_host(file: Path) -> None:
    remember(records_of(KEPT, machine=machine_of("GPU", "2.13"), date="2026-11-28"))
    text = file.read_text()
    assert "train.py" not in text
    assert os.uname().nodename not in text
    assert {key for line in text.splitlines() for key in json.loads(line)} == {*vars(AS_PROMISED)}


@given(lines=st.lists(st.binary(max_size=40), max_size=5))
def test_damaged_lines_are_passed_over(file: Path, lines: list[bytes]) -> None:
    file.unlink(missing_ok=True)
    remember([AS_PROMISED])
    with file.open("ab") as opened:
        opened.write(b"\n".join(lines) + b"\n")
    remember([LESS])
    assert records() == (AS_PROMISED, LESS)


@pytest.mark.parametrize(
    "changed",
    [
        {"codes": "DATA001"},
        {"codes": [1]},
        {"promised_low": "0"},
        {"promised_high": None},
        {"brought": True},
        {"brought": float("nan")},
        {"trial": None},
        {"machine": ["a"]},
    ],
)
def test_a_line_of_other_kinds_is_passed_over(file: Path, changed: dict[str, object]) -> None:
    remember([AS_PROMISED])
    line = {**json.loads(file.read_text()), **changed}
    file.write_text(json.dumps(line) + "\n" + "[" * 100_000 + "\n7\n[]\n")
    assert records() == ()


def test_the_file_is_bounded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_LINES", 10)
    for number in range(40):
        remember([replace(AS_PROMISED, trial=f"{number}")])
    assert 5 <= len(records()) <= 10
    assert records()[-1].trial == "39"
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_what_cannot_be_written_or_read_makes_no_noise(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file.parent.write_text("no folder")
    remember([AS_PROMISED])
    assert records() == ()
    file.parent.unlink()
    file.mkdir(parents=True)
    remember([AS_PROMISED])
    assert records() == ()
    file.rmdir()
    os.mkfifo(file)  # a program that waits for a reader would hang
    remember([AS_PROMISED])
    assert records() == ()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ([], ""),
        ([replace(LESS, codes=("HOST001",))], ""),
        ([AS_PROMISED], "Tried here once: as promised."),
        ([LESS, LESS], "Tried here twice: each time less than promised."),
        ([AS_PROMISED, LESS, AS_PROMISED], "Tried here 3 times: 2 as promised, 1 less than promised."),
        (
            [MORE, FAILURE, AS_PROMISED, replace(LESS, machine="b")],
            "Tried here 4 times, on 2 machines: 1 as promised, 1 failed, 1 less than promised, 1 more than promised.",
        ),
        ([FAILURE], "Tried here once: it failed."),
    ],
)
def test_the_record_of_a_rule_in_a_sentence(known: list[TrialRecord], text: str) -> None:
    sentence = record_of("DATA001", known)
    assert sentence == text
    assert all(map(agrees, sentence.quantities))


def test_each_face_of_advice_shows_the_record(file: Path) -> None:
    job = read(str(OURS / "dataloader.pt.trace.json.gz"))
    plain = advise(job)
    remember([AS_PROMISED, LESS, AS_PROMISED])
    advice = advise(job)
    said = "Tried here 3 times: 2 as promised, 1 less than promised."
    assert plain["DATA001"].record == ""
    assert advice["DATA001"].remarks(1) == [said]
    page = of_advice(advice)
    assert said in str(page)
    assert said in page.to_markdown()
    assert said in page._repr_html_()
    facts = advice.result.frame.row(0, named=True)["facts"]
    assert [(each["text"], each["value"]) for each in facts if each["part"] == "record"] == [
        ("3 times", 3.0),
        ("2", 2.0),
        ("1", 1.0),
    ]


def test_what_rules_promised_and_what_came_are_shares_of_the_step() -> None:
    tried = replace(
        KEPT, trials=(TOGETHER, NO_GAIN, replace(FAILED, promised_high=9_000_000, recorded_step=90_000_000))
    )
    first, failed = records_of(tried, machine="m", date="2026-11-28")
    assert (first.promised_low, first.promised_high) == pytest.approx((28.4 / 90, 53.6 / 90))
    assert (first.brought, first.brought_low, first.brought_high) == (0.631, 0.60, 0.66)
    assert first.word == "more than promised"
    assert (failed.word, failed.brought, failed.outcome) == ("failed", None, "failed")
