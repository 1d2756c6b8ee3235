"""Peaks that the user knows better than datasheets: options of a run, and a file of the user's own.

The file is TOML: a table for each device, by the name that traces have for it, and below it one for what `kinetoscope
calibrate` measured:

    ["NVIDIA H100 80GB HBM3"]
    memory = 3.2e12                # bytes or operations a second; or "3.2 TB/s", "900 TFLOP/s"
    ["NVIDIA H100 80GB HBM3".attainable]
    measured = "2026-11-22 with torch 2.13"
    bf16 = 7.4e14
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.trace.source import OwnPeaks, Rates

FILE_VARIABLE: Final = "KINETOSCOPE_PEAKS"
OFF_WORD: Final = "off"

ATTAINABLE: Final = "attainable"
"""Key of a device's measured peaks, and the word that asks for them."""

MEASURED: Final = "measured"
"""Key of when and with what they were measured."""

MAX_RATE: Final = 1e18
"""No device is as fast; what is above would not fit into 64 bits everywhere."""

PeakOptions = str | Iterable[str] | Mapping[str, float]
"""`bf16=800e12`, `attainable`; several of them; or values by name."""

_PREFIXES: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_VALUE: Final = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?)\s*([kKMGTP]?)(?:(?:FLOP|OP|B)(?:S|/s)?)?")


def peaks_file() -> Path | None:
    """The user's file, whether it exists or not: what KINETOSCOPE_PEAKS says, else one among the user's settings."""
    if named := os.environ.get(FILE_VARIABLE, ""):
        return None if named.lower() == OFF_WORD else Path(named).expanduser()
    try:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    except RuntimeError:  # no home
        return None
    return home / "kinetoscope" / "peaks.toml"


def own_peaks(options: PeakOptions = (), file: Path | None = None) -> OwnPeaks:
    """Peaks that the user knows: `options` of this run, and the user's file.

    Raises:
        UsageError: an option is none.
        InputError: the file cannot be read, or says what is no peak.
    """
    by_device, measured = _of_file(file or peaks_file())
    if not options:
        return OwnPeaks(by_device=by_device, measured=measured)
    from kinetoscope.model.device.peaks import PRECISIONS

    given: dict[str, float] = {}
    attainable = False
    if isinstance(options, Mapping):
        options = [f"{name}={value}" for name, value in options.items()]
    for text in [options] if isinstance(options, str) else options:
        if text == ATTAINABLE:
            attainable = True
            continue
        name, equals, value = text.rpartition("=")
        try:
            rate = _rate(value)
            given |= {_name(name.strip()): rate} if equals else dict.fromkeys(PRECISIONS, rate)
        except ValueError as error:
            raise UsageError(f"peak {text!r}: {error}") from error
    if attainable and not measured:
        raise UsageError("no attainable peaks are known: `kinetoscope calibrate` measures them, on the device itself")
    return OwnPeaks(tuple(given.items()), by_device, measured, attainable)


def _name(name: str) -> str:
    from kinetoscope.model.device.peaks import UNITS

    if name not in UNITS:
        raise ValueError(f"there is no {name!r}; peaks are {', '.join(UNITS)}")
    return name


def _rate(text: str) -> float:
    match = _VALUE.fullmatch(text.strip())
    rate = float(match[1]) * _PREFIXES[match[2]] if match else math.nan
    if not 1 <= rate <= MAX_RATE:
        raise ValueError("give operations or bytes a second, such as 800e12, 800TFLOP/s or 3.35TB/s")
    return rate


# --- the file


def _of_file(file: Path | None) -> tuple[tuple[tuple[str, Rates], ...], tuple[tuple[str, Rates, str], ...]]:
    if file is None or not (file.is_file() or os.environ.get(FILE_VARIABLE)):
        return (), ()
    import tomllib

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read, which {FILE_VARIABLE} or your settings name: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is no TOML: {error}") from error
    given, measured = [], []
    for device, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{file}: {device} is no table; peaks stand below the name of their device, in brackets")
        attainable = table.pop(ATTAINABLE, {})
        if not isinstance(attainable, dict):
            raise InputError(f"{file}: {device}.{ATTAINABLE} is no table")
        remark = f"measured {attainable.pop(MEASURED, '')}".strip()
        if rates := _rates(file, device, table):
            given.append((device, rates))
        if rates := _rates(file, f"{device}.{ATTAINABLE}", attainable):
            measured.append((device, rates, remark))
    return tuple(given), tuple(measured)


def _rates(file: Path, where: str, table: Mapping[str, Any]) -> Rates:
    try:
        return tuple((_name(name), _rate(str(value))) for name, value in table.items())
    except ValueError as error:
        raise InputError(f"{file}, [{where}]: {error}") from error


def keep_measured(file: Path, device: str, rates: Mapping[str, float], remark: str) -> None:
    """Put what was measured of a device into the file, in place of what was there; the rest of it stays as it is.

    Raises:
        InputError: the file cannot be written.
    """
    head = f"[{json.dumps(device, ensure_ascii=False)}.{ATTAINABLE}]"
    lines = [head, f"{MEASURED} = {json.dumps(remark)}", *(f"{name} = {rate:.6g}" for name, rate in rates.items())]
    try:
        before = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        others, mine = [], False
        for line in before:
            mine = line.strip() == head if line.lstrip().startswith("[") else mine
            others += [] if mine else [line]
        while others and not others[-1].strip():
            others.pop()
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f"{file.name}.{os.getpid()}")
        partial.write_text("\n".join([*others, *([""] if others else []), *lines, ""]), encoding="utf-8")
        partial.replace(file)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be written: {error}; {FILE_VARIABLE} names another") from error
