"""A page in a cell of a notebook: HTML with pictures as SVG inside.

As in `views.notebook` there is no script, no style sheet and nothing from the network, and all that a trace says is
text. Heights are bounded: what is not shown is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, Final

from kinetoscope.advisor.advice import Advice, is_part_sure, stake_of, stake_text
from kinetoscope.advisor.commands import call_of
from kinetoscope.advisor.finding import Finding
from kinetoscope.pages.blocks import (
    Block,
    CodeBlock,
    FindingsBlock,
    NoteBlock,
    Page,
    Part,
    PartsBlock,
    RooflineBlock,
    RowsBlock,
)
from kinetoscope.pages.grid import GridBlock
from kinetoscope.schema import Unit
from kinetoscope.screens.findings import MAX_IN_LINES, mark
from kinetoscope.screens.grid import grid, note_of
from kinetoscope.screens.terminal import result_of
from kinetoscope.views.charts.palette import KINDS, kind_of
from kinetoscope.views.charts.spans import Span, proportions, spans
from kinetoscope.views.names import shortened
from kinetoscope.views.notebook import boxed, notes, to_html
from kinetoscope.views.notebook import grid as table_of_texts
from kinetoscope.views.numbers import shown
from kinetoscope.views.text import middle, printable

MAX_WIDTH_PX: Final = 960
"""Width of prose: longer lines are hard to read."""

SOFT: Final = "opacity:0.7"
"""Style of text that stands back."""

_SEVERITY_KINDS: Final = {"critical": "waiting", "warning": "communication", "note": "host"}
_NAME_CELLS: Final = 64
_MAX_SENTENCE_CELLS: Final = 400


def html(page: Page) -> str:
    """The whole page."""
    facts = paragraph(" · ".join(page.facts), SOFT)
    head = [bold(page.title), facts, bold(page.sentence)] if page.title else [bold(page.sentence), facts]
    typed = (
        f'<div><code>{safe(text)}</code> <span style="{SOFT}">{safe(why)}</span></div>' for text, why in page.commands
    )
    return boxed(*head, *map(drawn, page.blocks), notes(page.cannot), *typed)


def drawn(block: Block) -> str:
    """A block with its title and its note."""
    draw: Callable[[Any], str] | None = _DRAW.get(type(block))
    made = grid(block) if draw is None else None
    body = draw(block) if draw is not None else _grid(made) if made is not None else ""
    title = getattr(block, "title", "")
    return f"{paragraph(title) if title else ''}{body}{paragraph(note_of(block), SOFT)}" if body else ""


def _note(block: NoteBlock) -> str:
    return paragraph(f"! {block.text}" if block.alert else block.text)


def _rows(block: RowsBlock) -> str:
    return to_html(result_of(block), limit=0) if block.rows else ""


def _code(block: CodeBlock) -> str:
    return _lines_of(block.text)


def _parts(block: PartsBlock) -> str:
    return _bar_of_parts(block.parts, block.unit)


def _roofline(block: RooflineBlock) -> str:
    return _bar_of_parts(block.parts, "ns")


def _bar_of_parts(of: Any, unit: Unit) -> str:
    """One bar, with what its colours mean."""
    parts: list[Part] = sorted((part for part in of if part.value > 0), key=lambda part: -part.value)
    total = sum(part.value for part in parts)
    return proportions(
        [
            (part.label, f"{shown(part.value, unit)}, {shown(part.value / total, 'fraction')}", part.value, part.kind)
            for part in parts
        ]
    )


def _grid(of: GridBlock) -> str:
    """A picture where its lines have bars, else a table."""
    texts = [row.cells[0] for row in of.rows]
    names = shortened(texts, _NAME_CELLS) if of.named else texts
    rest = paragraph(of.rest, SOFT)
    if not any(row.high > row.low for row in of.rows):
        rows = [[name, *row.cells[1:]] for name, row in zip(names, of.rows, strict=True)]
        about = [
            paragraph(f"{name}: {words}", SOFT) for name, row in zip(names, of.rows, strict=True) for words in row.about
        ]
        return table_of_texts([of.heads, *rows]) + "".join(about) + rest
    lines = [
        Span(
            "  " * row.indent + name,
            ", ".join(_labelled(head, text) for head, text in zip(of.heads[1:], row.cells[1:], strict=True) if text),
            KINDS[kind_of(row.kind) or "host"].light,
            row.low,
            row.high,
            strong=row.strong,
        )
        for name, row in zip(names, of.rows, strict=True)
    ]
    return spans(lines, of.start, max(line.high for line in lines)) + rest


def _labelled(head: str, text: str) -> str:
    """A number beside a bar, where no head says what it is: a count and a time of before say it themselves."""
    if head == "before":
        return f"before {text}"
    return f"{text} {head}" if text.replace(",", "").isdecimal() else text


# --- findings


def _findings(block: FindingsBlock) -> str:
    """Numbered: what is wrong, the stake, why, what to change, and the call that shows it."""
    advice, members = block.advice, [row.finding for row in block.findings if row.finding is not None]
    if block.headline:
        others = advice.notable[1:MAX_IN_LINES] if advice is not None else ()
        items = "".join(f"<li>{badge(each)} {safe(stake_of(each))}: {prose(each.title)}</li>" for each in others)
        return f"{bold(f'What to change: {block.headline}')}{f'<ul>{items}</ul>' if items else ''}"
    if advice is None or not members:
        return ""
    items = "".join(f'<li style="margin-bottom:0.8em">{"".join(_finding(each, advice))}</li>' for each in members)
    more = f"… {block.more} more of {len(advice.findings)} findings: advice.result has all." if block.more else ""
    return f"<ol>{items}</ol>{paragraph(more)}"


def _finding(finding: Finding, advice: Advice) -> Iterator[str]:
    yield f"<b>{prose(finding.title)}.</b> {prose(finding.detail)}<br>"
    stake = f" {safe(stake_text(finding))} of a step" if finding.step > 0 and finding.stake.high > 0 else ""
    yield f"{badge(finding)}{stake}"
    if stake:
        yield _bar_of_stake(finding)
    for remark in (finding.why, *finding.remarks(max(advice.ranks, 1))):
        yield paragraph(remark, SOFT)
    if finding.change:
        yield _lines_of(finding.change)
    for each in finding.evidence:
        place = f" ({each.file}:{each.line})" if each.file else ""
        of_rank = f" on rank {each.rank}" if each.rank is not None and advice.ranks > 1 else ""
        call = f" <code>{safe(call_of(each))}</code>{of_rank}" if each.analysis else ""
        yield f'<div style="{SOFT}">→ {prose(each.text + place)}{call}</div>'


def _bar_of_stake(finding: Finding) -> str:
    """The sure part, the possible part, and the step: on one line."""
    low, high = (min(max(end / finding.step, 0.0), 1.0) for end in (finding.stake.low, finding.stake.high))
    low = low if is_part_sure(finding) else 0.0
    ink = KINDS["waiting"].light
    parts = ['<rect width="320" height="6" fill-opacity="0.12"/>']
    for share, opacity in ((high, 0.4), (low, 1)):
        parts.append(f'<rect width="{320 * share:.1f}" height="6" fill="{ink}" fill-opacity="{opacity}"/>')
    return f'<br><svg width="320" height="6" fill="currentColor" role="img">{"".join(parts)}</svg>'


def _lines_of(code: str) -> str:
    lines = map(_changed, code.splitlines())
    return f'<pre style="margin:0.3em 0;white-space:pre-wrap">{"<br>".join(lines)}</pre>' if code else ""


def _changed(line: str) -> str:
    """A line of a diff, in the colour of what goes out or comes in."""
    kind = {"-": "waiting", "+": "memory"}.get(line[:1])
    style = f' style="color:{KINDS[kind].light}"' if kind else ""
    return f"<span{style}>{safe(line)}</span>"


def badge(finding: Finding) -> str:
    """Severity, certainty and code, behind a line in the colour of the severity."""
    ink = KINDS[_SEVERITY_KINDS[finding.severity]].light
    return f'<span style="border-left:4px solid {ink};padding-left:4px">{safe(mark(finding))}</span>'


# --- words


def prose(text: str) -> str:
    """Text from a rule, with what stands between backquotes as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", safe(text))


def bold(text: str) -> str:
    """A sentence that stands out."""
    said = prose(middle(printable(text), _MAX_SENTENCE_CELLS))
    return f'<p style="max-width:{MAX_WIDTH_PX}px;margin:0.3em 0"><b>{said}</b></p>'


def paragraph(text: str, style: str = "") -> str:
    """A paragraph; nothing where there is no text."""
    return f'<p style="max-width:{MAX_WIDTH_PX}px;margin:0.3em 0;{style}">{prose(text)}</p>' if text else ""


def safe(text: str) -> str:
    """Text without markup."""
    return escape(printable(text))


_DRAW: Final[dict[type[Block], Callable[[Any], str]]] = {
    NoteBlock: _note,
    RowsBlock: _rows,
    PartsBlock: _parts,
    RooflineBlock: _roofline,
    FindingsBlock: _findings,
    CodeBlock: _code,
}
"""Functions that draw kinds of blocks that are no grids."""
