"""A baseline: the numbers of some runs in a small file, so that no old trace has to be kept.

It is JSON, made to be committed: one line a metric, in order of names, and nothing in it that differs when it is
written again from the same runs. It holds the step time, the peak of memory, the throughput, and the operators and
kernels that take 0.5 % of a step or more, and those with a limit of their own: what they were in each step of each run.
And what the runs ran on.

A file that was written by a newer version with fields that are not known here is read without them; one of a newer
format is refused. The file comes from a repository, so from anybody: nothing in it is trusted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, NoReturn

from kinetoscope.compare.gate.limits import METRICS, PREFIXES, Limit
from kinetoscope.compare.statistics.numbers import STEP_TIME, Environment, MetricSeries, Numbers
from kinetoscope.errors import InputError, NotFoundError
from kinetoscope.views.exports.target import written
from kinetoscope.views.text import middle, printable

FORMAT: Final = 1
"""Of the files that are written. One is added when a reader of the format before would misread them."""

MIN_KEPT_SHARE: Final = 0.005
"""Share of the mean step from which on an operator or kernel is kept."""

_KEY: Final = "kinetoscope_baseline"
_MAX_BYTES: Final = 32 << 20
_MAX_RUNS: Final = 1_000
_MAX_METRICS: Final = 20_000
_MAX_VALUES: Final = 100_000
_MAX_NAME_CHARACTERS: Final = 4_096
"""Characters of a name."""


def dump(runs: Sequence[Numbers], limits: Iterable[Limit] = ()) -> str:
    """The text of the baseline of these runs; metrics with a limit are kept, however small."""
    asked = {limit.metric for limit in limits}
    lines = [f' "{_KEY}": {FORMAT},', ' "runs": [']
    for number, run in enumerate(runs):
        lines += ["  {", f'   "environment": {_text(asdict(run.environment))},', '   "metrics": {']
        large = [name for name in sorted(run.series) if name in asked or _matters(name, run)]
        lines += [
            f"    {_text(name)}: {_text(_series(run.series[name]))}{',' if name != large[-1] else ''}" for name in large
        ]
        lines += ["   }", "  }," if number + 1 < len(runs) else "  }"]
    return "\n".join(["{", *lines, " ]", "}", ""])


def load(path: str | Path) -> tuple[Numbers, ...]:
    """The runs of a baseline file.

    Raises:
        NotFoundError: there is no such file.
        InputError: it is no baseline, of a newer format, or damaged.
    """
    file = Path(path)
    try:
        size = file.stat().st_size
        if size > _MAX_BYTES:
            raise InputError(f"{path} has {size:,} bytes; a baseline has {_MAX_BYTES:,} at most")
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"{path}: no such file; `kinetoscope gate --write-baseline {path} RUN...` writes it"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no baseline: it is not text") from error
    return read(text, str(path))


def read(text: str, name: str = "the baseline") -> tuple[Numbers, ...]:
    """The runs in the text of a baseline file; `name` is said in errors.

    Raises:
        InputError: it is no baseline, of a newer format, or damaged.
    """
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no baseline: {error}") from error
    if not isinstance(document, dict) or _KEY not in document:
        raise InputError(f"{name} is no baseline: it has no {_KEY!r}; `kinetoscope gate --write-baseline` writes one")
    version = document[_KEY]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _damaged(name, f"its format is {_short(version)}, which is no number")
    if version > FORMAT:
        raise InputError(
            f"{name} has format {version}, written by a newer kinetoscope; this one reads up to {FORMAT}: install a"
            " newer one, or write the baseline anew"
        )
    runs = document.get("runs")
    if not isinstance(runs, list) or not 0 < len(runs) <= _MAX_RUNS:
        raise _damaged(name, f"it has no runs, or more than {_MAX_RUNS}")
    return tuple(_run(run, name) for run in runs)


def save(path: str | Path, runs: Sequence[Numbers], limits: Iterable[Limit] = ()) -> None:
    """Write the baseline of these runs into a file, at once or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        with written(path) as file:
            file.write(dump(runs, limits).encode("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}; does its folder exist?") from error


# --- writing


def _matters(name: str, run: Numbers) -> bool:
    if not name.startswith(PREFIXES):
        return True
    step = run.series[STEP_TIME].mean if STEP_TIME in run.series else 0.0
    return run.series[name].mean >= MIN_KEPT_SHARE * step and len(name) <= _MAX_NAME_CHARACTERS


def _series(series: MetricSeries) -> dict[str, Any]:
    values = [int(value) if value == int(value) else round(value, 3) for value in series.values]
    where = {"where": series.where} if series.where else {}
    return {**where, **({"steps": series.steps} if series.steps else {}), "values": values}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=False)


# --- reading


def _run(run: Any, name: str) -> Numbers:
    facts = _mapping(run, name, "a run")
    metrics = _mapping(facts.get("metrics"), name, "the metrics of a run")
    if len(metrics) > _MAX_METRICS:
        raise _damaged(name, f"a run has more than {_MAX_METRICS:,} metrics")
    series = dict(_known(metrics, name))
    if STEP_TIME not in series:
        raise _damaged(name, f"a run has no {STEP_TIME}")
    return Numbers(name, _environment_of(facts.get("environment", {}), name), series, complete=False)


def _known(metrics: Mapping[str, Any], name: str) -> Iterator[tuple[str, MetricSeries]]:
    """The metrics that this version knows; others are of a newer one."""
    for metric, metric_facts in metrics.items():
        if metric not in METRICS and not metric.startswith(PREFIXES):
            continue
        facts = _mapping(metric_facts, name, f"metric {_short(metric)}")
        values, where, steps = facts.get("values"), facts.get("where", ""), facts.get("steps", 0)
        if not isinstance(values, list) or len(values) > _MAX_VALUES or not all(map(_is_measure, values)):
            raise _damaged(name, f"metric {_short(metric)} has values that are no list of numbers from 0")
        if not isinstance(where, str):
            raise _damaged(name, f"metric {_short(metric)} was measured at {_short(where)}")
        if not isinstance(steps, int) or isinstance(steps, bool) or not 0 <= steps < 1 << 53:
            raise _damaged(name, f"metric {_short(metric)} is of {_short(steps)} steps")
        yield metric, MetricSeries(tuple(map(float, values)), where, steps)


def _environment_of(stated: Any, name: str) -> Environment:
    facts = _mapping(stated, name, "the environment")
    devices, ranks, versions = facts.get("devices", []), facts.get("ranks", 1), facts.get("versions", {})
    if not isinstance(devices, list) or not all(isinstance(each, str) for each in devices):
        raise _damaged(name, "its devices are no list of names")
    if not isinstance(ranks, int) or isinstance(ranks, bool) or not 0 < ranks < 1 << 31:
        raise _damaged(name, f"it was measured on {_short(ranks)} ranks")
    known = {key: value for key, value in _mapping(versions, name, "versions").items() if isinstance(value, str)}
    return Environment(tuple(sorted(devices)), ranks, known)


def _mapping(value: Any, name: str, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _damaged(name, f"{what} is {_short(value)}")
    return value


def _is_measure(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value < 1e300 and math.isfinite(value)


def _damaged(name: str, why: str) -> InputError:
    return InputError(f"{name} is a damaged baseline: {why}; write it anew with `kinetoscope gate --write-baseline`")


def _short(value: Any) -> str:
    return middle(printable(repr(value)), 60)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
