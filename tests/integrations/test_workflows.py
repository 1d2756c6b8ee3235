"""The workflows of GitHub Actions, as far as can be seen without running them, and what they publish."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
STATIC = ROOT / "src" / "kinetoscope" / "server" / "static"


def workflow(path: Path) -> dict[str, Any]:
    """What YAML makes of it; of the key `on` it makes True."""
    yaml: Any = importlib.import_module("yaml")  # no types
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_asks_for_little_and_is_whole(path: Path) -> None:
    found = workflow(path)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert found["permissions"] == {}
    for name, job in found["jobs"].items():
        assert {"runs-on", "timeout-minutes", "permissions", "steps"} <= job.keys(), name
        assert job.get("needs", name) in found["jobs"]
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v1)", step.get("uses", "a/b@v1"))
            assert "${{" not in step.get("run", ""), "what a tag is called never becomes a script"
            assert set(re.findall(r"\bmake ([\w-]+)", step.get("run", ""))) <= targets


def test_the_release_is_tried_on_each_python_that_the_package_names() -> None:
    jobs = workflow(FOLDER / "release.yml")["jobs"]
    named = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    versions = [each.rpartition(" ")[2] for each in named if re.search(r":: 3\.\d+$", each)]
    assert jobs["install"]["strategy"]["matrix"]["python"] == versions
    assert jobs["publish"]["needs"] == "install"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}


@pytest.mark.slow
def test_a_wheel_has_what_is_needed_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet", "--wheel-dir", str(tmp_path), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if "hatchling" in made.stderr and made.returncode:
        pytest.skip("hatchling cannot be had")
    assert made.returncode == 0, made.stderr
    [wheel] = tmp_path.iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < 4_000_000
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"kinetoscope"}
    info = next(name.partition("/")[0] for name in names if name.endswith("/METADATA"))
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE", f"{info}/entry_points.txt"} <= names
    source = ROOT / "src"
    assert {each.relative_to(source).as_posix() for each in STATIC.rglob("*") if each.is_file()} <= names
    assert {"kinetoscope/py.typed", "kinetoscope/__init__.pyi", "kinetoscope/server/static/THIRD_PARTY.txt"} <= names
    assert not [name for name in names if re.search(r"/(tests?/|test_|__pycache__)", name)]
