"""The page of a hang: a sentence for each cause with the cells of its row, pictures that say who is where."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from kinetoscope.analyses.hang import RESULT, rows_of
from kinetoscope.model.hangs.records import Records
from kinetoscope.model.hangs.verdict import CAUSES, HangVerdict
from kinetoscope.pages.blocks import ChartBlock, CodeBlock, NoteBlock, Page, RowsBlock, TableBlock
from kinetoscope.pages.hang import composed
from kinetoscope.pages.pictures.cycle import cycle_picture
from kinetoscope.pages.pictures.rank_states import states_picture
from kinetoscope.pages.sentences.hang import hang_sentence
from kinetoscope.schema import Result
from kinetoscope.screens import html, markdown, terminal
from kinetoscope.views.sentences import Sentence
from tests.drawn_hangs import SECOND, call, drawn_job, group, host, records, stalled
from tests.sentences import agrees, same

TENSOR = "nccl:1 (mesh_tp)"
OTHERS = (0, 1, 2, 4, 5, 6, 7)


def result_of(*verdicts: HangVerdict, of: Records) -> Result:
    return Result(RESULT.frame(list(rows_of(verdicts, of[1], of[2]))), RESULT)


def verdict(
    cause: Any = "data loading", certainty: Any = "sure", ranks: tuple[int, ...] = (3,), **more: Any
) -> HangVerdict:
    usual = {"waiting": OTHERS, "group": TENSOR, "seq": 1204, "name": "all_reduce", "line": "loader.py:61"}
    return HangVerdict(
        cause, certainty, ranks, **{**usual, "waiting_line": "train.py:88", "waited": 588 * SECOND, **more}
    )


def said(*args: Any, of: Records | None = None, **more: Any) -> str:
    return hang_sentence(result_of(verdict(*args, **more), of=of or stalled(8))).replace("\N{NO-BREAK SPACE}", " ")


def states_of(of: Records) -> Result:
    from kinetoscope.analyses.collective_states import ANALYSIS

    return ANALYSIS(drawn_job(of))


def page_of(of: Records, *verdicts: HangVerdict) -> Page:
    return composed(result_of(*verdicts, of=of), states_of(of), of)


def one(page: Page, kind: type, title: str = "") -> Any:
    return next(each for each in page.blocks if isinstance(each, kind) and title in getattr(each, "title", ""))


# --- sentences


def test_the_sentence_says_what_who_where_and_how_sure() -> None:
    assert said(of=stalled(8)) == (
        "Rank 3 did not come to all_reduce 1,204 of group `mesh_tp` (ranks 0-3): its host is in data loading "
        "(`loader.py:61`). 7 ranks have waited 588 s for it, at `train.py:88`. This is sure: the records prove it."
    )


SENTENCES = {
    "no hang": "Nothing hangs: each collective is done, or ranks still moved",
    "skipped call": "Rank 3 left out all_reduce 1,204 of group `mesh_tp` (ranks 0-3), near `loader.py:61`, and goes on",
    "missing rank": "ranks 0-3); the last line that is known of it is `loader.py:61`. 7 ranks have waited",
    "different collective": "Rank 3 calls something else than the others where they call all_reduce 1,204",
    "different sizes": "with other sizes than the others: [16] on ranks 0-2; [17] on rank 3, at `loader.py:61`.",
    "different types": "with other types than the others",
    "different root": "with another root than the others",
    "different group": "Rank 3 has other members in mind than the others when they call",
    "order of groups": "several groups for 588 s, at `loader.py:61`: rank 0 waits in mesh_tp, 1,204, for rank 1;",
    "rank ended": "Rank 3 ended (`killed by signal 9`) before all_reduce 1,204",
    "host stalled": "its host is elsewhere, in sleep (`loader.py:61`)",
    "data loading": "its host is in data loading",
    "checkpoint": "its host is at a checkpoint",
    "unmatched send": "Rank 3 sends at `loader.py:61`, and nobody receives: all_reduce 1,204",
    "unmatched receive": "Rank 3 receives at `loader.py:61`, and nobody sends",
    "device or network": "(ranks 0-3) with the same, and it does not end on rank 3: a device or the network.",
    "slow rank": "Nothing hangs: rank 3 comes late to all_reduce",
    "unknown": "cannot be told from its records: ranks wait in all_reduce 1,204",
}


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_has_a_sentence_whose_numbers_are_in_the_table(cause: Any) -> None:
    of = stalled(8, ended="killed by signal 9", activity="sleep")
    cycle = ((0, TENSOR, 1204, 1), (1, "nccl:1001 (mesh_dp)", 299, 0)) if cause == "order of groups" else ()
    differs = {"[16]": (0, 1, 2), "[17]": (3,)} if cause.startswith("different") else {}
    result = result_of(verdict(cause, "likely", differs=differs, cycle=cycle), of=of)
    sentence = hang_sentence(result)
    assert SENTENCES[cause] in sentence.replace("\N{NO-BREAK SPACE}", " ")
    assert sentence.endswith(".")
    for quantity in sentence.quantities:
        assert quantity.source is not None
        assert quantity.text in sentence
        assert agrees(quantity)
        assert same(quantity.source.look_up(lambda *_: result), quantity.value)
    numbers = " ".join(quantity.text for quantity in sentence.quantities)
    assert all(number in numbers for number in re.findall(r"\d+", sentence))


def test_several_ranks_and_what_is_not_known() -> None:
    assert said("missing rank", "guess", (3, 5), line="", waited=None, waiting_line="").startswith(
        "Ranks 3, 5 did not come to all_reduce 1,204 of group `mesh_tp` (ranks 0-3). 7 ranks wait for it."
    )
    assert said("rank ended", "likely", (3,), line="").startswith("Rank 3 left no records, and may have ended before")
    assert said("checkpoint", "likely", (1, 2)).count("their hosts are at a checkpoint") == 1
    assert said("host stalled").count("its host is elsewhere (`loader.py:61`)") == 1
    assert "and it does not end: they may not agree on its root" in said("different root", "guess", ())
    many = said("missing rank", "sure", tuple(range(0, 1024, 2)), of=stalled(1024))
    assert many.startswith("Ranks 0, 2, 4")
    assert "…" in many
    assert len(many) < 400


def test_no_records_have_a_sentence() -> None:
    assert hang_sentence(Result(RESULT.empty(), RESULT)).startswith("No records of a hang are here")


# --- the page


@pytest.mark.parametrize("ranks", [8, 1024])
def test_ranks_that_are_alike_share_a_row(ranks: int) -> None:
    page = page_of(stalled(ranks), verdict(waiting=tuple(rank for rank in range(ranks) if rank != 3)))
    lines = [
        (line.label, line.text.strip(), [each.strip() for each in line.more]) for line in one(page, ChartBlock).sketch
    ]
    tensor, data = "●●●●●●●", "●●●●●●●"
    assert lines[:3] == [
        ("rank 3", f"{tensor}◆", [f"{data}◆"]),
        ("0-2 · 3 ranks", f"{tensor}◐", [f"{data}◆"]),
        (f"4-{ranks - 1} · {ranks - 4:,} ranks", f"{tensor}●", [f"{data}○"]),
    ]
    cells = one(page, ChartBlock).spec["data"]["values"]
    assert {(cell["row"], cell["number"]) for cell in cells if cell["state"] == "never reached"} == {
        ("rank 3", "1,204"), ("rank 3", "300"), ("0-2 · 3 ranks", "300"),
    }  # fmt: skip
    assert one(page, TableBlock, "Each rank").filter == f"team:eq:{TENSOR} of ranks 0-3"
    assert one(page, CodeBlock).text.startswith(" loader")


def test_ranks_without_records_are_in_the_picture() -> None:
    of = records(
        [call(rank, "nccl:0", 7, "started") for rank in (0, 1, 3)],
        [group(rank, "nccl:0", range(4), 7, 6) for rank in (0, 1, 3)],
        [host(rank, 4) for rank in (0, 1, 3)],
    )
    picture = states_picture(*of, (2,))
    assert picture is not None
    assert [(line.label, line.text) for line in picture.sketch[:2]] == [
        ("rank 2", "◇◇◇◇◇◇◇◇"),
        ("0-1, 3 · 3 ranks", "●●●●●●●◐"),
    ]


def test_sends_have_columns_of_their_own() -> None:
    pairs = [
        call(rank, "nccl:3 (pipe)", seq, "started" if (rank, seq) == (1, 4) else "completed", is_p2p=True, name="send")
        for rank in (0, 1)
        for seq in range(1, 5)
    ]
    of = records(
        pairs,
        [group(rank, "nccl:3 (pipe)", (0, 1), None, None, desc="pipe") for rank in (0, 1)],
        [host(0, 2), host(1, 2)],
    )
    picture = states_picture(*of)
    assert picture is not None
    assert picture.heads[1].startswith("pipe: sends")
    assert [(line.label, line.text.strip()) for line in picture.sketch[:2]] == [
        ("rank 1", "●●●◐····"),
        ("rank 0", "●●●●····"),
    ]


def test_a_cycle_is_drawn_as_one() -> None:
    waits = [(0, "a, 7", 4), (4, "b, 3", 2), (2, "c, 1", 0)]
    picture = cycle_picture(waits)
    assert [(line.label, line.text) for line in picture.sketch] == [
        ("rank 0", "waits in a, 7 for rank 4"),
        ("rank 4", "waits in b, 3 for rank 2"),
        ("rank 2", "waits in c, 1 for rank 0"),
    ]
    arrows = picture.spec["data"]["values"]
    assert [arrow["words"] for arrow in arrows] == ["a, 7", "b, 3", "c, 1"]
    assert "The first 12 of 40" in cycle_picture([(rank, "g, 1", rank + 1) for rank in range(40)]).note
    cycle = ((0, TENSOR, 1204, 1), (1, "nccl:1001 (mesh_dp)", 299, 0))
    page = page_of(stalled(8), verdict("order of groups", "sure", (0, 1), cycle=cycle))
    assert [arrow["words"] for arrow in one(page, ChartBlock, "cycle").spec["data"]["values"]] == [
        "mesh_tp, 1,204", "mesh_dp, 299",
    ]  # fmt: skip


def test_hosts_that_stand_in_the_same_place_share_a_row() -> None:
    calls, groups, hosts = stalled(8)
    at = pl.when(pl.col("rank") == 3).then(pl.lit("main loader.py:61")).otherwise(pl.lit("main train.py:88"))
    page = page_of((calls, groups, hosts.with_columns(stack=at)), verdict())
    table = one(page, RowsBlock)
    names = [head.name for head in table.columns]
    assert [(row[names.index("ranks")], row[names.index("stack")]) for row in table.rows] == [
        ("3", "main loader.py:61"), ("0-2, 4-7", "main train.py:88"),
    ]  # fmt: skip


def test_other_causes_are_said_after_the_first() -> None:
    page = page_of(stalled(8), verdict(), *[verdict("different root", "guess", (rank,)) for rank in (4, 5, 6, 7)])
    note = one(page, NoteBlock, "Also")
    assert isinstance(note.text, Sentence)
    assert note.text.count("with another root") == 3
    assert note.text.endswith("The table has 1 more.")


HOSTILE = '<script>alert(1)</script>\x1b[31m\u202e"`|'


def test_names_and_lines_of_a_dump_are_text() -> None:
    """A dump is untrusted: names, lines, stacks and how it ended may hold markup and escapes."""
    key = f"nccl:{HOSTILE}"
    calls = [call(rank, key, 7, "started", name=HOSTILE, line=HOSTILE, input_sizes=HOSTILE) for rank in (0, 1)]
    of = records(
        calls,
        [group(rank, key, range(3), 7 - (rank == 2), 6, desc=HOSTILE) for rank in range(3)],
        [host(rank, 3, activity=HOSTILE, line=HOSTILE, stack=HOSTILE, ended=HOSTILE) for rank in range(3)],
    )
    cycle = ((2, key, 7, 0), (0, key, 7, 2))
    differs = {HOSTILE: (0, 1), "x": (2,)}
    for cause in ("rank ended", "different sizes", "order of groups", "data loading"):
        waits = cycle if cause == "order of groups" else ()
        texts = {"group": key, "name": HOSTILE, "line": HOSTILE, "waiting_line": HOSTILE, "differs": differs}
        page = page_of(of, verdict(cause, ranks=(2,), waiting=(0, 1), seq=7, cycle=waits, shows=of[0], **texts))
        assert "\x1b" not in page.sentence
        drawn = "\n".join([terminal.text(page), markdown.text(page), html.html(page)])
        assert "\x1b" not in drawn
        assert "\u202e" not in drawn
        assert "<script" not in html.html(page)
        assert not re.search(r"(?<!\\)<script", re.sub("`[^`\n]*`", "", markdown.text(page)))
