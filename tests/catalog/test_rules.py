"""What holds of every rule: it is listed, documented, and says only what is whole, on every trace we have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kinetoscope.advisor import rules as package
from kinetoscope.advisor.advice import RESULT
from kinetoscope.advisor.finding import SEVERITIES, Finding
from kinetoscope.advisor.rule import HEADINGS, Rule
from kinetoscope.advisor.rules import FAMILIES, families, rules
from kinetoscope.analyses import NAMES
from kinetoscope.model.job import Job
from kinetoscope.model.steps.scope import origin_of_time
from tests.catalog.samples import advice_of, everywhere, job_of

_CODE = re.compile(r"[A-Z]+[0-9]{3}")


def test_the_list_is_the_folder() -> None:
    there = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - {"__init__"}
    assert {name for names in FAMILIES.values() for name in names} == there


def test_codes_are_in_order_and_each_is_once() -> None:
    codes = [rule.code for rule in rules()]
    assert all(_CODE.fullmatch(code) for code in codes)
    assert len(set(codes)) == len(codes)
    for of_family in families().values():
        assert [rule.code for rule in of_family] == sorted(rule.code for rule in of_family)
        assert len({rule.family for rule in of_family}) <= 1


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.code)
def test_a_rule_says_what_it_checks_why_and_what_to_do(rule: Rule) -> None:
    assert (rule.of_rank is None) != (rule.of_job is None)
    assert rule.of_rank is not None or rule.needs is None  # those are needs of a rank
    assert not rule.title.endswith(".")
    question, _, rest = rule.doc.partition("\n\n")
    assert question.endswith("?")
    assert "\n" not in question
    begun = [re.match(rf"({'|'.join(HEADINGS)})\.", paragraph) for paragraph in rest.split("\n\n")]
    assert [found[1] for found in begun if found] == list(HEADINGS)


@pytest.mark.parametrize("file", everywhere())
def test_every_finding_of_every_trace_is_whole(file: Path) -> None:
    job, advice = job_of(file), advice_of(file)
    for finding in advice.findings:
        is_whole(finding, job)
    shown = [(SEVERITIES.index(each.severity), each.stake.high) for each in advice.findings if each.stake.high > 0]
    assert shown == sorted(shown, reverse=True)
    assert advice.result.frame.columns == RESULT.names
    assert not [note for note in advice.notes if note.code == "RULE_FAILED"]


def is_whole(finding: Finding, job: Job) -> None:
    """Sentences are sentences, intervals are intervals, and what is named exists."""
    assert finding.code in {rule.code for rule in rules()}
    assert finding.severity in SEVERITIES
    for sentence in (finding.message, finding.why):
        assert not sentence or sentence.endswith((".", ")"))
        assert sentence.replace("\u00a0", " ").isprintable()
    assert len(finding.message) < 300
    assert 0 <= finding.stake.low <= finding.stake.high <= finding.step * (1 + 1e-9)
    assert finding.severity in ("note", finding.at_least) or finding.stake.low > 0
    assert finding.severity in ("note", finding.at_least) or finding.confidence != "low"
    assert all(line[:1] in ("-", "+", " ") for line in finding.change.splitlines())
    assert len(finding.change.splitlines()) <= 4
    assert len(finding.evidence) <= 3
    for each in finding.evidence:
        assert each.text
        assert not each.analysis or each.analysis in NAMES
        if each.row is not None:
            assert each.rank is not None
            trace = job.trace(each.rank)
            assert 0 <= each.row < len(trace)
            if each.start is not None and each.end is not None:
                assert 0 <= each.start <= each.end
                assert trace.start[each.row] - origin_of_time(trace) <= each.end
