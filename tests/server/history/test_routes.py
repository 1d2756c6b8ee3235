"""What the page History asks of a real server: how far a run is, tiles of it, and an event when there is more."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinetoscope.server.history import live
from tests.conftest import OURS
from tests.history.written import blocks, records, write
from tests.server.serving import Client, serving
from tests.server.test_answers import DECLARED, strange


@pytest.fixture
def growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder of a run of two ranks, and the file of one."""
    monkeypatch.setattr(live, "_EVERY_SECONDS", 0.05)
    write(tmp_path, records(600), rank=0)
    return tmp_path, write(tmp_path, records(500), rank=1)


def lines_of(client: Client, run: str) -> Iterator[str]:
    """The lines of the stream of events."""
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    connection.request("GET", f"/api/runs/{run}/history/events", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers.get("Content-Encoding") is None
    try:
        while True:
            yield answer.readline().decode().strip()
    finally:
        answer.close()
        connection.close()


def test_the_state_is_as_declared(growing: tuple[Path, Path]) -> None:
    with serving(growing[0]) as client:
        state = client.get(f"runs/{client.run()}/history")
    assert list(strange(state, DECLARED["GET /runs/{run}/history"])) == []
    assert (state["rows"], state["ranks"], state["first"], state["end"]) == (1100, 2, 0, 600)
    assert (state["reading"], state["ended"], state["error"]) == (0, False, "")
    assert state["age"] is not None


def test_a_tile_has_its_buckets(growing: tuple[Path, Path]) -> None:
    with serving(growing[0]) as client:
        path = f"runs/{client.run()}/history/tile"
        first, second = (client.get(path, {"z": 0, "i": number}) for number in (0, 2))
        coarse = client.get(path, {"z": 1, "i": 0})
    assert list(strange(first, DECLARED["GET /runs/{run}/history/tile"])) == []
    assert (first["first"], len(first["median"]), first["whole"]) == (0, 256, True)
    assert first["median"][1] == pytest.approx(110_000_000, rel=1e-3)
    assert (second["first"], second["whole"]) == (512, False)
    assert second["median"][600 - 512 :] == [None] * (768 - 600)
    assert (second["behind"][1][:2], second["ranks"]) == ([None, None], ["rank 0", "rank 1"])
    assert (coarse["size"], [value is None for value in coarse["median"]].count(False)) == (4, 150)


def test_an_event_says_that_there_are_more_rows(growing: tuple[Path, Path]) -> None:
    folder, file = growing
    with serving(folder) as client:
        said = (json.loads(line[5:]) for line in lines_of(client, client.run()) if line.startswith("data:"))
        assert next(said) == {"rows": 1100}
        with file.open("ab") as stream:
            stream.write(blocks(records(50, first=500)))
        assert next(said) == {"rows": 1150}
        assert client.get(f"runs/{client.run()}/history")["rows"] == 1150
        said.close()


def test_the_page_says_what_is_new_when_it_is_asked_with_another_cursor(growing: tuple[Path, Path]) -> None:
    folder, file = growing
    with serving(folder) as client:
        path = f"runs/{client.run()}/pages/history"
        before = client.get(path, {"p.rows": 1100})
        with file.open("ab") as stream:
            stream.write(blocks(records(5000, first=500)))
        after = client.get(path, {"p.rows": 6100})
    assert before["blocks"][0]["step"][-1] < 600 < 5000 < after["blocks"][0]["step"][-1] + after["blocks"][0]["size"]


def test_a_run_that_has_ended_says_so(tmp_path: Path) -> None:
    rows = records(20)
    last = int(rows["start"][-1])
    write(tmp_path, rows, [("end", None, 19, last, last, None)])
    with serving(tmp_path) as client:
        state = client.get(f"runs/{client.run()}/history")
        assert client.get(f"runs/{client.run()}/history/tile", {"z": 0, "i": 0})["whole"]
    assert state["ended"]


def test_a_run_without_history_has_none() -> None:
    with serving(OURS / "mlp.pt.trace.json.gz") as client:
        for path in ("history", "history/events", "history/tile?z=0&i=0"):
            assert client.refused(f"runs/{client.run()}/{path}") == (
                404,
                client.refused(f"runs/{client.run()}/history")[1],
            )


@pytest.mark.parametrize(
    "query", [{}, {"z": 0}, {"z": 99, "i": 0}, {"z": 0, "i": -1}, {"z": 0, "i": 1 << 40}, {"z": "x", "i": 0}]
)
def test_a_tile_that_is_none_is_refused(growing: tuple[Path, Path], query: dict[str, str]) -> None:
    with serving(growing[0]) as client:
        assert client.refused(f"runs/{client.run()}/history/tile", query)[0] == 400


def test_damage_is_no_end(growing: tuple[Path, Path]) -> None:
    folder, file = growing
    with serving(folder) as client:
        path = f"runs/{client.run()}/history"
        client.get(path)
        file.unlink()
        (file.parent / "host.0.attempt0.7-zzz.history").write_bytes(b"nothing")
        time.sleep(0.2)
        assert client.get(path)["rows"] >= 1100
