"""Who may ask: Host, Origin, token; and the headers of all answers."""

from __future__ import annotations

import socket

import pytest

from kinetoscope.server.http.access import CONTENT_SECURITY, Rules
from tests.server.conftest import MLP
from tests.server.serving import Client, serving

TOKEN = "a-long-secret_of.ours~1"


@pytest.mark.parametrize("host", ["127.0.0.1:7007", "localhost", "LOCALHOST:1", "[::1]:9", "127.9.9.9"])
def test_it_goes_by_the_names_of_this_machine(mlp: Client, host: str) -> None:
    assert mlp.ask("/api/server", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "localhost.evil.com",
        "127.0.0.1.nip.io",
        "evil.com:7007",
        "",
        "localhost@evil.com",
        "evil.com#localhost",
        "10.0.0.1",
        "[::2]",
        "localhost/../evil.com",
        "[",
        "0x7f000001",
    ],
)
def test_a_name_that_somebody_else_gave_it_is_refused(mlp: Client, host: str) -> None:
    for path in ("/", "/api/runs"):
        answer = mlp.ask(path, Host=host)
        assert answer.status == 403
        assert b"runs" not in answer.body


@pytest.mark.parametrize(
    "origin", ["http://evil.com", "null", "https://localhost", "http://localhost:1", "file://", "http://127.0.0.1"]
)
def test_pages_of_other_sites_are_refused(mlp: Client, origin: str) -> None:
    assert mlp.ask("/api/runs", Origin=origin).status == 403


def test_its_own_page_may_ask(mlp: Client) -> None:
    own = f"127.0.0.1:{mlp.port}"
    assert mlp.ask("/api/runs", Host=own, Origin=f"http://{own}").status == 200


def test_a_form_of_another_site_cannot_ask(mlp: Client) -> None:
    path = f"/api/runs/{mlp.run()}/sql"
    body = b'{"query": "SELECT 1"}'
    assert mlp.ask(path, method="POST", body=body, Content_Type="text/plain").status == 415
    refused = mlp.ask(path, method="POST", body=body, Content_Type="application/json", Sec_Fetch_Site="cross-site")
    assert refused.status == 403


@pytest.mark.parametrize(("mode", "status"), [("no-cors", 403), ("cors", 403), ("navigate", 200)])
def test_a_picture_on_another_site_asks_nothing(mlp: Client, mode: str, status: int) -> None:
    for site in ("cross-site", "same-site"):
        assert mlp.ask("/api/runs", Sec_Fetch_Site=site, Sec_Fetch_Mode=mode).status == status
    assert mlp.ask("/api/runs", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200


def test_a_question_can_only_be_so_long(mlp: Client) -> None:
    body = b'{"query": "' + b"x" * (2 << 20) + b'"}'
    try:
        answer = mlp.ask(f"/api/runs/{mlp.run()}/sql", method="POST", body=body, Content_Type="application/json")
    except (ConnectionError, BrokenPipeError):
        return  # it stopped listening before all was said
    assert answer.status == 413


@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/nothing", "/nothing.js"])
def test_all_answers_carry_the_headers(mlp: Client, path: str) -> None:
    headers = mlp.ask(path).headers
    assert headers["Content-Security-Policy"] == CONTENT_SECURITY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"]
    assert "unsafe-eval" not in CONTENT_SECURITY
    assert "http" not in CONTENT_SECURITY


def test_without_the_token_nothing_is_told() -> None:
    with serving(MLP, rules=Rules(token=TOKEN)) as client:
        for path in ("/", "/api/runs", "/api/server", "/index.html"):
            assert client.ask(path).status == 403
            assert client.ask(path, {"token": "wrong"}).status == 403
            assert client.ask(path, {"token": ""}).status == 403
            assert client.ask(path, Authorization="Bearer wrong").status == 403
            assert client.ask(path, Authorization=f"Basic {TOKEN}").status == 403
        assert client.ask("/api/runs", Authorization=f"Bearer {TOKEN}").status == 200


def test_the_link_is_exchanged_for_a_cookie() -> None:
    with serving(MLP, rules=Rules(token=TOKEN)) as client:
        answer = client.ask("/", {"token": TOKEN, "x": "1"})
        assert answer.status == 303
        assert answer.headers["Location"] == "./?x=1"
        cookie, *facts = answer.headers["Set-Cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(facts)
        assert client.ask("/api/runs", Cookie=cookie).status == 200
        assert client.ask("/api/runs", Cookie=f"other=1; {cookie}").status == 200
        assert client.ask("/api/runs", Cookie=cookie[:-1]).status == 403
        assert client.ask("/api/runs", Cookie=cookie, Origin="http://evil.com").status == 403


def test_what_the_link_leads_to_is_no_header() -> None:
    with serving(MLP, rules=Rules(token=TOKEN)) as client:
        for path in ("/%0d%0aSet-Cookie:%20a=b", "/x/%e2%82%ac.js"):
            answer = client.ask(path, {"token": TOKEN})
            assert answer.status == 303
            assert answer.headers["Location"] == "./" + path.rpartition("/")[2].replace("%0d", "%0D").replace(
                "%0a", "%0A"
            ).replace("%e2%82%ac", "%E2%82%AC").replace(":", "%3A").replace("=", "%3D")
            assert len(answer.headers.get_all("Set-Cookie") or ()) == 1


def test_two_hosts_are_none(mlp: Client) -> None:
    with socket.create_connection(("127.0.0.1", mlp.port)) as raw:
        raw.sendall(b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\nConnection: close\r\n\r\n")
        status = raw.makefile("rb").readline()
    assert b" 200 " not in status


def test_there_are_no_web_sockets(mlp: Client) -> None:
    answer = mlp.ask("/api/runs", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Version="13")
    assert answer.status != 101


def test_other_addresses_are_no_names_to_be_rebound() -> None:
    with serving(MLP, rules=Rules(host="0.0.0.0", token=TOKEN, names=frozenset({"gpu.example.com"}))) as client:
        for host in ("192.168.1.5:7007", "[fe80::1]", "gpu.example.com", socket.gethostname()):
            assert client.ask("/api/server", Host=host, Authorization=f"Bearer {TOKEN}").status == 200
        assert client.ask("/api/server", Host="evil.com", Authorization=f"Bearer {TOKEN}").status == 403
