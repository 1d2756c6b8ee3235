"""The page `docs/planted-faults.md`: all cases, what was found, promised and gained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.faults.judging import ERROR, Judged, Score, score
from tests.faults.outcomes import Outcomes, Warned

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "planted-faults.md"

HEAD: Final = """\
# Planted faults

<!-- Written by `python -m tests.faults`; a test compares it with the outcomes. -->

Is the advisor right? Programs with one thing wrong on purpose tell, each beside its twin in which that thing is mended.
Faults of devices are in simulated programs: a host that issues, a queue, streams, events, copies, the workers of a
loader and autograd's thread, drawn as the trace that a profiler would have written; what the fault costs is the
difference between the two simulations. *Real programs* run with torch on a CPU, are recorded by `kinetoscope.profile`,
and what the fix brings is measured in turns, without a profiler. Under *Device efficiency* a kernel takes what a model
of tiles, waves, caches and drawn shares of the peaks says, which knows nothing of the floors that the advisor computes.

- *Found*: the rule that is about the fault names it; in brackets its place among all findings.
- *Promised*: by how much the step would be shorter, at least and at most. *Gained*: what the fix brought. *Kept*: the
  gain lies in the promised interval, but for what the two means may be wrong by: {error:.1%} of the step in simulated
  programs, two standard errors in real ones.
- *Wrong*: what is warned of although it is mended; on healthy programs everything that is warned of.

"""

_PLOT: Final = """\
## Promised and gained

![Promised intervals beside what the fix brought](images/calibration.svg)

Each bar is a case: from what its finding promises at least to what it promises at most, in shares of a step, above what
the fix brought. A bar that crosses the diagonal was kept.
"""


def text(outcomes: Outcomes) -> str:
    """The whole page."""
    parts = [HEAD.format(error=ERROR), scores(outcomes), _PLOT]
    for family, cases in groupby(outcomes.cases, lambda each: each.family):
        parts.append(f"## {family}\n")
        parts.append(_table(list(cases)))
    parts.append("## Healthy programs\n")
    parts.append(_healthy(outcomes.healthy))
    return "\n".join(parts)


def scores(outcomes: Outcomes) -> str:
    """A line for each family, and one for all."""
    lines = [
        "| family | cases | found | wrong warnings | with a gain | kept | median width | rank correlation |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for family, cases in groupby(outcomes.cases, lambda each: each.family):
        lines.append(_scored(family, score(cases)))
    if outcomes.healthy:
        lines.append(_scored("Healthy programs", score((), [each.codes for each in outcomes.healthy])))
    lines.append(_scored("**all**", score(outcomes.cases, [each.codes for each in outcomes.healthy])))
    return "\n".join(lines) + "\n"


def _scored(name: str, of: Score) -> str:
    told = [name, str(of.cases or ""), f"{of.found} ({of.recall:.0%})" if of.cases else ""]
    told.append(f"{of.false} of {of.runs} ({of.falsehood:.1%})")
    if of.timed:
        told += [str(of.timed), f"{of.kept} ({of.containment:.0%})", f"{of.width:.1%}", f"{of.correlation:.2f}"]
    else:
        told += [""] * 4
    return row(told)


def _table(cases: Sequence[Judged]) -> str:
    lines = [
        "| rule | what is wrong | step | found | promised | gained | kept | wrong |",
        "| --- | --- | --: | --- | --: | --: | --- | --- |",
    ]
    for each in cases:
        low, high = each.promised
        known = each.timed and each.found
        lines.append(
            row([
                f"`{each.code}`",
                each.name,
                f"{each.faulty / 1e6:.2f} ms" if each.faulty else "",
                f"{each.severity} ({each.place})" if each.found else "**missed**",
                f"{low:.1%} … {high:.1%}" if known else "",
                f"{each.gain:.1%}" if each.timed else "",
                ("yes" if each.kept else "**no**") if known else "",
                ", ".join(f"**{code}**" for code in each.false),
            ])
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def _healthy(programs: Sequence[Warned]) -> str:
    lines = ["| program | wrong |", "| --- | --- |"]
    lines += [row([each.name, ", ".join(f"**{code}**" for code in each.codes)]) for each in programs]
    return "\n".join(lines) + "\n"


def row(cells: Sequence[str]) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"
