"""The test that two runs are of one program, as far as traces tell: only such runs make a row of improvements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final, Literal

import numpy as np
import polars as pl

from kinetoscope.model.answer import Partial
from kinetoscope.model.device.names import names_of_used_devices
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import recording
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.sentences import Sentence, code, measured, say, total

_MODULES_SHARED: Final = 0.35
_OPERATORS_SHARED: Final = 0.55
"""Of the classes of modules, or the names of operators, of two runs: from this share on they are of one program. A
compiled model keeps two fifths of its classes; small models of different kinds share a quarter of them, and three
fifths of their operators, which therefore decide only where no module was recorded."""

_RESHAPED_SHARE: Final = 0.1
"""Of the step: from this share on, it is worth a warning that calls have inputs of other shapes."""

_MODULE: Final = "nn.Module: "
_NUMBER: Final = re.compile(r"_\d+$")

_FACTS: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("script", pl.String, "The script that was recorded; null if the recorder does not say."),
    Column("modules", pl.List(pl.String), "Classes of modules."),
    Column("operators", pl.List(pl.String), "Names of operators."),
    Column("devices", pl.List(pl.String), "Names of the devices that ran work."),
    Column("has_device", pl.Boolean, "Whether device work was recorded."),
)


Difference = Literal["", "device", "program"]


@dataclass(frozen=True, slots=True)
class Program:
    """The features that tell a program from others.

    Attributes:
        script: the file that was run, "" if that is not known.
        modules: classes of its modules; operators: names of its operators.
        devices: names of the devices that it ran on, which tell nothing of the program.
        has_device: whether device work was recorded.
    """

    script: str
    modules: frozenset[str]
    operators: frozenset[str]
    devices: tuple[str, ...] = ()
    has_device: bool = False

    def difference_from(self, other: Program) -> Difference:
        """Why times of both are no before and after: other devices, or another program; "" where nothing tells so."""
        if self.has_device != other.has_device or (self.devices and other.devices and self.devices != other.devices):
            return "device"
        return "" if self.is_like(other) else "program"

    def is_like(self, other: Program) -> bool:
        """True if both are one program: the script decides, else the modules, else the operators.

        Where one of them has none of these, the answer is unknown, and they are taken for one.
        """
        if self.script and other.script:
            return self.script == other.script
        if self.modules and other.modules:
            return _shared(self.modules, other.modules) >= _MODULES_SHARED
        if self.operators and other.operators:
            return _shared(self.operators, other.operators) >= _OPERATORS_SHARED
        return True

    def has_other_modules(self, other: Program) -> bool:
        """True if modules tell that these are two programs; names of operators change where one is compiled, too."""
        return bool(self.modules and other.modules) and not self.is_like(other)

    def shared_with(self, other: Program) -> Sentence:
        """The criterion by which both are one program, in words."""
        if self.script and other.script:
            return say("{one} and {two}", one=code(other.script), two=code(self.script))
        of_modules = bool(self.modules and other.modules)
        one, two = (self.modules, other.modules) if of_modules else (self.operators, other.operators)
        what = "classes of their modules" if of_modules else "names of their operators"
        shared, every = measured(len(one & two)), measured(len(one | two))
        return say("{shared} of {every} {what} are in both", shared=shared, every=every, what=what)


def program(job: Job) -> Program:
    """That of the first rank.

    Raises:
        InputError: it cannot be read.
    """
    row = replace(job, sources=job.sources[:1]).map(_of_trace, _FACTS, ALL).frame.row(0, named=True)
    return Program(
        row["script"] or "",
        frozenset(row["modules"]),
        frozenset(row["operators"]),
        tuple(row["devices"]),
        row["has_device"],
    )


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(len(one | other), 1)


def _of_trace(trace: Trace, select: Selection) -> Partial:
    del select
    known = recording(trace)
    modules = {_NUMBER.sub("", name.removeprefix(_MODULE)) for name in _names(trace, EventKind.PYTHON, _MODULE)}
    row = {
        "script": _script(known.command) if known is not None else None,
        "modules": sorted(modules),
        "operators": sorted(_names(trace, EventKind.HOST_OP, "")),
        "devices": names_of_used_devices(trace),
        "has_device": len(device_work(trace)) > 0,
    }
    return Partial(pl.DataFrame([row], schema={each.name: each.dtype for each in _FACTS if each.name != "rank"}))


def _names(trace: Trace, kind: EventKind, begin: str) -> set[str]:
    codes = np.unique(trace.name[(trace.kind == kind) & (trace.name >= 0)]).tolist()
    return {name for name in trace.strings.labels(codes) if name.startswith(begin)}


def _script(command: Sequence[str]) -> str | None:
    """The name of the script in what was typed: the first word that ends as one, else what follows `-m`."""
    for before, word in zip(("", *command), command, strict=False):
        if word.endswith(".py") or before == "-m":
            return PurePath(word).name
    return None


def differing(base: Job, new: Job, rows: Result) -> tuple[Sentence, ...]:
    """Differences of two runs besides their speed: program, devices, ranks, shapes of inputs; a sentence each.

    `rows` are those of the difference, see `Diff.rows`.

    Raises:
        InputError: one of them cannot be read.
    """
    before, now = program(base), program(new)
    sentences = []
    if not now.is_like(before):
        sentences.append(say("They are of different programs: {shared}.", shared=now.shared_with(before)))
    devices = [_devices(each) for each in (before, now)]
    if devices[0] != devices[1]:
        sentences.append(say("The device was {before}; now it is {now}.", before=devices[0], now=devices[1]))
    ranks = len(base.ranks), len(new.ranks)
    if ranks[0] != ranks[1]:
        were, are = measured(ranks[0]).words(number_of(ranks[0], "rank")), measured(ranks[1])
        sentences.append(say("There were {were}; now there are {are}.", were=were, are=are))
    share = total(rows, "new", pl.col("was_shapes").is_not_null()) / total(rows, "new")
    if share.number >= _RESHAPED_SHARE:
        sentences.append(say("Calls with {share} of the step have inputs of other shapes than before.", share=share))
    return tuple(sentences)


def _devices(of: Program) -> str:
    return " and ".join(map(code, of.devices)) or ("an unnamed device" if of.has_device else "the host alone")
