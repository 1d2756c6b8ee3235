"""The front end's files, and nothing beside them."""

from __future__ import annotations

import contextlib
import socket

import pytest

from kinetoscope.server.http.application import BUILT
from tests.server.serving import Client


def test_the_page_is_there(mlp: Client) -> None:
    answer = mlp.ask("/")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"Kinetoscope" in answer.body


def test_an_unchanged_file_travels_once(mlp: Client) -> None:
    if not (BUILT / "index.html").exists():
        pytest.skip("the page is not built here")
    first = mlp.ask("/index.html")
    assert mlp.ask("/index.html", If_None_Match=first.headers["ETag"]).status == 304


@pytest.mark.parametrize(
    "path",
    [
        "/../app.py",
        "/..%2fapp.py",
        "/%2e%2e/app.py",
        "/static/../../app.py",
        "//etc/passwd",
        "/etc/passwd",
        "/./../app.py",
        "/..\\app.py",
        "/index.html/../../app.py",
        "/index.html%00.js",
        "/.",
        "/..",
        "/SOURCES.sha256",
        "/app.py",
        "/api/../app.py",
        "/api/%2e%2e/%2e%2e/etc/passwd",
        "/api/runs/..%2f..%2f/analyses/operators",
    ],
)
def test_no_path_leads_out(mlp: Client, path: str) -> None:
    answer = mlp.ask(path)
    assert answer.status == 404
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


def test_only_get_and_head(mlp: Client) -> None:
    for method in ("DELETE", "PUT", "PATCH", "OPTIONS"):
        assert mlp.ask("/", method=method).status in (403, 405)
        assert mlp.ask("/api/runs", method=method).status in (403, 405)
    assert mlp.ask("/", method="HEAD").status == 200


def test_long_answers_are_packed(mlp: Client) -> None:
    assert mlp.ask("/api/analyses", Accept_Encoding="gzip").headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in mlp.ask("/api/analyses").headers


def test_nonsense_does_not_end_it(mlp: Client) -> None:
    for sent in (b"\x00\xff\r\n\r\n", b"GET\r\n\r\n", b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", mlp.port)) as raw:
            raw.sendall(sent)
            raw.settimeout(10)
            with contextlib.suppress(ConnectionError):
                raw.recv(100)
    assert mlp.ask("/api/server").status == 200
