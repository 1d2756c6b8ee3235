"""The rows of a query as a lane of the timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.caching import SharedCache
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.server.sql.lane import MAX_MARKS, lane_answer
from kinetoscope.server.sql.process import QueryStoppedError
from kinetoscope.server.timeline.hues import hue_of
from tests.drawn import job, op
from tests.server.serving import Answer, Client


def asked(client: Client, query: str, **more: str) -> Answer:
    body = json.dumps({"query": query}).encode()
    path = f"/api/runs/{client.run()}/sql/lane"
    return client.ask(path, more, method="POST", body=body, Content_Type="application/json")


def test_rows_that_name_an_event_stand_where_it_is(device: Client) -> None:
    (lane,) = asked(device, "SELECT row, name FROM kernels ORDER BY duration DESC LIMIT 5").json["lanes"]
    assert (lane["rank"], len(lane["row"]), lane["start"]) == (0, 5, sorted(lane["start"]))
    for place, row in enumerate(lane["row"]):
        about = device.get(f"runs/{device.run()}/timeline/event", {"row": row})
        assert (lane["start"][place], lane["end"][place]) == (about["start"], about["end"])
        assert lane["names"][lane["name"][place]] == about["name"]
        assert lane["hues"][lane["name"][place]] == hue_of(about["name"])


def test_rows_with_times_of_their_own(device: Client) -> None:
    query = 'SELECT min(start) AS start, max("end") AS "end", name AS what FROM kernels GROUP BY name'
    answer = asked(device, query).json
    (lane,) = answer["lanes"]
    assert lane["row"] == [-1, -1]
    assert sorted(lane["depth"]) == [0, 1], "they overlap"
    assert {lane["names"][name] for name in lane["name"]} == {"gemm0", "gemm1"}
    assert answer["notes"] == []
    (first,) = asked(device, "SELECT start, duration FROM kernels ORDER BY start LIMIT 1").json["lanes"]
    assert (first["start"], first["end"]) == ([lane["start"][0]], [lane["start"][0] + 4_000])


def test_of_several_ranks_rows_say_of_which_they_are(ranks: Client) -> None:
    refused = asked(ranks, "SELECT row FROM ops")
    assert (refused.status, "rank" in refused.error) == (400, True)
    query = "SELECT rank, row FROM ops WHERE row < 100000"
    both = asked(ranks, query, drawn="0,1").json
    one = asked(ranks, query, drawn="1").json
    assert [lane["rank"] for lane in both["lanes"]] == [0, 1]
    assert one["lanes"] == both["lanes"][1:]
    assert not both["notes"]
    assert f"Of the {sum(len(lane['row']) for lane in both['lanes']):,} rows" in one["notes"][0]


def test_rows_without_a_place_are_refused(device: Client) -> None:
    assert asked(device, "SELECT count(*) AS calls FROM ops").status == 400
    assert asked(device, "SELECT name AS row FROM ops").status == 400
    assert asked(device, "SELECT * FROM read_csv('/etc/passwd')").status == 403


def test_what_cannot_be_drawn_is_counted(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 10)).trace()
    rows: list[Any] = [0, None, -1, 10**6]

    def notes(values: list[Any]) -> tuple[int, list[str]]:
        frame = pl.DataFrame({"row": pl.Series(values, dtype=pl.Int64)})
        answer = lane_answer(Result(frame, Schema(Column("row", pl.Int64, ""))), [trace])
        return len(answer.lanes[0].row), list(answer.notes)

    assert notes([0]) == (1, [])
    count, (note,) = notes(rows)
    assert (count, note.startswith("Of the 4 rows of the query 1 are drawn")) == (1, True)
    assert notes([0] * (MAX_MARKS + 1))[0] == MAX_MARKS


def test_a_query_that_was_stopped_is_tried_again() -> None:
    cache: SharedCache[int] = SharedCache(10, lambda _: 1, retry_after=60)

    def stopped() -> int:
        raise QueryStoppedError

    with pytest.raises(QueryStoppedError):
        cache.get("query", stopped)
    assert cache.get("query", lambda: 1) == 1
