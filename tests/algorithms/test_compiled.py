import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kinetoscope.algorithms import compiled, grouping

KERNEL = """
import numpy as np
from kinetoscope.algorithms.compiled import compiled

@compiled
def _inner(values):
    return values[0] + 1

@compiled
def outer(values):
    return _inner(values) * 2
"""

REPORT = """
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from kinetoscope.algorithms.compile_events import on_compile
    import kernel
    with on_compile(lambda name, begins: print(name, begins)):
        print(kernel.outer(kernel.np.ones(1, "int64")))
    print(kernel._inner(kernel.np.ones(1, "float64")))
for warning in caught:
    print(warning.category.__name__, warning.message)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernel.py").write_text(KERNEL)
    return tmp_path


def run(code: str, folder: Path, **environment: str) -> list[str]:
    """Lines that `code` prints in a process of its own, which can keep compiled code nowhere but beside the source."""
    source = Path(compiled.__file__).parents[2]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    # Below a device no folder can be made, not even by root.
    kept |= {"PYTHONPATH": f"{source}{os.pathsep}{folder}", "HOME": "/dev/null", **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=kept, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_tells_of_compilations_and_only_of_those(folder: Path) -> None:
    assert run(REPORT, folder) == ["outer True", "outer False", "4", "2.0"]
    assert run(REPORT, folder) == ["4", "2.0"]


WITHOUT_PRIVATE_OPTIONS = """
from numba.core import cpu
for name in ("_nrt", "forceinline"):
    delattr(next(base for base in cpu.CPUTargetOptions.__mro__ if name in vars(base)), name)
"""


@pytest.mark.slow
def test_a_version_of_numba_without_the_private_options_gives_the_same_with_a_warning(folder: Path) -> None:
    *printed, warning = run(WITHOUT_PRIVATE_OPTIONS + REPORT, folder)
    assert printed == ["outer True", "outer False", "4", "2.0"]
    assert warning.startswith("RuntimeWarning Numba")


def read_only(folder: Path) -> Path:
    """Make it as a read-only installation is to everyone but root: a file is where the folder should be."""
    (folder / "__pycache__").write_text("")
    (folder / "tmp").mkdir()
    return folder / "tmp"


@pytest.mark.slow
def test_without_a_home_what_is_compiled_is_kept_with_temporary_files(folder: Path) -> None:
    temporary = str(read_only(folder))
    assert run(REPORT, folder, TMPDIR=temporary) == ["outer True", "outer False", "4", "2.0"]
    assert run(REPORT, folder, TMPDIR=temporary) == ["4", "2.0"]
    [private] = Path(temporary).iterdir()
    assert private.stat().st_mode & 0o077 == 0


def test_goes_on_without_a_cache_and_says_so_once(folder: Path) -> None:
    temporary = read_only(folder)
    others = temporary / f"kinetoscope-{os.getuid()}"
    others.mkdir()
    others.chmod(0o777)  # anybody may have put code there
    *printed, warning = run(REPORT, folder, TMPDIR=str(temporary))
    assert printed == ["outer True", "outer False", "4", "2.0"]
    assert warning.startswith("CompileCacheWarning cannot cache function")
    assert "NUMBA_CACHE_DIR" in warning


@pytest.mark.slow
@pytest.mark.parametrize("left", [0, 30])
def test_what_a_killed_process_left_of_the_cache_is_compiled_anew(folder: Path, left: int) -> None:
    assert run(REPORT, folder) == ["outer True", "outer False", "4", "2.0"]
    for ending in ("nbi", "nbc"):
        files = list((folder / "__pycache__").glob(f"*.{ending}"))
        assert files
        for each in files:
            each.write_bytes(each.read_bytes()[:left])
        assert run(REPORT, folder) == ["outer True", "outer False", "4", "2.0"]
        assert run(REPORT, folder) == ["4", "2.0"]


@pytest.mark.slow
def test_full_disk_costs_the_cache_and_not_the_run(folder: Path) -> None:
    full = "import resource, signal\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    *printed, warning = run(full + REPORT, folder)
    assert printed == ["outer True", "outer False", "4", "2.0"]
    assert warning.startswith("CompileCacheWarning [Errno")


def test_numba_is_loaded_with_the_first_compiled_module_only(folder: Path) -> None:
    code = (
        "import sys, kinetoscope.algorithms, kinetoscope.algorithms.intervals.intervals; print('numba' in sys.modules)"
    )
    assert run(code, folder) == ["False"]


def test_all_kinds_of_input_share_one_compiled_version() -> None:
    key = np.arange(6, dtype=np.int64)
    grouping.group(key)
    grouping.group(key[::2])
    grouping.group(key.astype(np.int32))
    grouping.group(compiled.frozen(key, np.int64))
    assert len(vars(grouping)["_group_rows"].signatures) == 1


def test_frozen_leaves_the_array_alone() -> None:
    array = np.arange(3, dtype=np.int64)
    view = compiled.frozen(array, np.int64)
    assert np.shares_memory(view, array)
    assert array.flags.writeable
    assert not view.flags.writeable


@pytest.mark.parametrize("array", [np.zeros(1), np.zeros(1, np.uint64)])
def test_frozen_loses_no_value(array: NDArray[Any]) -> None:
    with pytest.raises(TypeError):
        compiled.frozen(array, np.int64)


def test_frozen_takes_one_dimension() -> None:
    with pytest.raises(ValueError, match="one dimension"):
        compiled.frozen(np.zeros((2, 2), np.int64), np.int64)


NAMED = """
from typing import NamedTuple
import numpy as np
from kinetoscope.algorithms.compiled import compiled

class Before(NamedTuple):
    values: np.ndarray

@compiled
def outer(tables):
    return tables.values[0] + 1
"""


@pytest.mark.slow
def test_what_an_older_version_kept_is_compiled_anew(tmp_path: Path) -> None:
    for name in ("Before", "After"):
        (tmp_path / "kernel.py").write_text(NAMED.replace("Before", name))
        ask = f"import kernel; print(kernel.outer(kernel.{name}(kernel.np.ones(1, 'int64'))))"
        assert run(ask, tmp_path) == ["2"]
