"""The page `docs/zoo.md`: each program, what was said of it, and what is true."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.faults.page import ROOT, row
from tests.zoo.catalogue import Program
from tests.zoo.judging import GAIN, TWIN, Outcome
from tests.zoo.recording import WAYS

PAGE: Final[Path] = ROOT / "docs" / "zoo.md"

_HEAD: Final = """\
# A zoo of real programs

<!-- Written by `python -m tests.zoo`; a test compares it with the outcomes. -->

What does Kinetoscope say of programs that nobody wrote for it? These are small programs of frameworks as people write
them (`tests/zoo/programs`), with random weights and data that they make themselves, on a CPU. Each is recorded in four
ways: by `kinetoscope record` as it comes, and with Python's stacks; by `kinetoscope.profile` or the framework's
callback without shapes and memory, and with everything. Someone has read what is said of it beside its source; *true*
is what that person wrote. They were recorded with torch 2.13, those of timm and torchvision with timm 1.0.31,
torchvision 0.29.1 and the torch 2.14.1 that it is built for.

Of every recording has to be so: the self times of operators sum to the time in which the threads called anything, no
promise breaks a law, the steps are the program's own, no file of the recorder is named as the user's, the recorder
prints no line that is false, and the program computes what it computes without a recorder.

- *Found*: what the rule that is about the slow thing says in each way, in the order above: ● critical or a warning, ◐ a
  note, ○ nothing; ✓ nothing warns of a healthy program, or the code of the rule that does; – not recorded so.
- *Promised*: by how much of a step, at least and at most, in the first way that names it: of a step as recorded, which
  the profiler makes longer. *Gained*: what the fix brought without a profiler, of which the twin may mend more than
  the rule names. Both twins run four times, in turns; of each step counts the shortest, less the time in which other
  processes had the core. Gains of a few percent are known to some percent.
- *Twin*: ✓ the rule says nothing of the twin in which the fix is already in.

"""


def text(programs: Sequence[Program], outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    of = defaultdict[str, dict[str, Outcome]](dict)
    for each in outcomes:
        of[each.program][each.way] = each
    known = [each for each in programs if of[each.name]]
    parts = [_HEAD, _count(known, outcomes)]
    for family, members in groupby(sorted(known, key=lambda each: each.family), lambda each: each.family):
        listed = list(members)
        parts.append(f"## {family}\n\n{_table(listed, of)}\n")
        parts.append("\n".join(_words(each, of[each.name]) for each in listed) + "\n")
    return "\n".join(parts).rstrip("\n") + "\n"


def _count(programs: Sequence[Program], outcomes: Sequence[Outcome]) -> str:
    recordings = [each for each in outcomes if each.way != GAIN]
    sound = sum(not each.broken for each in recordings)
    slow = [each for each in programs if each.slow]
    gains = sum(each.gain is not None for each in outcomes)
    return (
        f"{len(programs)} programs, {len(slow)} of them slow and {len(programs) - len(slow)} healthy;"
        f" {len(recordings)} recordings, of which {sound} are as they have to be;\n"
        f"gains of {gains} of the slow ones are measured.\n"
    )


def _table(programs: Sequence[Program], of: Mapping[str, Mapping[str, Outcome]]) -> str:
    head = ("program", "what it is", "rule", "found", "promised", "gained", "twin")
    lines = [row(head), row(["---"] * 3 + [":-:"] + ["--:"] * 2 + [":-:"])]
    return "\n".join([*lines, *(_row(each, of[each.name]) for each in programs)]) + "\n"


def _row(program: Program, of: Mapping[str, Outcome]) -> str:
    named = next((of[way] for way in WAYS if way in of and of[way].code), None)
    gain = of[GAIN].gain if GAIN in of else None
    return row([
        f"`{program.name}`",
        program.what,
        f"`{named.code}`" if named else ", ".join(f"`{each}`" for each in program.rules),
        " ".join(_mark(program, of.get(way)) for way in WAYS),
        f"{named.low:.1%} … {named.high:.1%}" if named and named.high else "",
        f"{gain:.1%}" if gain is not None else "",
        _twin(program, of),
    ])  # fmt: skip


def _mark(program: Program, each: Outcome | None) -> str:
    if each is None:
        return "–"
    if program.slow is None:
        return " ".join(each.warned) or "✓"
    return {"": "○", "note": "◐"}.get(each.severity, "●")


def _twin(program: Program, of: Mapping[str, Outcome]) -> str:
    twins = [each for way, each in of.items() if way.endswith(TWIN)]
    return " ".join(each.code or "✓" for each in twins) if program.slow else ""


def _words(program: Program, of: Mapping[str, Outcome]) -> str:
    said = next((of[way].first for way in WAYS if way in of and of[way].first), "")
    wrong = sorted({each for outcome in of.values() for each in outcome.broken})
    slow = f" Slow by its source: {program.slow.rstrip('.')}." if program.slow else ""
    told = f"- `{program.name}`.{slow} Said first: “{said}” True: {program.true.rstrip('.')}."
    return told + "".join(f" **Not as it has to be: {each}.**" for each in wrong)
