"""The words of advice: names out of traces made safe and short, counts, lists, and what differs by kind of program.

A name out of a trace is data, whatever it says: between backquotes, without backquotes of its own, without what could
act on a terminal, and no longer than a line can hold.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from kinetoscope.model.execution.program import ProgramKind
from kinetoscope.model.trace.text import number_of
from kinetoscope.views.sentences import Quantity, Sentence, join, measured, say
from kinetoscope.views.text import ELLIPSIS, brief, cells, printable

NAME_CELLS: Final = 60
"""Cells that a name may fill between its backquotes."""

_MAX_NAME_CHARACTERS: Final = 4096
"""Characters of a name that are read; a damaged file may have more."""


def quoted(name: str, limit: int = NAME_CELLS) -> str:
    """A name out of a trace between backquotes, at most `limit` cells of it: its middle goes.

    Of a kernel's signature the arguments go first. Line breaks become spaces, backquotes apostrophes.
    """
    if len(name) > _MAX_NAME_CHARACTERS:
        name = name[: _MAX_NAME_CHARACTERS // 2] + name[-_MAX_NAME_CHARACTERS // 2 :]
    text = printable(" ".join(name.split())).replace("`", "'")
    return f"`{brief(text or '(no name)', limit)}`"


def place(file: str, line: int, limit: int = NAME_CELLS) -> str:
    """A place in the source between backquotes, `train.py:12`: of a long path the beginning goes."""
    path, tail = printable(" ".join(file[-_MAX_NAME_CHARACTERS:].split())).replace("`", "'"), f":{line}"
    room = limit - len(tail)
    if cells(path) > room:
        path = ELLIPSIS + ending(path, room - 1)
    return f"`{path}{tail}`"


def ending(text: str, width: int) -> str:
    """The longest end of a text that fills at most `width` cells."""
    text = text[-width:] if width > 0 else ""
    while cells(text) > width:
        text = text[1:]
    return text


def each_step(count: float, one: str, more: str = "") -> Quantity:
    """How many there are in a step on average, for a sentence: `1 copy a step`, `2.5 copies a step`."""
    number = f"{count:,.0f}" if count >= 9.95 or abs(count - round(count)) < 0.05 else f"{count:,.1f}"
    return measured(count).words(f"{number} {one if number == '1' else more or one + 's'} a step")


def counted(count: int, one: str, more: str = "") -> Quantity:
    """How many there are, for a sentence: `1 copy`, `12 copies`."""
    return measured(count).words(number_of(count, one, more))


def share(part: float, whole: float) -> Quantity:
    """A share as a whole percentage, `12%`; `under 1%` where that would be 0."""
    ratio = part / whole if whole > 0 else 0.0
    return measured(ratio, "fraction").words("under 1%" if 0 < ratio < 0.005 else f"{ratio:.0%}")


def joined(words: Sequence[str], limit: int = 4) -> Sentence:
    """Words as a sentence lists them: `a, b and c`; of many the first ones, `and 7 more`."""
    more = len(words) - limit + 1 if len(words) > limit else 0
    left_out = [say("{left_out} more", left_out=measured(more))] if more else []
    parts = [*words[: limit - 1], *left_out] if more else list(words)
    return join([join(parts[:-1], ", "), *parts[-1:]], " and ")


_STEP: Final = re.compile(
    r"`[^`]*`|(?P<before>\b(?:of|in|to|from|than) |)"
    r"\b(?:(?:each|every|an average|the|a) step\b(?!-| (?:of|from|before)\b)|the recorded steps\b)"
)
"""A step as our sentences name it, or a name of the program's, which stays. A step of an engine is another matter, and
so is one before another."""


def of_window(sentence: str) -> str:
    """A sentence about a recording without steps, whose window counts as one: `of the window`, `3 calls in it`."""

    def said(match: re.Match[str]) -> str:
        if match["before"] is None:
            return match[0]
        begins = not match["before"] and _is_after_number(match.string[: match.start()])
        return "in the window" if begins else f"{match['before']}the window"

    text = _STEP.sub(said, sentence)
    if not isinstance(sentence, Sentence):
        return text
    return Sentence(text, [each.words(_STEP.sub(said, each.text)) for each in sentence.quantities])


def _is_after_number(text: str) -> bool:
    """A count stands before: `2.5 copies`."""
    return re.search(r"\d[\d,.]*(?: (?!of\b)[\w`-]+){1,4} \Z", text) is not None


# --- by what a program does


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for one kind of program.

    Attributes:
        process: the process whose main thread launches work, as the subject of a sentence.
        batch: how a batch grows: the lines of a diff, with {times} in it.
        batch_fits: that more fits into memory, as a sentence.
        steps: how the next recording gets steady steps: the lines of a diff.
        pinned: how inputs get to the device from pinned memory without waiting: the lines of a diff.
        synchronize, save: what one rank alone does, and what to do instead: the lines of a diff.
    """

    process: str
    batch: str
    batch_fits: str
    steps: str
    pinned: str
    synchronize: str
    save: str

    def larger_batch(self, times: int) -> str:
        """The diff that makes a batch so many times as large."""
        return self.batch.replace("{times}", str(times))


_OTHER_WORDING: Final = Wording(
    process="The main process",
    batch="- output = model(batch)\n+ output = model(batch)  # of {times} * n samples",
    batch_fits="A larger batch fits into the device's memory",
    steps="+ with profile(schedule=schedule(wait=1, warmup=3, active=5), ...) as prof:\n"
    "      for batch in batches:\n          model(batch)\n+         prof.step()",
    pinned="- DataLoader(dataset, ...); batch = batch.to(device)\n"
    "+ DataLoader(dataset, ..., pin_memory=True); batch = batch.to(device, non_blocking=True)",
    synchronize="- if rank == 0: log(value.item())\n+ log(value.detach())  # fetch it every n steps",
    save="- if rank == 0: ...  # what this rank alone does on its host\n+ move it out of the loop; check for other"
    " processes on its cores",
)

_WORDS: Final[dict[ProgramKind, Wording]] = {
    "training": replace(
        _OTHER_WORDING,
        process="The training process",
        batch="- DataLoader(dataset, batch_size=n)\n+ DataLoader(dataset, batch_size={times} * n)  # and a"
        " learning rate that fits",
        steps="+ with profile(schedule=schedule(wait=1, warmup=3, active=5), ...) as prof:\n"
        "      for batch in loader:\n          train(batch)\n+         prof.step()",
        synchronize="- if rank == 0: log(loss.item())\n+ log(loss.detach())  # fetch it every n steps",
        save="- if rank == 0: save(...)\n+ save asynchronously, or after the step; check for other processes on"
        " its cores",
    ),
    "serving": Wording(
        process="The engine's process",
        batch="- max_num_seqs=n\n+ max_num_seqs={times} * n  # vLLM; SGLang: max_running_requests",
        batch_fits="More requests at a time fit into the device's memory",
        steps="+ record ten steps of the engine or so; --steps-by execute (vLLM) or step[ (SGLang) chooses them",
        pinned="- inputs.to(device)\n+ pinned.copy_(inputs)  # made once\n+ pinned.to(device, non_blocking=True)",
        synchronize="+ let this rank's host wait for its device no more than the others' do",
        save="+ give each rank's process cores of its own: numactl --cpunodebind; log and answer from one process only",
    ),
    "inference": _OTHER_WORDING,
    "unknown": _OTHER_WORDING,
}


def wording(program: ProgramKind) -> Wording:
    """The words for what a program does."""
    return _WORDS[program]
