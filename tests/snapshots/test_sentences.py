"""Each number that is said of a memory snapshot is looked up in its table: on the page, in the summary, in findings."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.advisor.advice import advise
from tests.catalog.test_sentences import Tables, page_of, sentences_of
from tests.conftest import SHARED

_REAL = sorted((Path(__file__).parent / "real").glob("*_2.15.0.pickle.gz"))
_SAMPLES = sorted((SHARED.parent / "samples" / "memory").glob("*.pickle"))


@pytest.mark.parametrize("path", [*_REAL, *_SAMPLES], ids=lambda path: path.name.partition(".")[0])
def test_each_number_of_a_snapshot_is_in_its_table(path: Path) -> None:
    job = kinetoscope.read(path, jobs=1)
    tables, advice = Tables(job), advise(job)
    said = [*sentences_of(page_of("memory", job)), *sentences_of(page_of("findings", job))]
    said += [*sentences_of(kinetoscope.summary(job)), advice.headline]
    said += [text for finding in advice.findings for text in (finding.message, finding.why)]
    assert [each for sentence in said for each in tables.wrong(sentence)] == []
