"""Code that was compiled ahead of time: which calls it takes, and that whatever it does not take, Numba compiles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope.algorithms import grouping, prebuilt

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "traces"

INT64 = ["<i8", 1, False]
READ_ONLY = ["<i8", 1, True]


def variant(monkeypatch: pytest.MonkeyPatch, *kinds: Any) -> prebuilt.PrebuiltVariant:
    """One that returns what it is called with."""
    called: Callable[..., Any] = lambda *arguments: arguments  # noqa: E731
    monkeypatch.setattr(prebuilt, "_extension", lambda: type("Extension", (), {"f": staticmethod(called)}))
    return prebuilt.PrebuiltVariant("f", list(kinds))


def frozen(values: Any) -> Any:
    array = np.asarray(values)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        (INT64, np.zeros(3, np.int64), frozen(np.zeros(3, np.int64))),
        (INT64, np.zeros(3, np.int64), np.zeros(3, np.uint64)),
        (INT64, np.zeros(3, np.int64), np.zeros(6, np.int64)[::2]),
        (INT64, np.zeros(3, np.int64), np.zeros((3, 3), np.int64)),
        (INT64, np.zeros(3, np.int64), 3),
        (READ_ONLY, frozen(np.zeros(3, np.int64)), np.zeros(3, np.int32)),
        (READ_ONLY, np.zeros(3, np.int64), None),
        ("int64", 3, np.uint64(3)),
        ("int64", np.int64(3), True),
        ("uint64", np.uint64(3), 3),
        ("float64", 3.0, 3),
        ("bool", True, 1),
        ("bool", np.bool_(False), np.zeros(3, np.bool_)),
    ],
)
def test_what_fits(kind: Any, fits: Any, does_not: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = variant(monkeypatch, kind)
    assert made.fits((fits,))
    assert not made.fits((does_not,))
    assert not made.fits((fits, fits))
    assert made(fits) == (fits,)


def test_what_fits_no_variant_is_compiled_by_numba() -> None:
    of_numba: Any = vars(grouping)["_group_rows"]
    python = getattr(of_numba, "py_func", None) or of_numba.__wrapped__
    made = prebuilt.PrebuiltFunction(python, [])
    again = vars(prebuilt._by_numba("kinetoscope.algorithms.grouping"))["_group_rows"]
    assert again.py_func.__code__ == python.__code__
    with pytest.raises(TypeError):
        made()


SUMMARY = """
import sys
from kinetoscope.cli import main
code = main(sys.argv[1:])
print("numba" in sys.modules)
sys.exit(code)
"""


def said(source: Path, *arguments: str, switch: str = "") -> list[str]:
    """Lines of a command, and whether it loaded Numba."""
    environment = {**os.environ, "PYTHONPATH": str(source), prebuilt.SWITCH: switch}
    command = [sys.executable, "-c", SUMMARY, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_build(tmp_path: Path) -> None:
    """It says the same without Numba; and with it, where a file is another one than it was built from."""
    if not (shutil.which("cc") or shutil.which("gcc")):
        pytest.skip("no C compiler")
    pytest.importorskip("setuptools")
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns(f"{prebuilt.EXTENSION}.*", "static"))
    build = [sys.executable, str(ROOT / "tools" / "prebuilt.py")]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(build, capture_output=True, text=True, env=environment, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    trace, ranks = str(TRACES / "transformer.pt.trace.json.gz"), str(TRACES / "ddp2")
    for words in (("summary", trace), ("advise", trace), ("show", "step-breakdown", trace)):
        *ahead, loaded = said(source, *words)
        *at_call, loaded_at_call = said(source, *words, switch="off")
        assert ahead == at_call
        assert (loaded, loaded_at_call) == ("False", "True")
    assert (
        said(source, "show", "stragglers", ranks)[:-1] == said(source, "show", "stragglers", ranks, switch="off")[:-1]
    )

    changed = source / "kinetoscope" / "algorithms" / "ordering.py"
    changed.write_text(changed.read_text() + "\n# another file\n")
    *after, loaded = said(source, "show", "step-breakdown", trace)
    assert (after, loaded) == (ahead, "True")
