"""The generated pages of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
import pytest

from docs import generate
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.rules import rules
from kinetoscope.analyses import ANALYSES
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(Column("name", pl.String, "A name | with a bar."), Column("idle", pl.Int64, "Idle time.", "ns"))


def idle_gaps(
    trace: object,
    select: object,
    *,
    min_gap: Annotated[int, Param("Shorter gaps do not count.", "ns")] = 5,
    by: Annotated[Literal["a", "b"], Param("What.")] = "a",
) -> Partial:
    """How long was each device idle?

    Method. Gaps are summed.
    """
    raise NotImplementedError(trace, select, min_gap, by)


def test_a_page_has_all_that_the_analysis_declares() -> None:
    text = generate.page(Analysis("GPU idle gaps", idle_gaps, RESULT))
    assert "\n# GPU idle gaps\n" in text
    assert "How long was each device idle?\n\n**Method.** Gaps are summed." in text
    assert "$ kinetoscope show idle-gaps PATH" in text
    assert "kinetoscope.idle_gaps(job)" in text
    assert "| `min_gap` | `--min-gap` | `int` | ns | `5` | Shorter gaps do not count. |" in text
    assert "| `by` | `--by` | `a`, `b` |  | `'a'` | What. |" in text
    assert "| `name` | String |  | A name \\| with a bar. |" in text
    assert "| `idle` | Int64 | ns | Idle time. |" in text


def planted(look: RankView) -> Iterator[Finding]:
    """Is anything planted?

    What it checks. Everything.

    Why it matters. It grows.

    What to do. Water it.
    """
    raise NotImplementedError(look)


def test_a_page_of_a_rule_has_its_headings() -> None:
    text = generate.page_of_rule(Rule("HOST999", "Something grows", of_rank=planted))
    assert "\n# HOST999: Something grows\n\nIs anything planted?" in text
    assert "**What it checks.** Everything.\n\n**Why it matters.** It grows.\n\n**What to do.** Water it." in text


@pytest.mark.slow
def test_check_finds_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path)]
    assert generate.main([*root, "--check"]) == 1
    assert generate.main(root) == 0
    assert generate.main([*root, "--check"]) == 0
    docs = tmp_path / "docs"
    analyses = docs / "analyses"
    assert {path.stem for path in analyses.iterdir()} == {"index", *(analysis.name for analysis in ANALYSES)}
    assert {path.stem for path in (docs / "rules").iterdir()} == {"index", *(rule.code for rule in rules())}
    (analyses / "index.md").write_text("old")
    (analyses / "gone.md").write_text("of an analysis that is no more")
    capsys.readouterr()
    assert generate.main([*root, "--check"]) == 1
    said = capsys.readouterr().err
    assert [Path(line.split()[0]).name for line in said.splitlines()] == ["gone.md", "index.md"]
    assert generate.main(root) == 0
    assert not (analyses / "gone.md").exists()
