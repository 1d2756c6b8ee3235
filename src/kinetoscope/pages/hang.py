"""Hang: which rank, which collective and which line the others wait for; what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import polars as pl

from kinetoscope.analyses import asked
from kinetoscope.model.analysis import Question
from kinetoscope.model.hangs.of_job import PACKED, both, packed_records, unpacked, unread
from kinetoscope.model.hangs.records import HOSTS, Records
from kinetoscope.model.hangs.remedies import REMEDIES
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.text import listed
from kinetoscope.pages.blocks import Block, CodeBlock, NoteBlock, Page, RowsBlock, TableBlock
from kinetoscope.pages.pictures.cycle import cycle_picture
from kinetoscope.pages.pictures.rank_states import states_picture
from kinetoscope.pages.sections.tables import table, with_values
from kinetoscope.pages.sentences.hang import hang_sentence, remedy_of
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.numbers import grouped
from kinetoscope.views.sentences import constant, join, say

_OTHER_VERDICTS: Final = 3
"""Verdicts beyond the first that are said in sentences."""

_STACKS: Final = 50

_VERDICTS: Final = (
    "cause", "certainty", "ranks", "group", "seq", "name", "line", "waiting", "waiting_line", "waited", "timeout",
    "activity", "ended", "damage", "differs", "waits",
)  # fmt: skip
_CALLS: Final = (
    "verdict", "rank", "group", "seq", "name", "state", "input_sizes", "output_sizes", "types", "waited", "line",
)  # fmt: skip
_STATES: Final = (
    "rank", "group", "state", "seq", "name", "input_sizes", "output_sizes", "types", "since", "behind", "line",
)  # fmt: skip

HOSTS_OF_RANKS: Final = Schema(
    Column("count", pl.Int64, "How many ranks stand there."),
    Column("ranks", pl.String, "Which."),
    *(HOSTS[name] for name in ("activity", "line", "ended", "stack")),
)


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of a hang, of all ranks: they are asked once, and the analyses answer from what they say."""
    del params
    questions = {name: asked(name, select=select) for name in ("hang", "collective_states")}
    records = Question(packed_records, PACKED, select, combine=both, unread=unread, shared=True, of_events=False)
    answers = job.ask(questions | {"records": records})
    return composed(answers["hang"], answers["collective_states"], unpacked(answers["records"].frame))


def composed(hang: Result, of_ranks: Result, records: Records) -> Page:
    """The page, from the answers of `hang` and `collective_states`, and the records that they rest on."""
    notes = tuple(dict.fromkeys((*hang.notes, *of_ranks.notes)))
    return Page("hang", "Hang", hang_sentence(hang), _facts(hang), tuple(_blocks(hang, of_ranks, records)), notes)


def _facts(hang: Result) -> tuple[str, ...]:
    if not hang.frame.height:
        return ()
    row = hang.frame.row(0, named=True)
    of = f" of {grouped(row['world'])}" if row["world"] else ""
    timeout = row["timeout"]
    limit = [f"timeout {constant(timeout, 'ns')}"] if timeout else []
    return (f"records of {grouped(row['recorded'])}{of} rank{'s' * ((row['world'] or row['recorded']) != 1)}", *limit)


def _blocks(hang: Result, of_ranks: Result, records: Records) -> Iterator[Block]:
    if not hang.frame.height:
        return
    yield from _what_to_do(hang)
    chosen = _ranks_of(hang.frame.get_column("ranks")[0] or "")
    if (picture := states_picture(*records, chosen)) is not None:
        yield picture
    if (cycle := hang.frame.get_column("waits")[0]) is not None:
        yield cycle_picture([_wait(each) for each in cycle.split("; ")])
    columns = with_values(hang.frame, _VERDICTS, always=("cause", "certainty"))
    yield TableBlock("Verdicts", "hang", columns=columns)
    if hang.frame.get_column("calls").sum():
        yield TableBlock("The calls that show it", "hang", {"by": "call"}, columns=_CALLS)
    team = hang.frame.get_column("team")[0]
    shown = with_values(of_ranks.frame, _STATES, always=("rank", "state"))
    here = f"team:eq:{team}" if team else ""
    title = "Each rank in that group" if team else "Each rank in each group"
    yield TableBlock(title, "collective_states", columns=shown, filter=here)
    yield from _hosts(records[2])


def _what_to_do(hang: Result) -> Iterator[Block]:
    """The remedy of the first cause, with an example; then what else was found."""
    cause = hang.frame.get_column("cause")[0]
    yield NoteBlock(remedy_of(hang), title="What to do", width="wide")
    if code := REMEDIES[cause].code:
        yield CodeBlock("For example", code.rstrip("\n"), width="narrow")
    others = hang.frame.height - 1
    if others:
        more = (
            say("The table has {more} more.", more=constant(others - _OTHER_VERDICTS))
            if others > _OTHER_VERDICTS
            else ""
        )
        said = [hang_sentence(hang, number) for number in range(2, min(others, _OTHER_VERDICTS) + 2)]
        yield NoteBlock(join([*said, more]), title="Also")


def _ranks_of(text: str) -> set[int]:
    """The ranks that a text lists."""
    ends = [part.split("-") for part in text.split(", ") if part and part != "…"]
    return {rank for each in ends for rank in range(int(each[0]), int(each[-1]) + 1)}


def _wait(text: str) -> tuple[int, str, int]:
    """A wait of the column `waits`: rank, where, the rank that it waits for."""
    rank, _, rest = text.removeprefix("rank ").partition(" waits in ")
    where, _, other = rest.rpartition(", for rank ")
    return int(rank), where, int(other)


def _hosts(hosts: pl.DataFrame) -> Sequence[RowsBlock]:
    """The places of the hosts: those that stand in the same one are one row."""
    known = hosts.filter(pl.any_horizontal(pl.col("stack", "line", "activity", "ended").is_not_null()))
    if not known.height:
        return ()
    same = known.group_by("stack", "line", "activity", "ended", maintain_order=True)
    rows = same.agg(pl.col("rank").sort(), count=pl.len().cast(pl.Int64)).sort("count", maintain_order=True)
    ranks = pl.Series("ranks", [listed(each) for each in rows.get_column("rank")], dtype=pl.String)
    frame = rows.with_columns(ranks).select(HOSTS_OF_RANKS.names).head(_STACKS)
    note = (
        "Ranks whose hosts stand in the same place share a row; the fewest first, as who is alone is mostly the cause."
    )
    return (table("Where the hosts are", HOSTS_OF_RANKS, frame, note),)
