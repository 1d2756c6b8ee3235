"""What the machine is: devices, driver, versions and clocks. No name of a host, user or folder."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, Final

_STATIC: Final = (
    "name,driver_version,vbios_version,memory.total,compute_cap,persistence_mode,mig.mode.current,ecc.mode.current,"
    "power.limit,clocks.max.sm,clocks.max.memory,pcie.link.gen.max,pcie.link.width.max"
)
_MOVING: Final = (
    "clocks.sm,clocks.mem,temperature.gpu,power.draw,pstate,clocks_event_reasons.active,utilization.gpu,memory.used"
)
_PACKAGES: Final = (
    "torch",
    "triton",
    "numpy",
    "cuda-bindings",
    "nvidia-cuda-cupti",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
)

_OF_TORCH: Final = """
import json, torch
devices = []
for number in range(torch.cuda.device_count()):
    each = torch.cuda.get_device_properties(number)
    about = {name: getattr(each, name, None) for name in ("name", "total_memory", "multi_processor_count", "major",
             "minor", "L2_cache_size", "gcnArchName")}
    devices.append(about)
nccl = torch.cuda.nccl.version() if devices and torch.distributed.is_nccl_available() else None
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip, "nccl": nccl,
    "cudnn": torch.backends.cudnn.version(), "devices": devices, "threads": torch.get_num_threads()}))
"""


def facts() -> dict[str, Any]:
    """All that is known of the machine, as JSON values."""
    command = [sys.executable, "-W", "ignore", "-c", _OF_TORCH]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    told = json.loads(done.stdout) if not done.returncode else {"problem": done.stderr.strip().splitlines()[-1:]}
    return {
        **told,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "driver": _of_driver(_STATIC),
        "clocks": clocks(),
    }


def clocks() -> list[dict[str, str]]:
    """Clocks, temperature and power of each device, now."""
    return _of_driver(_MOVING)


def _of_driver(names: str) -> list[dict[str, str]]:
    """Values of `nvidia-smi` for each device; nothing where there is none."""
    command = ["nvidia-smi", f"--query-gpu={names}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = csv.reader(io.StringIO(done.stdout), skipinitialspace=True) if not done.returncode else ()
    return [dict(zip(names.split(","), row, strict=False)) for row in rows]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
