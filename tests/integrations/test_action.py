"""The GitHub Action: what it takes, and its script, run as the runner runs it."""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compare.gated import drawn

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ACTION = ROOT / "action.yml"
INPUTS = ("new", "base", "baseline", "max-regression", "strict", "noise", "any-device")


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    yaml: Any = importlib.import_module("yaml")
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return found


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A folder as the runner gives it, with the command where the first step installs it."""
    tools = tmp_path / "temp" / "kinetoscope-gate" / "bin"
    tools.mkdir(parents=True)
    command = tools / "kinetoscope"
    code = "import sys; from kinetoscope.cli import main; sys.exit(main())"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n')
    command.chmod(0o755)
    for number in range(3):
        drawn(tmp_path / "work" / "base runs" / str(number), seed=number)
        drawn(tmp_path / "work" / "new" / str(number), seed=number + 10, gemm=5.5)
    return tmp_path


def held(action: dict[str, Any], runner: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The second step with these inputs (`max_regression` for max-regression)."""
    [_, step] = action["runs"]["steps"]
    given = {name: str(action["inputs"][name].get("default", "")) for name in INPUTS}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    env = {}
    for name, expression in step["env"].items():
        [of] = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", expression).groups()  # type: ignore[union-attr]
        env[name] = given[of]
    script = runner / "script.sh"
    script.write_text(step["run"])
    runners = {
        "RUNNER_TEMP": str(runner / "temp"),
        "GITHUB_OUTPUT": str(runner / "output"),
        "GITHUB_STEP_SUMMARY": str(runner / "summary.md"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "NUMBA_CACHE_DIR") if name in os.environ}
    # https://docs.github.com/actions: how `shell: bash` runs a step.
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=runner / "work",
        env=kept | runners | env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


BASE = "base runs/0\n  base runs/1\r\n\nbase runs/2\n"
NEW = "new/0\nnew/1\nnew/2"


def test_every_step_is_bash_and_takes_its_inputs_as_variables(action: dict[str, Any]) -> None:
    assert action["runs"]["using"] == "composite"
    assert set(action["inputs"]) == set(INPUTS)
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        assert "eval" not in step["run"]


def test_every_option_of_the_gate_that_takes_an_input_exists(action: dict[str, Any]) -> None:
    help_text = subprocess.run(
        [sys.executable, "-m", "kinetoscope", "gate", "--help"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        timeout=60,
    ).stdout
    for name in INPUTS:
        assert f"--{name} " in help_text or f"--{name}\n" in help_text


def test_a_loss_fails_the_step_and_stands_in_the_summary(action: dict[str, Any], runner: Path) -> None:
    done = held(action, runner, base=BASE, new=NEW, max_regression="step_time=5%\n\n op:aten::mm=90% ")
    assert done.returncode == 3, done.stderr
    assert (runner / "output").read_text() == "passed=false\n"
    summary = (runner / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("# The gate failed: step_time is worse")
    assert "`op:aten::mm`" in summary
    assert "::error title=Performance gate::" in done.stdout


def test_no_loss_passes(action: dict[str, Any], runner: Path) -> None:
    done = held(action, runner, base=BASE, new=BASE, noise="1%")
    assert done.returncode == 0, done.stderr + done.stdout
    assert (runner / "output").read_text() == "passed=true\n"
    assert not done.stderr


def test_strict_fails_a_doubt(action: dict[str, Any], runner: Path) -> None:
    assert held(action, runner, base="new/0", new="new/1").returncode == 0
    assert held(action, runner, base="new/0", new="new/1", strict="true").returncode == 3


def test_a_baseline_stands_for_the_base(action: dict[str, Any], runner: Path) -> None:
    from kinetoscope.cli import main

    runs = [str(runner / "work" / "base runs" / str(number)) for number in range(3)]
    assert main(["gate", "--write-baseline", str(runner / "work" / "perf.json"), *runs]) == 0
    assert held(action, runner, baseline="perf.json", new=NEW).returncode == 3


EVIL = ("$(touch owned)", "`touch owned`", '"; touch owned; "', "'; touch owned; '", "--summary=owned", "-o", "owned")


@pytest.mark.parametrize("name", ["new", "base", "baseline", "max_regression", "noise", "strict", "any_device"])
def test_an_input_is_never_run_nor_taken_for_an_option(action: dict[str, Any], runner: Path, name: str) -> None:
    inputs = {"base": "new/0", "new": "new/0"} | {name: "\n".join(EVIL)}
    held(action, runner, **inputs)
    assert not list((runner / "work").rglob("*owned*"))


def test_names_from_traces_are_no_commands_to_the_runner(action: dict[str, Any], runner: Path) -> None:
    trace = runner / "work" / "new" / "0" / "run.pt.trace.json"
    trace.write_text(trace.read_text().replace('"gemm"', '"::add-mask::gemm"'))
    done = held(action, runner, base="base runs/0", new="new/0", max_regression="kernel:::add-mask::gemm=1%")
    begun = re.search(r"^::stop-commands::(\S+)$", done.stdout, re.MULTILINE)
    assert begun
    before, _, after = done.stdout.partition(f"::{begun[1]}::\n")
    assert "add-mask" in before
    assert "add-mask" not in after


def test_the_first_step_asks_for_a_python_that_will_do(action: dict[str, Any]) -> None:
    step = action["runs"]["steps"][0]
    said = re.search(r"version_info < \((\d+), (\d+)\)", step["run"])
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert said
    assert f'requires-python = ">={said[1]}.{said[2]}"' in project
    assert step["env"] == {"SOURCE": "${{ github.action_path }}"}
