"""`kinetoscope view` as a person runs it: in a process of its own, at a real port, until Ctrl-C."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.cli import main
from tests.cli.run import COMMAND, MLP, RANKS, environment


@contextmanager
def viewing(*arguments: str | Path, **more: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The link that is printed, and the process; it is ended as Ctrl-C does."""
    command = [*COMMAND, "view", *map(str, arguments), "--no-browser"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.fullmatch(r"Kinetoscope: (http://\S+/\S*)   \(Ctrl-C ends it\)\n", line)
        assert match, (line, process.communicate(timeout=60) if process.poll() is not None else "")
        yield match[1], process
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def asked(link: str, path: str, **headers: str) -> Any:
    request = urllib.request.Request(link.partition("?")[0] + path, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        data = response.read()
    return json.loads(data) if path.startswith("api/") else data.decode()


def test_it_serves_what_is_there() -> None:
    with viewing(MLP, RANKS) as (link, _):
        assert "Kinetoscope" in asked(link, "")
        runs = asked(link, "api/runs")["runs"]
        assert len(runs) == 2
        for run in runs:
            assert asked(link, f"api/runs/{run['id']}/pages/overview")["sentence"]
            assert asked(link, f"api/runs/{run['id']}/analyses/operators")["rows"]


def test_the_link_works_as_soon_as_it_is_printed() -> None:
    with viewing(MLP) as (link, _):
        host, port = re.fullmatch(r"http://(.+):(\d+)/", link).groups()  # type: ignore[union-attr]
        socket.create_connection((host, int(port))).close()


@pytest.mark.slow
def test_ctrl_c_while_it_is_still_starting() -> None:
    with viewing(MLP):
        pass


SWALLOWS = """
import time

try:
    time.sleep(60)
except BaseException:
    time.sleep(60)
"""


def test_ctrl_c_ends_it_though_an_import_swallows_the_exception(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text(SWALLOWS)
    with viewing(MLP, PYTHONPATH=os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])):
        time.sleep(0.3)


@pytest.mark.slow
def test_a_taken_port_is_not_the_end() -> None:
    with viewing(MLP) as (first, _), viewing(MLP) as (second, _):
        assert first != second
        assert asked(second, "api/runs")["runs"]
        port = first.rstrip("/").rpartition(":")[2]
        assert main(["view", str(MLP), "--port", port, "--no-browser"]) == 1  # that one was asked for


@pytest.mark.slow
def test_other_addresses_need_the_token() -> None:
    with viewing(MLP, "--host", "0.0.0.0", "--port", "0") as (link, _):
        here, _, token = link.partition("?token=")
        assert len(token) >= 30
        here = re.sub(r"//[^:/]+", "//127.0.0.1", here)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            asked(here, "api/runs")
        assert asked(here, "api/runs", Authorization=f"Bearer {token}")["runs"]
        with pytest.raises(urllib.error.HTTPError, match="403"):
            asked(here, "api/runs", Authorization=f"Bearer {token}", Host="evil.com")


def test_a_token_of_one_s_own() -> None:
    with viewing(MLP, "--token", "correct-horse") as (link, _):
        assert link.endswith("/?token=correct-horse")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            asked(link, "api/runs")


@pytest.mark.slow
def test_options_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    options: list[str | Path] = [
        "--source",
        tmp_path,
        "--map",
        f"/elsewhere={tmp_path}",
        "--editor",
        "vscode",
        "--ranks",
        "1",
    ]
    with viewing(RANKS, *options) as (link, _):
        features = asked(link, "api/server")["features"]
        assert (features["source_roots"], features["editor"]) == (True, "vscode")
        run = asked(link, "api/runs")["runs"][0]["id"]
        assert asked(link, f"api/runs/{run}")["ranks"] == [1]
        assert asked(link, f"api/runs/{run}/source?file=/elsewhere/train.py")["lines"] == ["x = 1"]


@pytest.mark.slow
def test_an_empty_folder_waits_for_runs(tmp_path: Path) -> None:
    with viewing(tmp_path) as (link, _):
        assert asked(link, "api/runs")["runs"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["/no/such/trace.json"], 1, "no such file or folder"),
        ([], 2, "PATH"),
        ([str(MLP), "--port", "70000"], 2, "no port"),
        ([str(MLP), "--token", "a b"], 2, "a token has"),
        ([str(MLP), "--map", "nothing"], 2, "OLD=NEW"),
        ([str(MLP), "--host", "not a host"], 2, "no address"),
        ([str(MLP), "--editor", "ed"], 2, "invalid choice"),
    ],
)
def test_slips_are_told_at_once(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main(["view", *arguments, "--no-browser"]) == code
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_what_is_being_computed(tmp_path: Path) -> None:
    fifo = tmp_path / "rank0.json"
    os.mkfifo(fifo)  # whoever reads it waits for ever
    with viewing(fifo) as (link, _):
        run = asked(link, "api/runs")["runs"][0]["id"]
        waiting = threading.Thread(target=given_up, args=(link, f"api/runs/{run}"))
        waiting.start()
    waiting.join()


def given_up(link: str, path: str) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        asked(link, path)
