"""A CUDA runtime without a device, under the real allocator of a torch that was built for CUDA.

`runtime.c` is loaded before NVIDIA's libraries: its memory is numbers, its kernels do nothing. All above it is torch's
own: the caching allocator, its history, its snapshots, its errors, the stacks. What values a program computes means
nothing; how it uses memory is as on a device. It is built for the torch of the interpreter that KINETOSCOPE_CUDA_PYTHON
names, with that torch's headers, a C compiler and `nm`.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

VARIABLE: Final = "KINETOSCOPE_CUDA_PYTHON"
"""An interpreter with a torch built for CUDA."""

HERE: Final = Path(__file__).parent
_LIBRARIES: Final = ("c10_cuda", "torch_cuda", "torch_python", "torch_cuda_linalg", "torch_cpu")
_REPLACED: Final = re.compile(r"\b(?:__cuda|cuda|cublas|cupti)\w*")
_DRIVER: Final = re.compile(r"\bcu[A-Z]\w*")


def missing() -> str:
    """Why nothing can be simulated here; "" if it can."""
    if not os.environ.get(VARIABLE):
        return f"{VARIABLE} names no interpreter with a torch built for CUDA"
    tools = [tool for tool in ("gcc", "nm") if shutil.which(tool) is None]
    return f"{', '.join(tools)} not installed" if tools else ""


def environment(*, size: int, **variables: object) -> dict[str, str]:
    """The environment of a program that sees a device of this size, in bytes.

    Further variables: `devices`; `outside`, bytes that other processes hold; `pending`, how often an event is asked
    for until it has happened. Those in capitals are the program's.
    """
    folder = built()
    own = {f"SIM_CUDA_{name.upper()}": value for name, value in variables.items() if name.islower()}
    given = {name: value for name, value in variables.items() if not name.islower()}
    whole = {"LD_LIBRARY_PATH": folder, "LD_PRELOAD": folder / "runtime.so", "SIM_CUDA_BYTES": size, **own, **given}
    return {**os.environ, **{name: str(value) for name, value in whole.items()}}


@functools.cache
def built() -> Path:
    """The folder of the libraries, built for that torch."""
    packages = Path(_asked("import torch; print(torch.__path__[0])")).parent
    folder = Path(tempfile.mkdtemp(prefix="simulated-cuda-"))
    major = _asked("import torch; print(torch.version.cuda.partition('.')[0])")
    headers = [packages / "nvidia" / f"cu{major}" / "include", packages / "triton" / "backends" / "nvidia" / "include"]
    include = [f"-I{each}" for each in headers if each.is_dir()]
    _compiled(folder / "runtime.o", HERE / "runtime.c", "-c", *include)
    has = _names(folder / "runtime.o", _REPLACED, "--defined-only")
    wants = {name for each in _LIBRARIES for name in _wanted(packages, each, _REPLACED)}
    _stubs(folder / "rest.c", wants - has)
    _compiled(folder / "runtime.so", folder / "runtime.o", "-shared", str(folder / "rest.c"))
    _stubs(folder / "driver.c", _wanted(packages, "caffe2_nvrtc", _DRIVER))
    _compiled(folder / "libcuda.so.1", folder / "driver.c", "-shared")
    _compiled(folder / "libnvidia-ml.so.1", HERE / "nvml.c", "-shared")
    return folder


def _asked(program: str) -> str:
    command = [os.environ[VARIABLE], "-c", program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _wanted(packages: Path, library: str, names: re.Pattern[str]) -> set[str]:
    return _names(packages / "torch" / "lib" / f"lib{library}.so", names, "-D", "--undefined-only")


def _names(file: Path, names: re.Pattern[str], *options: str) -> set[str]:
    listed = subprocess.run(["nm", *options, str(file)], check=True, capture_output=True, text=True).stdout
    return set(names.findall(listed))


def _stubs(file: Path, names: set[str]) -> None:
    file.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(names)))


def _compiled(target: Path, source: Path, *options: str) -> None:
    soname = [f"-Wl,-soname,{target.name}"] if ".so." in target.name else []
    subprocess.run(["gcc", "-fPIC", "-w", "-O1", *options, str(source), *soname, "-o", str(target)], check=True)
