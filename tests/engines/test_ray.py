"""The Ray engine on a real Ray with two worker processes, in a network namespace: Ray listens on all addresses."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.engines.ray import _require_cluster
from kinetoscope.errors import InputError, MissingExtraError
from tests.conftest import ROOT
from tests.engines.questions import BROKEN, RANKS, written

pytestmark = pytest.mark.slow

NAMESPACE = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
LOOPBACK = "ip link set lo up && exec "


def test_it_answers_as_on_threads_whatever_happens_to_workers(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs kinetoscope[ray]")
    if (
        not shutil.which("unshare")
        or subprocess.run([*NAMESPACE, "ip", "link", "set", "lo", "up"], check=False).returncode
    ):
        pytest.skip("needs a network namespace (unshare, ip, and the right to make one)")
    (tmp_path / "run").mkdir()
    written(tmp_path / "run")
    ours = {"HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    script = shutil.which("sh") or "/bin/sh"
    command = [sys.executable, "-m", "tests.engines.asking_ray", str(tmp_path)]
    done = subprocess.run(
        [*NAMESPACE, script, "-c", f'{LOOPBACK}"$@"', script, *command],
        env=os.environ | ours,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["was_killed"]
    assert found["complete"]
    assert found["notes"]
    assert found["differing"] == found["ddp2"] == []
    assert found["sums"][0] == found["sums"][1]
    assert found["kept"] > 0.8
    [note] = found["given_up"]
    assert note.startswith("rank 2 is left out: ")
    assert found["others"] == [rank for rank in range(RANKS) if rank not in (2, BROKEN)]
    assert (found["mistaken"], found["refused"]) == ("ZeroDivisionError", "UsageError")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"])
def test_an_address_where_nothing_answers_is_one_line(tmp_path: Path, address: str) -> None:
    pytest.importorskip("ray", reason="needs kinetoscope[ray]")
    with pytest.raises(InputError, match=f"^no Ray cluster answers at {address} from Python .* and Ray "):
        read(written(tmp_path), engine="ray", address=address)


def test_a_port_that_does_not_speak_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="needs kinetoscope[ray]")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InputError, match=f"^no Ray cluster answers at {address} .* has not answered for 5 s$"):
            _require_cluster(address)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({}, "wants a token: set RAY_AUTH_MODE=token and the RAY_AUTH_TOKEN that it was started with"),
        ({"RAY_AUTH_TOKEN": "wrong"}, "refuses the token of this machine: set RAY_AUTH_TOKEN to the one"),
        ({"RAY_AUTH_MODE": "token"}, "^RAY_AUTH_MODE is token, and there is none: set RAY_AUTH_TOKEN"),
    ],
)
def test_what_a_cluster_with_tokens_wants_is_one_line(
    environment: dict[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with guarded(environment, tmp_path, monkeypatch) as address, pytest.raises(InputError, match=words):
        _require_cluster(address)


@pytest.mark.parametrize("environment", [{"RAY_AUTH_TOKEN": "right"}, {"HOME": "has a file"}])
def test_the_token_of_this_machine_is_used(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "HOME" in environment:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("right")
        environment = {}
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    with guarded(environment, tmp_path, monkeypatch) as address:
        _require_cluster(address)
    assert os.environ["RAY_AUTH_MODE"] == "token"


@contextmanager
def guarded(environment: dict[str, str], home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A port that takes connections, and a cluster there that answers whoever has the right token, as Ray 2.60 does."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # restored at the end
        monkeypatch.delenv(name)
    for name, value in ({"HOME": str(home)} | environment).items():
        monkeypatch.setenv(name, value)

    def probed(address: str) -> str:
        token = home / ".ray" / "auth_token"
        right = token.is_file() or os.environ.get("RAY_AUTH_TOKEN") == "right"
        if os.environ.get("RAY_AUTH_MODE") == "token" and right:
            return ""
        return f"AuthenticationError: RPC error of {address}: Authentication token is missing or incorrect."

    monkeypatch.setattr("kinetoscope.engines.ray._probed", probed)
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_missing_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"engine 'ray' needs an extra: pip install 'ray>="):
        read(written(tmp_path), engine="ray")
