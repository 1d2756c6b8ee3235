"""Tests of reading and algorithms with the oldest and the newest versions that `pyproject.toml` allows.

    python tools/versions.py                 each set of versions
    python tools/versions.py oldest          some of them
    python tools/versions.py --prepare       install and compile, without a test: the next call finds it done

A set is a Python and its dependencies, installed into `.venv-versions/NAME`. `oldest` has each dependency at its lower
bound. A set whose Python is not on this machine is skipped, and a line says so. Exit status: 1 if a test failed.
Properties get a few examples: versions are tested here, inputs elsewhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".venv-versions"
# numba 0.65.0 is what vLLM 0.20 to 0.33 pins.
SETS = {"oldest": "3.11", "vllm": "3.12", "newest": "3.13"}
PINS = {"vllm": ("numba==0.65.0",)}
TOOLS = frozenset({"hypothesis", "pytest", "pytest-xdist", "pyyaml"})
TESTS = (
    "tests/algorithms",
    "tests/readers",
    "tests/model/tables",
    "tests/views/charts",
    "tests/test_reading.py",
    "tests/test_schema.py",
)


def interpreter(version: str) -> str | None:
    """The command of a Python of this version, by its name or from pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    asked = "import sys; sys.exit('%d.%d' % sys.version_info[:2] != sys.argv[1])"
    for candidate in filter(None, candidates):
        if not subprocess.run([candidate, "-c", asked, version], capture_output=True, check=False).returncode:
            return candidate
    return None


def lower_bounds(project: dict[str, Any]) -> list[str]:
    """Each dependency, also of the extra `pandas`, at the oldest version that is allowed."""
    requirements = [*project["dependencies"], *project["optional-dependencies"]["pandas"]]
    return [re.sub(r"^([\w.-]+)>=([\w.]+)[^;]*", r"\1==\2", each) for each in requirements]


def install(name: str, python: str, text: str, environment: dict[str, str]) -> Path:
    """The Python of the set's environment, which is made anew when `pyproject.toml` has changed."""
    folder = ENVIRONMENTS / name
    stamp = folder / "pyproject.toml"
    if not stamp.exists() or stamp.read_text("utf-8") != text:
        project = tomllib.loads(text)["project"]
        pins = lower_bounds(project) if name == "oldest" else list(PINS.get(name, ()))
        tools = [each for each in project["optional-dependencies"]["dev"] if re.split(r"\W*[>=]", each)[0] in TOOLS]
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        quiet = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*quiet, "--editable", f"{ROOT}[pandas]", *pins, *tools], check=True)
        # Once, and not by each process of the tests at the same time.
        subprocess.run([folder / "bin" / "kinetoscope", "warm"], env=environment, check=True)
        stamp.write_text(text, "utf-8")
    return folder / "bin" / "python"


def main() -> int:
    """Exit status."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    failed = []
    names = [word for word in sys.argv[1:] if word != "--prepare"]
    for name in names or SETS:
        python = interpreter(SETS[name])
        if python is None:
            print(f"== {name}: SKIPPED, Python {SETS[name]} is not on this machine", flush=True)
            continue
        print(f"== {name}: Python {SETS[name]}", flush=True)
        # Compiled code is kept in __pycache__ under names that the sets would share.
        own = {"NUMBA_CACHE_DIR": str(ENVIRONMENTS / name / "compiled"), "HYPOTHESIS_PROFILE": "brief"}
        environment = {**os.environ, **own, "PYTHONPATH": ""}
        installed = install(name, python, text, environment)
        if "--prepare" in sys.argv:
            continue
        words = ["-m", "pytest", "-q", "-n", os.environ.get("WORKERS", "auto"), "-m", "not slow and not torch", *TESTS]
        if subprocess.run([installed, *words], cwd=ROOT, env=environment, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"== failed: {', '.join(failed)}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
