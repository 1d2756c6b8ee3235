"""The Ray engine on a real Ray with two worker processes, in a network namespace: Ray listens on all addresses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kinetoscope import read
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


def test_a_missing_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"engine 'ray' needs an extra: pip install '\.\[ray\]' in a checkout"):
        read(written(tmp_path), engine="ray")
