"""The user's wishes about trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kinetoscope.compare.statistics.paired import ROUNDS
from kinetoscope.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class UserVariant:
    """A change that is made outside the process.

    Attributes:
        name: of the variant.
        command: that is run instead; () for the same.
        environment: variables that are set.
        group: of two variants of a group one at most is in force.
    """

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    group: str = "command"


@dataclass(frozen=True, kw_only=True)
class TryOptions:
    """How to try.

    Attributes:
        command: that starts the program.
        folder: where results, traces and logs go.
        only: names of the trials that are tried; () for those that a finding or a look at the program asks for.
        skip: names of those that are not.
        allow: words for what is not done without them: "batch-size", "writes", "noise".
        variants: changes of the user's own.
        everything: try whatever applies, whether a finding asks for it or not.
        steps: timed steps of a run; 0: as many as take a second, 38 at least.
        rounds: of a comparison.
        budget: seconds that all may take, about.
        timeout: seconds that the first run may take; later ones by what that took.
        seed: that torch, random and NumPy get; None for none.
        load: a command that runs beside the program, such as one that sends requests.
        steps_by: the class of modules, or the range, whose calls are steps; "" for what `record` takes.
        extensions: files that declare trials of the user's own.
        remember: keep what was promised and what came, for later advice on this machine.
        resume: go on with what is in the folder.
    """

    command: tuple[str, ...]
    folder: str
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    allow: Sequence[str] = ()
    variants: Sequence[UserVariant] = ()
    everything: bool = False
    steps: int = 0
    rounds: int = ROUNDS
    budget: float = 600.0
    timeout: float = 600.0
    seed: int | None = 0
    load: tuple[str, ...] = ()
    steps_by: str = ""
    extensions: Sequence[str] = ()
    remember: bool = True
    resume: bool = False

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("what is to be tried? `kinetoscope try -- python train.py` tries what may help")
        if self.rounds < ROUNDS:
            raise UsageError(f"{self.rounds} rounds tell chance from a gain too rarely; {ROUNDS} are the least")
