"""The tab, in a real TensorBoard."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import OURS

pytestmark = pytest.mark.slow

pytest.importorskip("tensorboard", reason="needs TensorBoard (pip install 'kinetoscope[tensorboard]')")

APP = "data/plugin/kinetoscope/app"


class Board:
    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str) -> tuple[bytes, Any]:
        with urllib.request.urlopen(f"{self.address}/{path}", timeout=60) as answer:
            return answer.read(), answer.headers

    def json(self, path: str) -> Any:
        return json.loads(self.get(path)[0])


@pytest.fixture(scope="module", params=["--logdir", "--logdir_spec"])
def board(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    logdir = tmp_path_factory.mktemp("log")
    (logdir / "run").mkdir()
    shutil.copy(OURS / "conv.pt.trace.json.gz", logdir / "run" / "host_1.1700000000000.pt.trace.json.gz")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = str(logdir) if request.param == "--logdir" else f"mine:{logdir}"
    command = [sys.executable, "-W", "ignore", "-m", "tensorboard.main", request.param, where, "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    board = Board(f"http://127.0.0.1:{port}")
    try:
        for _ in range(240):
            assert process.poll() is None, process.stderr and process.stderr.read().decode()
            try:
                board.get("data/environment")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.25)
        yield board
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.slow
def test_the_tab_is_there_and_active(board: Board) -> None:
    tab = board.json("data/plugins_listing")["kinetoscope"]
    assert tab["enabled"]
    assert tab["tab_name"] == "Kinetoscope"
    script, headers = board.get(
        f"data/plugin/kinetoscope{tab['loading_mechanism']['module_path'].rpartition('kinetoscope')[2]}"
    )
    assert b"export async function render" in script
    assert headers["Content-Type"].startswith("text/javascript")
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.slow
def test_the_same_page_and_answers(board: Board) -> None:
    page, headers = board.get(f"{APP}/index.html")
    assert b"<html" in page
    assert headers["X-Content-Type-Options"] == "nosniff"
    (run,) = board.json(f"{APP}/api/runs")["runs"]
    overview = board.json(f"{APP}/api/runs/{run['id']}/pages/overview?rank=0")
    assert overview["sentence"].startswith("A step takes")
    table = board.json(f"{APP}/api/runs/{run['id']}/analyses/operators?limit=3")
    assert len(table["rows"]) == 3


def test_what_is_not_there_is_refused(board: Board) -> None:
    for path in (f"{APP}/api/nothing", f"{APP}/../../../pyproject.toml", f"{APP}/api/runs/none/pages/overview"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            board.get(path)
        with refused.value as answer:
            assert answer.code in (400, 404)
