"""`kinetoscope advise`: the screen, the table, the explanations."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from kinetoscope.advisor.advice import Advice
from kinetoscope.advisor.finding import NO_STAKE, Evidence, Finding, Stake
from kinetoscope.advisor.rules import rules
from kinetoscope.cli import main
from kinetoscope.notes import Note
from kinetoscope.pages.findings import FINDINGS, of_advice
from kinetoscope.screens.findings import MAX_LINE_CELLS
from kinetoscope.screens.terminal import lines
from kinetoscope.views.terminal.lines import with_colour, without_colour
from kinetoscope.views.text import cells
from tests.cli.run import MLP, TRACES, without_compiling

MS = 1_000_000
EVIL = "\x1b]0;owned\x07[bold]x[/bold]\u202e"

LOADING = Finding(
    code="DATA001",
    severity="critical",
    message="The training process makes each batch itself. That takes 40 ms of each step.",
    stake=Stake(25.0 * MS, 50.0 * MS),
    step=100.0 * MS,
    change="- DataLoader(dataset)\n+ DataLoader(dataset, num_workers=4)",
    why="Four workers share the host with this process.",
    evidence=(
        Evidence("the longest of them", "step_breakdown", start=1_203_456_789, end=1_272_000_001, row=5, rank=2),
        Evidence("the call", file="train.py", line=88),
    ),
    ranks=(0, 1, 2, 3),
)
WAITING = Finding(
    code="HOST004",
    severity="note",
    message="`aten::item` waits.",
    stake=Stake(0.0, 3.3 * MS),
    step=100.0 * MS,
    evidence=(Evidence("most", "kernels", params={"by": "name"}),),
    ranks=(2,),
    same_time_as="DATA001",
    confidence="low",
)
BLIND = Finding(
    code="RECORDING002", severity="note", message="Python stacks were not recorded.", stake=NO_STAKE, step=100.0 * MS
)
ADVICE = Advice((LOADING, WAITING, BLIND), 100.0 * MS, (Note("A", "A remark."),), path="runs/a b", ranks=4)


def drawn(advice: Advice = ADVICE, *, width: int = 90, limit: int | None = None) -> list[str]:
    return without_colour(lines(of_advice(advice, limit=limit), width=width)).splitlines()


def test_the_head_is_the_first_finding_and_counts_the_others() -> None:
    text = " ".join(drawn()[:3]).replace("\u00a0", " ")
    assert text == (
        "Up to 50.0 ms of 100 ms (50%): the training process makes each batch itself; 25.0 ms of it is sure."
        " A step takes 100 ms on average over 4 ranks: 1 critical, 2 notes."
    )


def test_the_time_at_stake_is_drawn_on_the_scale_of_the_step() -> None:
    row = next(line for line in drawn() if "critical, sure DATA001" in line)
    bar = re.search("█+▒+·+", row)
    assert bar is not None
    length = len(bar[0])
    assert abs(bar[0].count("█") - 0.25 * length) <= 0.5
    assert abs(bar[0].count("▒") - 0.25 * length) <= 1
    assert row.endswith("  25.0 – 50.0\u00a0ms (25 – 50%)")
    other = next(line for line in drawn() if "note, guess HOST004" in line)
    assert other.endswith("  up to 3.30\u00a0ms (3.3%)")
    assert "█" not in other
    assert re.search("[█▒·]", other).start() == bar.start()  # type: ignore[union-attr]


def test_where_to_look_is_what_to_type() -> None:
    text = drawn()
    place = next(index for index, line in enumerate(text) if "→ the longest of them" in line)
    assert text[place + 1].strip() == (
        "kinetoscope show step-breakdown 'runs/a b' --ranks 2 --time-range 1203.456ms..1272.001ms"
    )
    assert any(line.strip() == "→ the call (train.py:88)" for line in text)
    assert any(line.endswith("kinetoscope show kernels 'runs/a b' --by name") for line in text)


def test_what_else_is_known_about_a_finding() -> None:
    text = [line.strip() for line in drawn()]
    assert "· On rank 2 only." in text
    assert not any("0-3" in line for line in text), "all ranks need no word"
    assert "· DATA001 counts most of this time already." in text
    assert "· A remark." in text
    assert "note RECORDING002" in text, "where no time is at stake there is no bar"


def test_as_many_as_fit_on_a_screen() -> None:
    many = Advice((BLIND,) * (FINDINGS + 2), 0.0)
    assert "… 2 more findings (--limit 0 shows all)" in drawn(many)
    assert not any("more finding" in line for line in drawn(many, limit=0))
    assert "… 6 more findings (--limit 0 shows all)" in drawn(many, limit=1)


def test_nothing_found_is_one_calm_sentence() -> None:
    assert drawn(Advice((), 2.0 * MS, ranks=4)) == [
        "No rule finds anything that costs time.",
        "A step takes 2.00\u00a0ms on average over 4 ranks.",
    ]


@pytest.mark.parametrize("width", [50, 80, 100, 240])
def test_it_stays_in_its_width_but_for_what_is_copied(width: int) -> None:
    for line in drawn(width=width):
        assert cells(line) <= min(width, MAX_LINE_CELLS) or "kinetoscope " in line


def test_a_hostile_trace_stays_text() -> None:
    evil = dataclasses.replace(
        LOADING,
        message=EVIL,
        why=EVIL,
        change="+ " + EVIL,
        evidence=(Evidence(EVIL, "kernels", {"x": EVIL}, file=EVIL),),
    )
    for text in ("\n".join(drawn(Advice((evil,), 1.0, (Note("EVIL", EVIL),), path=EVIL))),):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[bold]x[/bold]" in text
    assert "\x1b]0;owned" not in with_colour(lines(of_advice(Advice((evil,), 1.0, path=EVIL)), width=80))


def test_a_real_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(MLP)]) == 0
    said = capsys.readouterr()
    assert without_compiling(said.err) == ""
    assert "\nA step takes " in said.out


def test_the_table_is_that_of_every_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(MLP), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["analysis"] == "advise"
    names = [column["name"] for column in found["columns"]]
    assert names[:7] == ["number", "code", "severity", "certainty", "message", "at_stake_low", "at_stake_high"]
    file = tmp_path / "found.csv"
    assert main(["advise", str(MLP), "-o", str(file)]) == 0
    assert file.read_text().startswith("number,code,severity,certainty,message")


def test_only_what_matters_so_much(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(TRACES / "mlp.pt.trace.json.gz"), "--min-severity", "critical", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row[1] for row in found["rows"]} <= {"critical"}


@pytest.mark.parametrize("code", [rule.code for rule in rules()])
def test_every_rule_is_explained(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--explain", code.lower()]) == 0
    text = capsys.readouterr().out
    assert text.startswith(code)
    for heading in ("What it checks.", "Why it matters.", "What to do."):
        assert f"\n{heading} " in text


def test_all_rules_are_listed_below_their_families(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--explain", "all"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Data\n  DATA001 ")
    assert len([line for line in text.splitlines() if line.startswith("  ")]) == len(rules())


def test_an_unknown_rule_and_no_path_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", "--explain", "DATA01"]) == 2
    assert "did you mean 'data001'?" in capsys.readouterr().err
    assert main(["advise"]) == 2
    assert capsys.readouterr().err.startswith("kinetoscope: advise takes a PATH")
