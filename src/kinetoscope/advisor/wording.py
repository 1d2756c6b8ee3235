"""The words of advice that differ by what a program does: who waits, and how a batch grows or steps are marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kinetoscope.model.execution.program import ProgramKind


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for one kind of program.

    Attributes:
        process: the process whose main thread launches work, as the subject of a sentence.
        batch: how a batch grows: the lines of a diff, with {times} in it.
        batch_fits: that more fits into memory, as a sentence.
        steps: how the next recording gets steady steps: the lines of a diff.
        synchronize, save: what one rank alone does, and what to do instead: the lines of a diff.
    """

    process: str
    batch: str
    batch_fits: str
    steps: str
    synchronize: str
    save: str

    def larger_batch(self, times: int) -> str:
        """The diff that makes a batch so many times as large."""
        return self.batch.replace("{times}", str(times))


_OTHER: Final = Wording(
    process="The main process",
    batch="- output = model(batch)\n+ output = model(batch)  # of {times} * n samples",
    batch_fits="A larger batch fits into the device's memory",
    steps="+ with profile(schedule=schedule(wait=1, warmup=3, active=5), ...) as prof:\n"
    "      for batch in batches:\n          model(batch)\n+         prof.step()",
    synchronize="- if rank == 0: log(value.item())\n+ log(value.detach())  # fetch it now and then",
    save="- if rank == 0: ...  # what this rank alone does on its host\n+ do it beside the loop; look for other"
    " processes on its cores",
)

_WORDS: Final[dict[ProgramKind, Wording]] = {
    "training": Wording(
        process="The training process",
        batch="- DataLoader(dataset, batch_size=n)\n+ DataLoader(dataset, batch_size={times} * n)  # and a"
        " learning rate"
        " that fits",
        batch_fits="A larger batch fits into the device's memory",
        steps="+ with profile(schedule=schedule(wait=1, warmup=3, active=5), ...) as prof:\n"
        "      for batch in loader:\n          train(batch)\n+         prof.step()",
        synchronize="- if rank == 0: log(loss.item())\n+ log(loss.detach())  # fetch it now and then",
        save="- if rank == 0: save(...)\n+ save asynchronously, or after the step; look for other processes on"
        " its cores",
    ),
    "serving": Wording(
        process="The engine's process",
        batch="- max_num_seqs=n\n+ max_num_seqs={times} * n  # vLLM; SGLang: max_running_requests",
        batch_fits="More requests at a time fit into the device's memory",
        steps="+ record ten steps of the engine or so; --steps-by execute (vLLM) or step[ (SGLang) chooses them",
        synchronize=_OTHER.synchronize,
        save=_OTHER.save,
    ),
    "inference": _OTHER,
    "unknown": _OTHER,
}


def wording(program: ProgramKind) -> Wording:
    """The words for what a program does."""
    return _WORDS[program]
