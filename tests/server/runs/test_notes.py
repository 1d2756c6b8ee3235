"""Notes of a run: kept beside it, or with the user where that cannot be; what a file of notes holds is only text."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.server.errors import ForbiddenError
from kinetoscope.server.runs.notes import MAX_NOTES, MAX_TEXT_CHARACTERS, Notes, TimelineNote
from tests.drawn import job, op
from tests.server.serving import Client, serving

NOTE: dict[str, Any] = {
    "id": "0123456789abcdef",
    "rank": 0,
    "start": 10,
    "end": 20,
    "text": "slow <b>here</b>",
    "colour": "red",
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def run_of(folder: Path) -> None:
    (folder / "run").mkdir()
    job(folder / "run", op("a", 0, 10))


def posted(client: Client, run: str, body: Any) -> Any:
    answer = client.ask(
        f"/api/runs/{run}/notes", method="POST", body=json.dumps(body).encode(), Content_Type="application/json"
    )
    return answer.status, answer.json


def test_a_note_is_kept_changed_and_deleted(tmp_path: Path) -> None:
    run_of(tmp_path)
    with serving(tmp_path / "run") as client:
        run = client.run()
        assert client.get(f"runs/{run}/notes")["notes"] == []
        status, answer = posted(client, run, {"note": NOTE})
        assert (status, answer["notes"]) == (200, [{**NOTE, "row": None, "revision": 1}])
        assert [file.name for file in (tmp_path / "run").iterdir() if "notes" in file.name] == [
            Path(answer["where"]).name
        ]
        assert client.run() == run, "notes are no trace"
        assert posted(client, run, {"note": {**NOTE, "text": "other"}})[0] == 409, "of a revision that is over"
        changed = posted(client, run, {"note": {**NOTE, "text": "other", "revision": 1}})[1]["notes"]
        assert [(note["text"], note["revision"]) for note in changed] == [("other", 2)]
        assert posted(client, run, {"delete": NOTE["id"], "revision": 1})[0] == 409
        assert posted(client, run, {"delete": NOTE["id"], "revision": 2})[1]["notes"] == []
        assert posted(client, run, {"note": {**NOTE, "revision": 2}})[0] == 404, "deleted meanwhile"


@pytest.mark.parametrize(
    "odd",
    [
        {"colour": "javascript:"},
        {"start": 30},
        {"start": 1 << 60, "end": 1 << 60},
        {"start": 1.5},
        {"start": True},
        {"text": " "},
        {"text": "a" * (MAX_TEXT_CHARACTERS + 1)},
        {"id": "../../x"},
        {"rank": -1},
        {"row": "1"},
    ],
)
def test_what_is_no_note_is_refused(tmp_path: Path, odd: dict[str, Any]) -> None:
    run_of(tmp_path)
    with serving(tmp_path / "run") as client:
        assert posted(client, client.run(), {"note": {**NOTE, **odd}})[0] == 400
        assert posted(client, client.run(), [])[0] == 400
        form = client.ask(f"/api/runs/{client.run()}/notes", method="POST", body=b"note=1", Content_Type="text/plain")
        assert form.status == 415, "a form of another site"


def test_where_the_folder_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    Notes(str(folder)).put(TimelineNote.of({**NOTE, "text": "of a colleague"}))
    monkeypatch.setattr(os, "access", lambda *_: False)
    notes = Notes(str(folder))
    notes.put(TimelineNote.of({**NOTE, "id": "mine" * 3}))
    assert [note.text for note in notes.read().notes] == ["of a colleague", NOTE["text"]]
    assert str(tmp_path / "data") in notes.read().where
    with pytest.raises(ForbiddenError):
        notes.delete(NOTE["id"], 1)
    notes.put(TimelineNote.of({**NOTE, "text": "mine now", "revision": 1}))
    assert {note.text for note in notes.read().notes} == {"mine now", NOTE["text"]}
    far = Notes("s3://bucket/run")
    far.put(TimelineNote.of(NOTE))
    assert len(Notes("s3://bucket/run").read().notes) == 1


def _hostile() -> list[bytes]:
    mark = {"kinetoscope_notes": 1}
    return [
        b"",
        b"[" * 100_000,
        b"null",
        json.dumps({**mark, "notes": 1}).encode(),
        json.dumps({"kinetoscope_notes": 2, "notes": []}).encode(),
        json.dumps({**mark, "notes": [NOTE, {**NOTE, "id": "x" * 8, "colour": 1}]}).encode(),
        json.dumps({**mark, "notes": [{**NOTE, "id": f"{at:08}"} for at in range(MAX_NOTES + 1)]}).encode(),
        b" " * (9 << 20),
    ]


@pytest.mark.parametrize("content", _hostile(), ids=range(8))
def test_a_file_that_is_odd_is_said_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "kinetoscope.notes"
    place.write_bytes(content)
    found = Notes(str(tmp_path)).read()
    assert found.problem
    assert len(found.notes) <= MAX_NOTES
    with pytest.raises(ForbiddenError):
        Notes(str(tmp_path)).put(TimelineNote.of({**NOTE, "id": "n" * 8}))
    assert place.read_bytes() == content


def test_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(json.dumps({"kinetoscope_notes": 1, "notes": [NOTE]}))
    for name, make in (("a", lambda at: at.symlink_to(tmp_path / "secret")), ("b", os.mkfifo)):
        folder = tmp_path / name
        folder.mkdir()
        make(folder / "kinetoscope.notes")
        found = Notes(str(folder)).read()
        assert (list(found.notes), "no plain file" in found.problem) == ([], True)


def test_notes_written_at_once_are_all_kept(tmp_path: Path) -> None:
    def write(number: int) -> None:
        Notes(str(tmp_path)).put(TimelineNote.of({**NOTE, "id": f"{number:08}"}))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Notes(str(tmp_path)).read().notes) == 20
