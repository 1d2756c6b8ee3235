"""The page `docs/agreement.md`: how many comparisons agree, and every difference by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tests.catalog.samples import ROOT
from tests.golden.differences import DIFFERENCES, Difference
from tests.golden.outcome import Agrees, CannotApply, Differs
from tests.golden.rows import Row, kind, names

PAGE: Final = ROOT / "docs" / "agreement.md"
PEERS: Final = {"hta": "HTA", "plugin": "TensorBoard plugin", "tracelens": "TraceLens"}
RIGHT: Final = {"we": "We are right", "both": "A matter of definition", "the peer": "The peer is right"}

HEAD: Final = """\
# Agreement with the predecessors

<!-- Written by `python -m tests.golden`; a test compares it with the outcomes. -->

People come with numbers from Holistic Trace Analysis (HTA), the TensorBoard plugin and TraceLens. Each number that
these give for the real traces that we test with is compared with ours: a row below for each analysis, a comparison for
each trace and each way in which the peer was asked (HTA with and without its last step, with and without its rounding).
TraceLens publishes tables of two of the traces: each operator and shape there is a comparison of calls, operations,
bytes and device time.

- *Agree*: equal, to the peer's own rounding. HTA's answers are rounded to microseconds and leave the last step out; we
  are then asked about what is left of the trace after that. *Nothing there*: both say that there is nothing, as of
  device work on a trace of the host alone.
- *Differ on purpose*: equal only if rules of the peer are applied that we do not share. Each has a name below; it is
  checked that with these rules, and no fewer, our answer becomes the peer's.
- *Cannot apply*: the peer fails on the trace, or no analysis answers it.

Columns that only we have, rows that only we have (calls of the runtime, annotations, copies), and standard deviations,
which only HTA has, are not compared.
"""

TORCH: Final = """\
## Torch's own tables

Of the recordings that torch's `key_averages` was printed for (14, with and without stacks), `operators(python=True)`
has the same calls, times and memory in each row but those that torch counts twice; by torch's rules all rows are equal.

**calls in calls of their name.** Torch adds their times up, and takes one for the same call only if nothing stands
beside it: `aten::arange` calls its out-variant beside `aten::empty` and has twice the calls and the time; a module in a
module has the time of `_call_impl` once for each level. A matter of definition: here a total is at most the time that
there was.

**calls that overlap in part.** Torch takes off a call's duration all that lies in it as a whole, also where that
overlaps: the frame that a profiled loop runs in has a self time of -77 us. We are right: time is not negative.
"""


def text(outcomes: Mapping[Row, str]) -> str:
    """The whole page."""
    parts = [HEAD, counts(outcomes)]
    for peer, name in PEERS.items():
        parts.append(f"## Differences from {'the ' if peer == 'plugin' else ''}{name}\n")
        parts += [_told(each, outcomes) for each in DIFFERENCES if each.peer == peer]
    parts.append(TORCH)
    parts.append("## What cannot be compared\n")
    parts.append(_reasons(outcomes))
    return "\n".join(parts)


def counts(outcomes: Mapping[Row, str]) -> str:
    """The table of counts."""
    lines = [
        "| analysis | peer | agree | of these: nothing there | differ on purpose | cannot apply |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    for peer, name in PEERS.items():
        for analysis in sorted({row.analysis for row in outcomes if row.peer == peer} - {"-"}):
            found = [said for row, said in outcomes.items() if (row.peer, row.analysis) == (peer, analysis)]
            lines.append(_line(f"`{analysis}`", name, found))
        rest = [said for row, said in outcomes.items() if (row.peer, row.analysis) == (peer, "-")]
        lines.append(_line("(none)", name, rest))
    lines.append(_line("**all**", "", outcomes.values()))
    return "\n".join(lines) + "\n"


def _line(analysis: str, peer: str, found: Iterable[str]) -> str:
    said = list(found)
    number = Counter(kind(each) for each in said)
    nothing = said.count(str(Agrees(nothing=True)))
    return f"| {analysis} | {peer} | {number[Agrees]} | {nothing} | {number[Differs]} | {number[CannotApply]} |"


def _told(each: Difference, outcomes: Mapping[Row, str]) -> str:
    where = [row for row, said in outcomes.items() if row.peer == each.peer and each.name in names(said)]
    analyses = ", ".join(f"`{name}`" for name in sorted({row.analysis for row in where}))
    traces = len({row.name.rpartition("/")[2] if row.peer == "hta" else row.name for row in where})
    plural = "s" if traces != 1 else ""
    return f"**{each.name}** ({analyses}; {traces} trace{plural}). {each.what} {RIGHT[each.right]}: {each.why}\n"


def _reasons(outcomes: Mapping[Row, str]) -> str:
    prefix = "cannot apply: "
    number = Counter((row.peer, _section(row), said) for row, said in outcomes.items())
    lines = ["| peer | what | comparisons | why |", "| --- | --- | --: | --- |"]
    for (peer, section, said), count in sorted(number.items()):
        if said.startswith(prefix):
            lines.append(f"| {PEERS[peer]} | {section} | {count} | {said.removeprefix(prefix)} |")
    return "\n".join(lines) + "\n"


def _section(row: Row) -> str:
    """What a comparison is of; those of TraceLens' operators and shapes are one."""
    return "an operator and shape" if row.peer == "tracelens" else f"`{row.section.removeprefix('last__')}`"
