"""The command as a whole: exit codes, one-line errors, quiet ends, a cheap start."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import fsspec
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
    assert capsys.readouterr().out.startswith("usage: kinetoscope [--extend FILE] VERB")


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
        (["shwo"], 2, "unknown verb 'shwo' (did you mean 'show'?); the verbs are summary, advise, "),
        (["doctor"], 2, "the following arguments are required: PATH; `kinetoscope doctor --help` lists the options"),
        (["doctor", "x", "--jobs", "0"], 2, "argument --jobs: '0' is no number from 1;"),
        (["doctor", str(MLP), "b"], 1, "b: no such file or folder"),
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


@pytest.mark.slow
def test_the_process_ends_with_the_code() -> None:
    done = run("doctor", "/no/such/file.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert run("doctor", MLP).returncode == 0


@pytest.mark.slow
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


SHOW = ["show", "operators", str(MLP)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*SHOW, "-o", "/dev/full"], "/dev/full: cannot be written: No space left on device"),
        (["convert", str(MLP), "--to", "json", "-o", "/dev/full"], "/dev/full: cannot be written: No space left"),
        (["report", str(MLP), "-o", "/proc/none.html"], "/proc/none.html: cannot be written: "),
        (["report", str(MLP), "-o", "nowhere://x/y.html"], "nowhere://x/y.html: "),
        ([*SHOW, "-o", "nowhere://x/y.json"], "nowhere://x/y.json: "),
        (["convert", str(MLP), "--to", "json", "-o", "nowhere://x/y.json"], "nowhere://x/y.json: "),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"kinetoscope: {said}")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("> /dev/full", 1, "kinetoscope: standard output cannot be written: No space left on device\n"),
        (">&-", 1, "kinetoscope: standard output cannot be written: Bad file descriptor\n"),
        ("2>&-", 0, ""),
        (">&- 2>&-", 1, ""),
        ("2> /dev/full > /dev/full", 1, ""),
    ],
)
def test_streams_that_take_nothing(redirection: str, code: int, said: str) -> None:
    command = shlex.join([*COMMAND, *SHOW])
    done = subprocess.run(
        ["/bin/sh", "-c", f"{command} {redirection}"], capture_output=True, text=True, env=environment(), check=False
    )
    assert (done.returncode, done.stderr) == (code, said)
    assert bool(done.stdout) == (code == 0)


def test_a_url_is_written_to(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = fsspec.filesystem("memory")
    assert main(["convert", str(MLP), "--to", "json", "-o", "memory://outputs/mlp.json"]) == 0
    assert main([*SHOW, "-o", "memory://outputs/operators.csv"]) == 0
    assert len(json.loads(store.cat("/outputs/mlp.json"))["traceEvents"]) == 2214
    assert store.cat("/outputs/operators.csv").startswith(b"rank,name,")
    assert main(["convert", str(MLP), "--to", "parquet", "-o", "memory://outputs/mlp"]) == 2
    assert "writes Parquet to folders of this machine" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_an_installation_without_its_dependencies_says_what_it_cannot() -> None:
    program = "import sys; sys.modules['numba'] = None\nfrom kinetoscope.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "summary", str(MLP)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": ":".join(sys.path)})
    assert run.returncode == 1
    assert run.stderr == (
        "kinetoscope: numba is not installed for this Python; without what it needs Kinetoscope can only record\n"
    )
