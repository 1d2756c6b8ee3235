"""What the picture of a snapshot asks, through a real server: the same numbers as replaying the generated allocator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.serving import Client, serving
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    process = Process()
    process.record()
    training = Training(process, Model(layers=2, width=256, batch=2, tokens=128, vocabulary=1000), metadata=True)
    training.build()
    training.run(3)
    return process.snapshot()


@pytest.fixture(scope="module")
def client(trained: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path: Path = tmp_path_factory.mktemp("memory") / "run.pickle"
    write(path, trained)
    with serving(path) as served:
        yield served


def asked(client: Client, what: str, **query: Any) -> Any:
    run = client.get("runs")["runs"][0]["id"]
    return client.get(f"runs/{run}/memory/{what}", {"device": 0, **query})


def in_use(trained: dict[str, Any]) -> list[int]:
    """Bytes asked for after each event, undone from the last state."""
    level = sum(
        block["requested_size"] for segment in trained["segments"] for block in segment["blocks"]
        if block["state"] != "inactive"
    )  # fmt: skip
    levels = []
    for event in reversed(trained["device_traces"][0]):
        levels.append(level)
        level -= {"alloc": event["size"], "free_completed": -event["size"]}.get(event["action"], 0)
    return levels[::-1]


def test_bands_hold_every_peak_however_narrow(client: Client, trained: dict[str, Any]) -> None:
    levels = in_use(trained)
    for columns in (7, 50, 8000):
        answer = asked(client, "bands", by="event", columns=columns)
        assert max(sum(row[3:]) for row in answer["rows"]) == max(levels)
        assert [sum(row[3:]) for row in answer["rows"][1:]] == [levels[row[0]] for row in answer["rows"][1:]]


def test_a_stretch_begins_with_the_state_before_it(client: Client, trained: dict[str, Any]) -> None:
    levels = in_use(trained)
    answer = asked(client, "bands", by="event", columns=8000, **{"from": 100, "to": 140})
    assert [row[0] for row in answer["rows"]] == list(range(99, 140))
    assert [sum(row[3:]) for row in answer["rows"]] == levels[99:140]
    whole = asked(client, "bands", by="time", columns=8000)
    places = [row[1] for row in whole["rows"]]
    assert places == sorted(places)
    begin, end = places[20], places[60]
    part = asked(client, "bands", by="time", columns=8000, **{"from": begin, "to": end})
    assert part["rows"][1:] == [row for row in whole["rows"] if begin <= row[1] < end]


def test_the_heap_has_all_bytes_of_its_segments(client: Client, trained: dict[str, Any]) -> None:
    """At each of some instants what is in use and what is free make the segments, and sums are those of the bands."""
    levels = in_use(trained)
    for event in (0, 57, len(levels) // 2, len(levels) - 1):
        answer = asked(client, "heap", event=event, pieces=20_000)
        sizes = answer["segments"]["size"]
        filled = [0] * len(sizes)
        for segment, offset, size, *_ in answer["rows"]:
            assert offset == filled[segment], "pieces follow one another"
            filled[segment] += size
        assert filled == sizes
        assert sum(answer["bytes"].values()) == levels[event]
    last = {(hex(each["address"]), each["total_size"]) for each in trained["segments"]}
    assert set(zip(answer["segments"]["address"], sizes, strict=True)) == last


def test_small_neighbours_are_one_piece(client: Client) -> None:
    fine, coarse = (asked(client, "heap", event=900, pieces=pieces) for pieces in (20_000, 4))
    assert len(coarse["rows"]) < len(fine["rows"])
    for index in (2, 3):
        assert sum(row[index] for row in coarse["rows"]) == sum(row[index] for row in fine["rows"])
    assert sum(row[6] for row in coarse["rows"]) == len(fine["rows"])


def test_a_block_leads_to_the_stack_of_its_request(client: Client) -> None:
    heap = asked(client, "heap", event=900, pieces=20_000)
    row = next(each[5] for each in heap["rows"] if each[4] >= 0)
    answer = asked(client, "allocation", row=row)
    assert answer["frames"]
    assert {"name", "file", "line", "user"} == answer["frames"][0].keys()
    assert any("requested" in fact for fact in answer["facts"])


def test_what_cannot_be_is_refused_in_one_line(client: Client) -> None:
    run = client.get("runs")["runs"][0]["id"]
    for path, status in (
        ("bands?device=0&by=colour&columns=9", 400),
        ("bands?device=0&by=event&columns=0", 400),
        ("bands?device=0&by=event&columns=9&from=9&to=9", 400),
        ("heap?device=0&event=999999999&pieces=9", 400),
        ("heap?device=7&event=0&pieces=9", 404),
        ("allocation?device=0&row=-3", 400),
    ):
        answer = client.ask(f"/api/runs/{run}/memory/{path}")
        assert answer.status == status
        assert "\n" not in answer.error


def test_a_heap_without_times_is_named_by_its_event(tmp_path: Path) -> None:
    process = Process()
    process.record()
    process.alloc("empty", 3 << 20)
    taken = process.snapshot()
    for event in taken["device_traces"][0]:
        del event["time_us"]
    path = write(tmp_path / "old.pickle", taken)
    with serving(path) as served:
        last = len(taken["device_traces"][0]) - 1
        assert asked(served, "heap", event=last, pieces=99)["sentence"].startswith(f"Event {last} (")
        assert asked(served, "heap", event=-1, pieces=99)["sentence"].startswith("Before the first event: ")
