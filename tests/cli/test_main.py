"""The command as a whole: exit codes, one-line errors, quiet ends, a cheap start."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kinetoscope.cli import VERBS, main
from tests.cli.run import COMMAND, MLP, environment, run


def test_help_names_every_verb_and_there_is_a_module_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for verb, sentence in VERBS.items():
        assert f"  {verb} " in text
        assert sentence in text
        assert main([verb, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"usage: kinetoscope {verb}")


def test_nothing_to_do_is_a_matter_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: kinetoscope VERB")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from kinetoscope.cli import main; code = main(['--help']);"
        "heavy = {'numba', 'polars', 'numpy', 'rich', 'torch'} & set(sys.modules);"
        "sys.exit(f'loaded: {heavy}' if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["shwo"], 2, "there is no verb 'shwo' (did you mean 'show'?); the verbs are summary, advise, "),
        (["doctor"], 2, "the following arguments are required: PATH; `kinetoscope doctor --help` lists the options"),
        (["doctor", "x", "--jobs", "0"], 2, "argument --jobs: '0' is no number from 1;"),
        (["doctor", "a", "b"], 2, "2 paths, where one is taken: name their folder, or put the glob in quotes"),
        (["doctor", "/no/such/file.json"], 1, "/no/such/file.json: no such file or folder"),
        (["doctor", __file__], 1, f"{__file__}:"),
        (["doctor", "\x1b[31mred\n.json"], 1, "\\x1b[31mred\\n.json: no such file or folder"),
    ],
)
def test_an_error_is_one_line_and_a_code(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"kinetoscope: {message}")
    assert said.err.count("\n") == 1


def test_the_process_ends_with_the_code() -> None:
    done = run("doctor", "/no/such/file.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert run("doctor", MLP).returncode == 0


def test_a_reader_who_has_enough_is_no_error() -> None:
    with subprocess.Popen(
        [*COMMAND, "show", "temporal-breakdown", str(MLP), "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONUNBUFFERED="1"),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_an_interrupt_ends_quietly(tmp_path: Path) -> None:
    waits = tmp_path / "waits.json"
    os.mkfifo(waits)  # a file that never says anything
    with subprocess.Popen([*COMMAND, "doctor", str(waits)], stderr=subprocess.PIPE, env=environment()) as process:
        writer = os.open(waits, os.O_WRONLY)  # from here on the process is reading
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        os.close(writer)
        assert process.stderr.read() == b""
        assert process.wait(60) == 130


def test_a_terminal_gets_colour_and_a_pipe_does_not() -> None:
    assert "\x1b" not in run("doctor", MLP).stdout
    parent, child = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "doctor", str(MLP)], stdout=child, env=environment(TERM="xterm-256color")
    ) as process:
        os.close(child)
        seen = b""
        while block := _read(parent):
            seen += block
        assert process.wait(60) == 0
    os.close(parent)
    assert re.search(rb"\x1b\[1m1 trace read", seen)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end was closed
        return b""
