"""A run, its findings, or a comparison as one Markdown document: for a pull request, or for an agent with a budget.

A document is a list of blocks, the most important first. Where a budget in tokens is given, the last blocks go until
the rest fits, and the last line says how many went.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.advisor.advice import METHOD, Advice, stake_text
from kinetoscope.advisor.commands import command
from kinetoscope.advisor.finding import Finding
from kinetoscope.errors import UsageError
from kinetoscope.pages.digest import Digest
from kinetoscope.views.exports.budget import tokens
from kinetoscope.views.markdown import code, escaped, fenced, lines, notes, sentence, table_row
from kinetoscope.views.numbers import grouped, shown

Lines = Sequence[str]
"""Lines that stay or go together."""

_MIN_PART_SHARE: Final = 0.001
"""Share of the step below which a kind of time has no row."""


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


def of_run(digest: Digest) -> list[Lines]:
    """Where a step goes, what takes the time, and what to change."""
    words = sentence(
        " ".join(filter(None, [digest.headline, *digest.memory, digest.limits, *digest.damage, digest.ranks]))
    )
    blocks: list[Lines] = [
        [
            f"# {escaped(digest.name)}",
            "",
            escaped(" · ".join(digest.facts)),
            "",
            words,
            "",
            f"**{sentence(digest.first)}**" if digest.first else "",
        ],
    ]
    if digest.parts:
        blocks.append(["## Where a step goes", "", *_parts(digest)])
    blocks += [["## What to change", "", escaped(digest.first)]] if digest.advice is None else _findings(digest.advice)
    for title, rows in digest.tops:
        heads = ["", "calls", "time", "share"] if all(row.count for row in rows) else ["", "", "size", "share"]
        times = [[shown(row.time, row.unit), shown(row.share, "fraction")] for row in rows]
        table = [[code(row.name), row.count, *each] for row, each in zip(rows, times, strict=True)]
        blocks.append([f"## {escaped(title)}", "", *_table(heads, table)])
    if digest.health:
        blocks.append(["## The trace itself", "", *(f"- {escaped(': '.join(each))}" for each in digest.health)])
    blocks.append(["## Next", "", *(f"- {code(typed, 200)}: {escaped(purpose)}" for typed, purpose in digest.commands)])
    return blocks


def _joined(blocks: Sequence[Lines]) -> str:
    return lines([line for block in blocks for line in (*block, "")])


def _parts(digest: Digest) -> Iterator[str]:
    total = sum(part.time for part in digest.parts)
    rows = sorted((part for part in digest.parts if part.time > _MIN_PART_SHARE * total), key=lambda each: -each.time)
    cells = [[escaped(part.label), shown(part.time, "ns"), shown(part.time / total, "fraction")] for part in rows]
    yield from _table(["", "time", "share"], cells)


def _findings(advice: Advice) -> Iterator[Lines]:
    """A block for each finding, in the order of what is at stake."""
    if not advice.findings:
        yield ["## What to change", "", escaped(advice.headline)]
    for number, finding in enumerate(advice.findings, 1):
        head = ["## What to change", "", METHOD, ""] if number == 1 else []
        yield [*head, *finding_lines(finding, advice)]
    if advice.notes:
        yield ["## Notes on the findings", "", *notes(advice.notes)]


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


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Texts at the left, times at the right: those are all but the first, `status` and `shapes`."""
    sides = ["---" if place == 0 or head in ("status", "shapes") else "---:" for place, head in enumerate(heads)]
    return [table_row(heads), table_row(sides), *map(table_row, rows)]
