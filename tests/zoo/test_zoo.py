"""Programs of frameworks: what their authors say of them, recordings that are kept, and each program recorded anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.advisor.advice import advise
from kinetoscope.advisor.rules import rules
from kinetoscope.reading import read
from tests.traces.strip import problems
from tests.zoo import invariants, page
from tests.zoo.catalogue import Program, programs
from tests.zoo.judging import judged, kept
from tests.zoo.recording import WAYS

RECORDINGS = sorted(Path(__file__).with_name("recordings").glob("*.pt.trace.json.gz"))
CODES = {each.code for each in rules()}


@pytest.mark.parametrize("program", programs(), ids=lambda each: each.name)
def test_authors_say_what_is_true(program: Program) -> None:
    assert program.what
    assert program.true
    assert set(program.rules) <= CODES
    assert program.slow or not program.rules
    assert ("--fixed" in program.file.read_text("utf-8")) == bool(program.slow)


def test_page_is_of_the_outcomes() -> None:
    assert page.PAGE.read_text("utf-8") == page.text(programs(), kept()), "python -m tests.zoo --only-page"


def test_nothing_is_kept_that_is_not_as_it_has_to_be() -> None:
    assert [(each.program, each.way, each.broken) for each in kept() if each.broken] == []


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda each: each.name.partition(".")[0])
def test_kept_recordings(file: Path) -> None:
    name, twin = file.name.partition(".")[0], ".fixed." in file.name
    [program] = [each for each in programs() if each.name == name]
    job = read(str(file), jobs=1)
    advice = advise(job)
    assert list(invariants.broken(job, advice)) == []
    found = {each.code for each in advice.findings if not twin or each.severity != "note"}
    assert bool(found & set(program.rules)) == (bool(program.rules) and not twin)
    assert problems(file.read_bytes()) == []


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("at", "program"), list(enumerate(programs())), ids=lambda each: getattr(each, "name", ""))
def test_programs_recorded_anew(at: int, program: Program) -> None:
    """Each in one of the ways, with its twin: what is said of the time is another machine's business."""
    if program.absent:
        pytest.skip(f"{', '.join(program.absent)} is not installed")
    way = WAYS[at % len(WAYS)]
    compare = not program.needs or at % 3 == 0  # frameworks take seconds to import
    assert judged(program, way, compare=compare).broken == ()
    if program.slow and compare:
        twin = judged(program, way, fixed=True, compare=False)
        assert twin.broken == ()
        if program.ranks == 1:  # of several, those that lack a core are late
            assert twin.severity in ("", "note"), twin.first
