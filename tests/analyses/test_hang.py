"""What the analyses of a hang say about drawn records: each verdict is a row, and each rank is somewhere."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import kinetoscope
from kinetoscope.analyses.hang import RESULT, rows_of
from kinetoscope.model.hangs.of_job import both, packed, unpacked
from kinetoscope.model.hangs.remedies import HANGING, REMEDIES
from kinetoscope.model.hangs.verdict import CAUSES, HangVerdict
from tests import drawn
from tests.drawn_hangs import NOW, SECOND, call, drawn_job, group, host, records, stalled
from tests.notes import codes

TENSOR = "nccl:1 (mesh_tp)"


def test_what_travels_is_what_arrives() -> None:
    """Three tables of each rank, in one frame, in any order of ranks, also of ranks that have left nothing."""
    every = stalled(8)
    ranks = [packed(*(frame.filter(rank=rank) for frame in every)) for rank in (5, 0, 3, 7, 1, 2, 6, 4)]
    nothing = packed(*(frame.clear() for frame in every))
    folded = ranks[0]
    for each in (*ranks[1:], nothing):
        folded = both(each, folded)
    calls, groups, hosts = unpacked(folded)
    assert calls.equals(every[0].sort("rank", "order"))
    assert groups.equals(every[1].sort("rank"))
    assert hosts.equals(every[2])
    assert [frame.height for frame in unpacked(nothing)] == [0, 0, 0]


def test_what_two_cycles_of_a_rank_share_is_there_once() -> None:
    one = packed(*stalled(4))
    assert [frame.height for frame in unpacked(both(one, one))] == [frame.height for frame in stalled(4)]


def test_who_has_never_reached_what_the_others_wait_in() -> None:
    frame = kinetoscope.collective_states(drawn_job(stalled(8, missing=3, line="loader.py:61"))).frame
    tensor = frame.filter(group=TENSOR)
    assert tensor.select("rank", "state", "seq", "name").rows() == [
        (0, "started", 1204, "all_reduce"),
        (1, "started", 1204, "all_reduce"),
        (2, "started", 1204, "all_reduce"),
        (3, "never reached", 1204, "all_reduce"),
    ]
    assert tensor.get_column("behind").to_list() == [0, 0, 0, 1]
    assert tensor.get_column("since").to_list() == [600 * SECOND] * 3 + [None]
    assert tensor.get_column("line").to_list() == ["train.py:88"] * 3 + ["loader.py:61"]
    assert frame.filter(rank=5, group="nccl:2 (mesh_tp)").row(0, named=True)["state"] == "completed"


def test_the_time_waited_is_the_same_in_each_table() -> None:
    """Where a rank's records say when they were written, that counts; else the newest record of any rank."""
    calls, groups, hosts = stalled(8, missing=3)
    written = pl.when(rank=1).then(NOW - SECOND).otherwise(None)
    job = drawn_job((calls, groups, hosts.with_columns(written=written, last_time=NOW + pl.col("rank") * SECOND)))
    [verdict] = kinetoscope.hang(job).frame.head(1).iter_rows(named=True)
    shown = kinetoscope.hang(job, by="call").frame.filter(verdict=1, group=verdict["group"], seq=verdict["seq"])
    waited = {row["rank"]: row["waited"] for row in shown.iter_rows(named=True) if row["waited"] is not None}
    states = kinetoscope.collective_states(job).frame.filter(group=verdict["group"])
    since = {row["rank"]: row["since"] for row in states.iter_rows(named=True) if row["since"] is not None}
    assert waited == since == {0: 607 * SECOND, 1: 599 * SECOND, 2: 607 * SECOND}
    assert verdict["waited"] == max(waited.values())


def test_ranks_without_records_have_rows() -> None:
    """Where others say that they are members, and where only the number of ranks says that they are there."""
    known = records(
        [call(0, "nccl:0", 7, "started")],
        [group(0, "nccl:0", range(2), 7, 6)],
        [host(0, 4)],
    )
    frame = kinetoscope.collective_states(drawn_job(known)).frame
    assert frame.select("rank", "group", "state").sort("rank").rows() == [
        (0, "nccl:0", "started"),
        (1, "nccl:0", "no records"),
        (2, None, "no records"),
        (3, None, "no records"),
    ]


def test_groups_of_one_name_are_told_apart_by_their_members() -> None:
    known = records(
        [],
        [group(rank, "nccl:5", range(rank // 2 * 2, rank // 2 * 2 + 2), 9 + rank // 2, 9) for rank in range(4)],
        [host(rank, 4) for rank in range(4)],
    )
    assert kinetoscope.collective_states(drawn_job(known)).frame.get_column("behind").to_list() == [0] * 4
    about = HangVerdict("rank ended", "sure", (3,), (0, 1, 2), "nccl:5", 10)
    assert [row["members"] for row in rows_of((about,), known[1], known[2])] == ["2-3"]


def test_a_verdict_is_a_row() -> None:
    _, groups, hosts = stalled(8, ended="killed by signal 9")
    verdict = HangVerdict(
        "different sizes", "likely", (3,), (0, 1, 2), TENSOR, 1204, "all_reduce", waited=9, timeout=600 * SECOND,
        differs={"[16]": (0, 1, 2), "[17]": (3,)},
    )  # fmt: skip
    cycle = HangVerdict("order of groups", "sure", (0, 1), cycle=((0, TENSOR, 4, 1), (1, "nccl:0", 1205, 0)))
    first, second = RESULT.frame(list(rows_of((verdict, cycle), groups, hosts))).rows(named=True)
    assert (first["rank"], first["ranks"], first["waiting"], first["waiting_ranks"]) == (3, "3", 3, "0-2")
    assert (first["group_name"], first["members"], first["world"], first["recorded"]) == ("mesh_tp", "0-3", 8, 8)
    assert (first["ended"], first["differs"]) == ("killed by signal 9", "[16] on ranks 0-2; [17] on rank 3")
    assert (second["verdict"], second["group"], second["waiting"]) == (2, None, 0)
    assert second["waits"] == "rank 0 waits in mesh_tp, 4, for rank 1; rank 1 waits in 0, 1,205, for rank 0"


@pytest.mark.parametrize("name", ["hang", "collective_states"])
def test_a_trace_without_records_says_so(tmp_path: Path, name: str) -> None:
    result = getattr(kinetoscope, name)(drawn.job(tmp_path, drawn.op("aten::mm", 0, 9)))
    assert result.frame.height == 0
    assert "NO_HANG_RECORDS" in codes(result.notes)


def test_each_cause_has_a_remedy() -> None:
    assert tuple(REMEDIES) == CAUSES
    assert {cause for cause in CAUSES if cause not in HANGING} == {"no hang", "slow rank"}
    assert all(line[:1] in " +-" for each in REMEDIES.values() for line in each.code.splitlines())
    assert pl.Series([each.what for each in REMEDIES.values()]).str.ends_with(".").all()
