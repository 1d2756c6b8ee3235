"""What the verdict says about jobs whose cause is known."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from kinetoscope.model.hangs.verdict import HangVerdict, verdicts
from tests.hangs.causes import CAUSES, Planted
from tests.hangs.dumps import Form, Recorded, drawn_form, recorded
from tests.hangs.machine import Machine
from tests.hangs.program import drawn_shape, training


@dataclass(frozen=True)
class Score:
    """The verdict on one job.

    Attributes:
        mark: right, wrong or unknown.
        is_wrongly_sure: it says as sure what is not so.
        seconds: of the verdict.
    """

    planted: Planted
    form: Form
    said: HangVerdict
    mark: str
    is_wrongly_sure: bool
    seconds: float


def job(name: str, ranks: int, seed: int) -> tuple[Planted, Form, Recorded]:
    """A job with a cause; another seed has other ranks, sizes and groups."""
    rng = random.Random(f"{name} {ranks} {seed}")
    shape = drawn_shape(ranks, rng)
    program = training(shape, rng)
    planted = CAUSES[name](program, rng)
    machine = Machine(program, rng)
    planted.change(machine)
    machine.run()
    form = drawn_form(ranks, planted, rng)
    return planted, form, recorded(machine, planted, form, rng)


def score(name: str, ranks: int, seed: int) -> Score:
    """Asks for the verdict on a job."""
    planted, form, dumps = job(name, ranks, seed)
    tables = dumps.tables()
    begin = time.perf_counter()
    said = verdicts(*tables)[0]
    seconds = time.perf_counter() - begin
    right = is_right(planted, form, said)
    mark = "right" if right else "unknown" if said.cause == "unknown" else "wrong"
    return Score(planted, form, said, mark, said.certainty == "sure" and not right, seconds)


def is_right(planted: Planted, form: Form, said: HangVerdict) -> bool:
    is_cause = said.cause in planted.causes or (said.cause in planted.may_be and said.certainty != "sure")
    if said.cause == "no hang":
        return is_cause
    named, allowed = {*said.ranks}, {*planted.ranks, *planted.others}
    if said.cause == "rank ended" and said.certainty == "guess":
        allowed |= form.lost
    if len(said.differs) == 2 and all(len(ranks) == 1 for ranks in said.differs.values()):
        allowed |= named  # no third rank tells which of the two is right
    if said.certainty == "guess" and said.cause in ("rank ended", "missing rank") and _is_alone(planted, form):
        return bool(named) and named <= form.lost | form.early
    if not planted.ranks or (said.cause == "different root" and said.certainty == "guess"):
        return is_cause and not named
    return is_cause and bool(named & {*planted.ranks}) and named <= allowed


def _is_alone(planted: Planted, form: Form) -> bool:
    """A rank that it shows at has left no dump, or one of before, and without it nobody can know more than that."""
    unknown = form.lost | form.early
    pair = {*planted.others} - {*planted.ranks} if len(planted.others) == 2 else set()
    return bool((pair | {*planted.at}) & unknown)
