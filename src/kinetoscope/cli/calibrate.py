"""`kinetoscope calibrate`: measure what matrix products and copies attain on this device, and keep it for later runs.

Takes some seconds for each precision; nothing else should run on the device. `--peak attainable` takes the result
instead of the datasheet: copy the file to where you read traces, or name it in KINETOSCOPE_PEAKS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kinetoscope.cli.shared.options import Parser, typed
from kinetoscope.errors import InputError, UsageError

if TYPE_CHECKING:
    from kinetoscope.model.device.peaks import Peak
    from kinetoscope.views.terminal.lines import Line

_PATIENCE_S: Final = 600.0
_SECONDS: Final = 0.5
_REASON_CELLS: Final = 60
"""Characters of torch's reason why something cannot be measured that are shown."""


def run(arguments: list[str]) -> int:
    """Measure in a process of its own, show the result beside the datasheet, keep it."""
    args = _parser().parse_args(arguments)
    from kinetoscope.cli.shared.output import write_lines
    from kinetoscope.cli.shared.torch_program import output_of
    from kinetoscope.model.device.hardware import Device
    from kinetoscope.model.device.own_peaks import keep_measured, peaks_file
    from kinetoscope.model.device.peaks import HOST_NAME, UNITS, peak_of

    file = Path(args.output) if args.output else peaks_file()
    if file is None:
        raise UsageError("there is no file to keep the result in; name one with -o FILE")
    made = output_of("calibration", args.device or "", str(args.seconds), what="the calibration", patience=_PATIENCE_S)
    if not made["rates"]:
        raise InputError(f"nothing could be measured: {next(iter(made['missing'].values()), 'no reason is known')}")
    rates = {name: made["rates"][name] for name in UNITS if name in made["rates"]}
    remark = f"{date.today():%Y-%m-%d} with torch {made['torch']}"
    datasheet = None
    if made["name"]:
        major, minor = made["capability"]
        capability = None if major is None else (major, minor or 0)
        datasheet = peak_of(Device(0, made["name"], made["memory"], made["multiprocessors"], capability, {})).peak
    else:
        remark += f" on {made['threads']} threads of {made['processor']}"
    keep_measured(file, made["name"] or HOST_NAME, rates, remark)
    write_lines(_report(made, rates, datasheet, file))
    return 0


def _parser() -> Parser:
    parser = Parser(prog="kinetoscope calibrate", description=__doc__)
    parser.add_argument(
        "--device",
        type=typed(_device),
        metavar="DEVICE",
        help="cuda:1, xpu, cpu; by default the first device that torch sees, else the host",
    )
    parser.add_argument(
        "--seconds", type=typed(_seconds), default=_SECONDS, metavar="S", help=f"of each measurement ({_SECONDS})"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the result in this file instead of your settings")
    return parser


def _device(text: str) -> str:
    if not re.fullmatch(r"(?:cuda|xpu)(?::\d{1,3})?|cpu", text):
        raise ValueError(f"{text!r} is no device: cuda, cuda:1, xpu or cpu")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 60:
        raise ValueError(f"{text!r} is no number of seconds up to 60")
    return seconds


def _report(made: Mapping[str, Any], rates: Mapping[str, float], datasheet: Peak | None, file: Path) -> Iterator[Line]:
    from kinetoscope.model.device.peaks import UNITS
    from kinetoscope.views.numbers import shown
    from kinetoscope.views.terminal.lines import plain
    from kinetoscope.views.text import printable

    name = made["name"] or f"{made['processor']}, {made['threads']} threads"
    yield plain(printable(f"{name}, torch {made['torch']}"), "bold")
    yield plain(f"Datasheet: {datasheet.source}" if datasheet else "No datasheet of it is known.")
    yield plain()
    yield plain(f"  {'':<12}{'datasheet':>14}{'attainable':>14}{'share':>8}", "dim")
    for peak, rate in rates.items():
        stated = datasheet.rates.get(peak) if datasheet else None
        attained = shown(rate, UNITS[peak])
        share = f"{rate / stated:.0%}" if stated else "–"
        yield plain(f"  {peak:<12}{shown(stated, UNITS[peak]) if stated else '–':>14}{attained:>14}{share:>8}")
    for peak, reason in made["missing"].items():
        yield plain(printable(f"  {peak:<12}{'–':>14}{'–':>14}  {reason[:_REASON_CELLS]}"), "dim")
    yield plain()
    yield plain(printable(f"Kept in {file}. --peak attainable takes it; `kinetoscope show peaks PATH` shows both."))
