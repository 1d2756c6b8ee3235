"""A run, its findings, or a comparison as one Markdown document: for a pull request, or for an agent with a budget.

A document is a list of blocks, the most important first. Where a budget in tokens is given, the last blocks go until
the rest fits, and the last line says how many went.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kinetoscope.advisor.advice import Advice, stake_text
from kinetoscope.advisor.commands import command
from kinetoscope.advisor.finding import Finding
from kinetoscope.errors import UsageError
from kinetoscope.views.exports.budget import tokens
from kinetoscope.views.markdown import code, fenced, lines, sentence
from kinetoscope.views.numbers import grouped

Lines = Sequence[str]
"""Lines that stay or go together."""


def document(blocks: Sequence[Lines], budget: int | None = None) -> str:
    """The blocks as Markdown, in about `budget` tokens at most.

    Raises:
        UsageError: not even the first block fits.
    """
    text = _joined(blocks)
    if budget is None or tokens(text) <= budget:
        return text
    for kept in range(len(blocks) - 1, 0, -1):
        rest = f"… {len(blocks) - kept} more parts do not fit into {grouped(budget)} tokens."
        if tokens(text := _joined([*blocks[:kept], [rest]])) <= budget:
            return text
    raise UsageError(f"the first part alone has about {grouped(tokens(_joined(blocks[:1])))} tokens")


def _joined(blocks: Sequence[Lines]) -> str:
    return lines([line for block in blocks for line in (*block, "")])


def finding_text(finding: Finding, advice: Advice) -> str:
    """One finding as Markdown, with its number in the advice."""
    return "\n".join(finding_lines(finding, advice))


def finding_lines(finding: Finding, advice: Advice) -> Iterator[str]:
    """The lines of that."""
    number = advice.findings.index(finding) + 1
    yield f"### {number}. {sentence(finding.title)} ({finding.code}, {finding.severity})"
    yield ""
    timed = finding.stake.high > 0 and finding.step > 0
    stake = f"At stake: {stake_text(finding)}; {finding.certainty}, confidence {finding.confidence}." if timed else ""
    yield " ".join(
        filter(None, [stake, sentence(finding.detail), sentence(finding.why), *finding.remarks(advice.ranks)])
    )
    if finding.change:
        yield from ("", *fenced(finding.change, "diff"))
    if finding.evidence:
        yield ""
    for at, each in enumerate(finding.evidence, 1):
        place = f" ({code(f'{each.file}:{each.line}')})" if each.file else ""
        shown_by = command(each, advice.path, advice.ranks)
        yield f"- {number}.{at} {sentence(each.text)}{place}{f': {code(shown_by, 300)}' if shown_by else ''}"
