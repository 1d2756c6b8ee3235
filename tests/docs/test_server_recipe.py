"""The recipe for servers is run: each of its commands, against a server of that kind that listens here."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.record.serving import recording
from tests.conftest import ROOT
from tests.docs.test_guides import blocks, commands
from tests.record.serving import says, serving

PAGE = ROOT / "docs/recipes/servers.md"
COMMANDS = [each for _, text in blocks(PAGE) for each in commands(text)]


@pytest.mark.parametrize(("command", "said"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_the_recipe_does_what_it_says(
    command: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SETTLED_SECONDS", 0.05)
    address = next(each for each in shlex.split(command) if each.startswith("http://"))
    kind, folder = "vLLM" if address.endswith(":8000") else "SGLang", str(tmp_path / "traces")
    odd = {"/metrics": says(404)} if "--for" in command else {}
    with serving(kind, Path(folder), odd=odd) as server:

        def here(text: str) -> str:
            return text.replace(address, server.url).replace("/traces", folder)

        assert main(shlex.split(here(command.replace("2s", "0.2s")))[1:]) == 0
    assert capsys.readouterr().err == here(said.replace("2 s ", "0.2 s ")).rstrip() + "\n"


def test_there_are_commands() -> None:
    assert len(COMMANDS) == 3
