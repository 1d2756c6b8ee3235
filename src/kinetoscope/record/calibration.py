"""Measures what matrix products and copies attain on a device, back to back, with what torch itself calls.

Run as a program of its own, `python -m kinetoscope.record.calibration DEVICE SECONDS`; prints JSON: the device, the
rates by the names of its peaks in operations and bytes a second, and why others are missing.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.selftest import first_device

_SIZES: Final = (512, 1024, 2048, 4096, 8192, 16384)
"""Rows and columns of the square matrices: small devices are fastest with the smaller ones."""

_MIN_RATE_SHARE: Final = 0.97
"""A larger size that is slower than this share of the best ends the search."""

_COPY_BYTES: Final = 1 << 30
_MEMORY_SHARE: Final = 8
"""Bytes of each tensor that is copied: at most this part of the device's free memory."""

_REPEATS: Final = 8
"""Runs of which the fastest counts: what else runs on the machine only slows."""

Work = Callable[[], object]


def main() -> None:
    """Measure and print."""
    import torch

    kind, seconds = sys.argv[1], float(sys.argv[2])
    device = torch.device(kind or first_device(torch))
    if device.index is not None:
        getattr(torch, device.type).set_device(device)
    rates, missing = {}, {}
    for name, measure in _measurements(torch, device):
        try:
            rates[name] = measure(seconds)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError) as error:  # what torch raises of devices
            missing[name] = str(error).partition("\n")[0]
    facts = _facts(torch, device)
    if device.type == "cpu" and (cache := _cache()):
        rates["cache"] = cache
    sys.stdout.write(json.dumps({**facts, "torch": torch.__version__, "rates": rates, "missing": missing}))


def _facts(torch: Any, device: Any) -> dict[str, Any]:
    """The device as traces describe it; of the host its processor and threads."""
    if device.type == "cpu":
        return {"name": "", "processor": _processor(), "threads": torch.get_num_threads()}
    properties = getattr(torch, device.type).get_device_properties(device)
    multiprocessors = getattr(properties, "multi_processor_count", getattr(properties, "max_compute_units", None))
    capability = [getattr(properties, name, None) for name in ("major", "minor")]
    facts = {"memory": properties.total_memory, "multiprocessors": multiprocessors, "capability": capability}
    return {"name": properties.name, **facts}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _cache() -> int | None:
    """Bytes of the largest cache of the host's processors."""
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    texts = [file.read_text(encoding="ascii").strip() for file in sizes]
    return max((int(text[:-1]) << 10 for text in texts if text.endswith("K")), default=None)


# --- what is measured


def _measurements(torch: Any, device: Any) -> Iterator[tuple[str, Callable[[float], float]]]:
    """The name of each peak, and what measures it."""
    for name, type_ in (
        ("fp64", torch.float64),
        ("fp32", torch.float32),
        ("fp16", torch.float16),
        ("bf16", torch.bfloat16),
    ):
        yield name, _products(torch, device, _plain(torch, type_, "highest"))
    if device.type == "cuda" and torch.version.hip is None:
        yield "tf32", _products(torch, device, _plain(torch, torch.float32, "high"))
    if device.type != "cpu":
        yield "fp8", _products(torch, device, _scaled(torch, device))
    yield "int8", _products(torch, device, _whole(torch))
    yield "memory", lambda seconds: _copies(torch, device, seconds)
    if device.type != "cpu":
        yield "host_link", lambda seconds: _transfers(torch, device, seconds)


Product = Callable[[int, Any], Work]
"""The product of two square matrices of so many rows on a device, ready to be called."""


def _plain(torch: Any, type_: Any, float32: str) -> Product:
    def product(rows: int, device: Any) -> Work:
        torch.set_float32_matmul_precision(float32)
        a, b = (torch.randn(rows, rows, device=device).to(type_) for _ in range(2))
        out = torch.empty_like(a)
        return lambda: torch.mm(a, b, out=out)

    return product


def _scaled(torch: Any, device: Any) -> Product:
    properties = getattr(torch, device.type).get_device_properties(device)
    of_mi300 = getattr(properties, "gcnArchName", "").startswith("gfx94")  # has a format of its own
    type_ = torch.float8_e4m3fnuz if of_mi300 else torch.float8_e4m3fn

    def product(rows: int, device: Any) -> Work:
        a, b = (torch.randn(rows, rows, device=device).to(type_) for _ in range(2))
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    return product


def _whole(torch: Any) -> Product:
    def product(rows: int, device: Any) -> Work:
        a, b = (torch.randint(-128, 127, (rows, rows), dtype=torch.int8, device=device) for _ in range(2))
        return lambda: torch._int_mm(a, b.t())

    return product


def _products(torch: Any, device: Any, product: Product) -> Callable[[float], float]:
    """Operations a second with the size that is fastest; sizes of which a call takes longer than `seconds` are none."""

    def measure(seconds: float) -> float:
        best = 0.0
        for rows in _SIZES:
            try:
                rate = 2 * rows**3 / _time_of(torch, device, product(rows, device), seconds)
            except RuntimeError:  # no memory, or too large for the library
                if not best:
                    raise
                break
            if rate < _MIN_RATE_SHARE * best:
                break
            best = max(best, rate)
            if 8 * 2 * rows**3 / rate > seconds:
                break
        return best

    return measure


def _copies(torch: Any, device: Any, seconds: float) -> float:
    """Bytes that a copy within the device reads and writes a second."""
    nbytes = _COPY_BYTES >> 2
    if device.type != "cpu":
        free = getattr(torch, device.type).mem_get_info(device)[0]
        nbytes = min(_COPY_BYTES, free // _MEMORY_SHARE)
    source = torch.zeros(nbytes, dtype=torch.uint8, device=device)
    target = torch.ones_like(source)
    return 2 * nbytes / _time_of(torch, device, lambda: target.copy_(source), seconds)


def _transfers(torch: Any, device: Any, seconds: float) -> float:
    """Bytes a second between pinned memory of the host and the device, in the faster direction."""
    here = torch.zeros(_COPY_BYTES >> 2, dtype=torch.uint8).pin_memory()
    there = torch.empty_like(here, device=device)
    to = _time_of(torch, device, lambda: there.copy_(here, non_blocking=True), seconds)
    back = _time_of(torch, device, lambda: here.copy_(there, non_blocking=True), seconds)
    return float(here.nbytes / min(to, back))


def _time_of(torch: Any, device: Any, call: Work, seconds: float) -> float:
    """Seconds of a call when one follows the other: enough of them that launching and waiting do not count."""
    wait = (lambda: None) if device.type == "cpu" else getattr(torch, device.type).synchronize

    def elapsed(calls: int) -> float:
        wait()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        wait()
        return time.perf_counter() - begin

    elapsed(1)  # libraries load, and choose their kernels
    calls = max(1, round(seconds / _REPEATS / max(elapsed(2) / 2, 1e-7)))
    return min(elapsed(calls) for _ in range(_REPEATS)) / calls


if __name__ == "__main__":
    main()
