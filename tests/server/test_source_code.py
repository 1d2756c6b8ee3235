"""Source files: only those below the folders that the user allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.server.source_code import MAX_FILE_BYTES, Sources
from tests.server.conftest import MLP
from tests.server.serving import Client, serving

TEXT = "".join(f"line {number}\n" for number in range(1, 101))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder `src` that is allowed, beside secrets that are not."""
    for name, text in {
        "src/train.py": TEXT,
        "src/model/layers.py": "layers = 1\n",
        "src/other/layers.py": "others = 1\n",
        "src/notes.txt": "hunter2\n",
        "src/.env": "hunter2\n",
        "secret/keys.py": "hunter2\n",
        "src-not/keys.py": "hunter2\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "src" / "link.py").symlink_to(tmp_path / "secret" / "keys.py")
    (tmp_path / "src" / "away").symlink_to(tmp_path / "secret")
    (tmp_path / "src" / "loop.py").symlink_to(tmp_path / "src" / "loop.py")
    (tmp_path / "src" / "near.py").symlink_to(tmp_path / "src" / "train.py")
    (tmp_path / "src" / "env.py").symlink_to(tmp_path / "src" / ".env")
    return tmp_path


def client_of(folder: Path, *maps: tuple[str, str]) -> Sources:
    return Sources.of([str(folder / "src")], maps)


def test_the_lines_around_one(folder: Path) -> None:
    with serving(MLP, sources=client_of(folder)) as client:
        path = f"runs/{client.run()}/source"
        told = client.get(path, {"file": folder / "src" / "train.py", "line": 50, "around": 2})
        assert (told["first"], told["lines"]) == (48, ["line 48", "line 49", "line 50", "line 51", "line 52"])
        assert client.get(path, {"file": folder / "src" / "train.py", "line": 1, "around": 1})["lines"] == [
            "line 1",
            "line 2",
        ]
        whole = client.get(path, {"file": folder / "src" / "train.py"})
        assert (whole["first"], len(whole["lines"]), whole["all"]) == (1, 100, 100)
        assert client.get(path, {"file": folder / "src" / "train.py", "line": 10**9, "around": 1})["lines"] == []
        assert client.get("server")["features"]["source_roots"] is True


def test_without_a_folder_nothing_is_shown(mlp: Client) -> None:
    answer = mlp.ask(f"/api/runs/{mlp.run()}/source", {"file": __file__})
    assert answer.status == 403
    assert "--source" in answer.json["hint"]
    assert mlp.get("server")["features"]["source_roots"] is False


def test_traces_recorded_elsewhere(folder: Path) -> None:
    sources = client_of(folder, ("/workspace/project", str(folder / "src")))
    assert sources.find("/workspace/project/train.py") == folder / "src" / "train.py"
    assert sources.find("/somewhere/else/model/layers.py") == folder / "src" / "model" / "layers.py"
    assert sources.find("/somewhere/other/layers.py") == folder / "src" / "other" / "layers.py"
    assert sources.find("C:\\work\\model\\layers.py") == folder / "src" / "model" / "layers.py"
    assert sources.find("train.py") == folder / "src" / "train.py"
    assert sources.find(str(folder / "src" / "near.py")) == folder / "src" / "train.py"


SECRETS = (
    "{0}/secret/keys.py",
    "{0}/src/../secret/keys.py",
    "../secret/keys.py",
    "src/../../secret/keys.py",
    "{0}/src/link.py",
    "{0}/src/away/keys.py",
    "{0}/src-not/keys.py",
    "{0}/src/.env",
    "{0}/src/notes.txt",
    "{0}/src/env.py",
    "/etc/passwd",
    "/etc/passwd\0.py",
    "{0}/src/loop.py",
    "{0}/src/nothing.py",
    "",
    ".",
    "/",
    "{0}/src",
    "~/.ssh/id_rsa.py",
    "/proc/self/environ",
    "/dev/zero",
    "/dev/stdin.py",
    "file:///etc/passwd",
    "\\\\host\\share\\keys.py",
    "C:\\..\\..\\secret\\keys.py",
    "x" * 5000 + ".py",
    "/mapped/../secret/keys.py",
    "a/" * 2000 + "keys.py",
)


@pytest.mark.slow
def test_nothing_else_is_shown(folder: Path) -> None:
    sources = client_of(folder, ("/mapped", str(folder / "src")))
    with serving(MLP, sources=sources) as client:
        address = f"/api/runs/{client.run()}/source"
        for file in SECRETS:
            answer = client.ask(address, {"file": file.format(folder)})
            assert answer.status in (400, 403, 404), (file, answer.body)
            assert b"hunter2" not in answer.body, file
            assert b"root:" not in answer.body, file


def test_only_text_of_a_bearable_size(folder: Path) -> None:
    (folder / "src" / "binary.py").write_bytes(b"\0\1\2")
    (folder / "src" / "huge.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    (folder / "src" / "odd.py").write_bytes(b"caf\xe9 = 1\n")
    with serving(MLP, sources=client_of(folder)) as client:
        path = f"runs/{client.run()}/source"
        for name in ("binary.py", "huge.py"):
            assert client.refused(path, {"file": folder / "src" / name})[0] == 400
        assert client.get(path, {"file": folder / "src" / "odd.py"})["lines"] == ["caf\ufffd = 1"]
        for line in ("-1", "x", "1" * 40):
            assert client.refused(path, {"file": folder / "src" / "train.py", "line": line})[0] == 400
