"""What is said of one recording, and whether it is so."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.errors import KinetoscopeError
from kinetoscope.reading import read
from tests.faults.judging import said
from tests.zoo import invariants
from tests.zoo.catalogue import Program
from tests.zoo.recording import Recording, gain, plain, record

FILE: Final = Path(__file__).with_name("outcomes.json")
TWIN: Final = ", twin"
"""Behind a way: the recording of the twin in which the fix is already in."""

GAIN: Final = "gain"
"""Instead of a way: what the fix brought."""


@dataclass(frozen=True)
class Outcome:
    """What came of one recording.

    Attributes:
        program: its name.
        way: how it was recorded; with `TWIN` behind it, the twin.
        first: the advice in a sentence.
        step: the average step, ns.
        code: the rule that names what is slow; "" for none.
        severity, place, low, high, certainty: of its finding; shares of the step.
        warned: other rules that warn, of a healthy program or a twin all that do.
        broken: what is not as it has to be.
        gain: share of the step that the fix brings, without a profiler; None where it was not measured.
    """

    program: str
    way: str
    first: str = ""
    step: float = 0.0
    code: str = ""
    severity: str = ""
    place: int = 0
    low: float = 0.0
    high: float = 0.0
    certainty: str = ""
    warned: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    gain: float | None = None


def judged(
    program: Program,
    way: str,
    *,
    fixed: bool = False,
    folder: Path | None = None,
    compare: bool = True,
    anew: bool = True,
) -> Outcome:
    """Record a program, and see; into the folder, or one that is thrown away.

    compare: run it without a recorder, too, and compare the results.
    anew: record it even if the folder has it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        target = (folder or Path(scratch)) / f"{program.name}.{way.replace(', ', '-')}{'.fixed' if fixed else ''}"
        if not anew and target.is_dir():
            return of_recording(Recording(program, way, fixed, target, 0, (), (), ""), None)
        shutil.rmtree(target, ignore_errors=True)
        without = plain(program, fixed=fixed) if compare else None
        return of_recording(record(program, way, target, fixed=fixed), without)


def measured(program: Program) -> Outcome:
    """What the fix brings."""
    return Outcome(program.name, GAIN, gain=gain(program))


def of_recording(recording: Recording, without: tuple[str, ...] | None) -> Outcome:
    """What is said of a recording that is there."""
    about = Outcome(recording.program.name, recording.way + TWIN * recording.fixed)
    wrong = list(invariants.broken_recording(recording, without))
    try:
        job = read(str(recording.folder), jobs=1)
    except KinetoscopeError as error:
        return replace(about, broken=(*wrong, f"no trace: {error}".replace(str(recording.folder), "DIR")))
    advice = advise(job)
    wrong += [*invariants.broken(job, advice), *invariants.own_steps(job, recording)]
    wrong = [each.replace(str(recording.folder), "DIR") for each in wrong]
    return replace(about, broken=tuple(wrong), **_said(advice, recording.program.rules))


def _said(advice: Advice, rules: Sequence[str]) -> dict[str, Any]:
    named = next((each for each in rules if any(finding.code == each for finding in advice.findings)), "")
    warned = sorted({each.code for each in advice.of("warning", "critical")} - {named})
    told = {"first": str(advice.headline), "step": advice.step, "warned": tuple(warned)}
    if not named:
        return told
    facts = said(advice, named)
    ends = {end: facts[end] / advice.step if advice.step else 0.0 for end in ("low", "high")}
    certainty = next(each.certainty for each in advice.findings if each.code == named)
    return {**told, **ends, "code": named, "certainty": certainty, **{key: facts[key] for key in ("severity", "place")}}


# --- what is kept


def kept() -> list[Outcome]:
    """All that was kept, in the order of programs and ways."""
    if not FILE.exists():
        return []
    lists = ("warned", "broken")
    return [Outcome(**{**each, **{name: tuple(each[name]) for name in lists}}) for each in json.loads(FILE.read_text())]


def keep(outcomes: Iterable[Outcome], names: Iterable[str]) -> None:
    """Put them in the place of what was kept of the same recordings; programs that are none any more go."""
    with FILE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may record at the same time
        every = {(each.program, each.way): each for each in (*kept(), *outcomes)}
        still = set(names)
        order = sorted((each for each in every.values() if each.program in still), key=lambda each: each.program)
        written = FILE.with_suffix(".part")
        written.write_text("[\n" + ",\n".join(_line(each) for each in order) + "\n]\n")
        written.replace(FILE)  # whole at any time


def _line(each: Outcome) -> str:
    rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in asdict(each).items()}
    return json.dumps({**rounded, "step": round(each.step)})
