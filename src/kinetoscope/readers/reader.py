"""The interface of a file format, a `Reader`; `readers.registry` lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.cache import Cache

MAX_RANK: Final = 1 << 22
"""A file that claims a higher rank, or a larger job, is not believed."""

HEAD_BYTES: Final = 1 << 16
"""Bytes of text, at the beginning of a file, by which its format is recognised."""

TRIALS: Final = "try.json"
"""The file of a folder of `kinetoscope try` in which all that was measured is; its traces lie in folders below."""

RankBasis = Literal["", "text", "collectives", "name", "place"]


@dataclass(frozen=True, slots=True)
class CandidateFile:
    """A trace, or a file that may be one, and what its name, its ends and its store tell.

    Attributes:
        url: the file; the folder of a trace that is one.
        reader: name of its reader; "" where only its beginning tells.
        size: bytes as stored; None where they are not known.
        version: changes when the content does; "" where nothing tells, and for local files.
        rank: the rank that it holds; None if nothing tells.
        world: ranks of the job; 0 if it does not say.
        basis: what tells the rank: its text (`distributedInfo`), its collectives, its name, or the place in a parallel
            run that its name has.
        host: name of the machine that recorded it; "" if it does not say.
        merged: several ranks are in it, each event with a label of its rank.
        part: label of the rank that is meant, of several in the file; "" for the whole file.
        other_format: what it is instead of a trace; "" if it may be one.
        digest: the same for a file and its copies, compressed or not; "" where it was not probed.
        fully_probed: nothing that could tell the rank was left unread.
        compressed: whether it is.
    """

    url: str
    reader: str = ""
    size: int | None = None
    version: str = ""
    rank: int | None = None
    world: int = 0
    basis: RankBasis = ""
    host: str = ""
    merged: bool = False
    part: str = ""
    other_format: str = ""
    digest: str = ""
    fully_probed: bool = True
    compressed: bool = False


Recognises = Callable[[str, bytes], bool]
"""Tells by the name of a file, and by the `HEAD_BYTES` of text that it begins with, whether it is of a format."""


class Probe(Protocol):
    """Fills in what the content of a candidate tells."""

    def __call__(self, candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:
        """The candidate with its facts.

        Args:
            candidate: the file or folder.
            text: what a file begins with, decompressed.
            cache: copies of remote files.

        Raises:
            NotFoundError, BrokenTraceError, LimitError: it cannot be read.
        """
        ...


class ThoroughProbe(Protocol):
    """Reads more of a candidate that does not tell its rank where it begins."""

    def __call__(self, candidate: CandidateFile, cache: Cache | None, budget: int) -> CandidateFile:
        """The candidate with its facts.

        Args:
            candidate: the file.
            cache: copies of remote files.
            budget: the bytes as stored that may be read.
        """
        ...


class Parts(Protocol):
    """Tells the ranks that a candidate has, where it is `merged`."""

    def __call__(self, candidate: CandidateFile, cache: Cache | None = None) -> list[CandidateFile]:
        """A candidate for each; the file itself where nothing tells them apart."""
        ...


def _of_none(name: str, head: bytes) -> bool:  # noqa: ARG001 - see `Recognises`
    return False


def _no_other(name: str) -> bool:  # noqa: ARG001 - see `Reader.named`
    return False


def _tells_nothing(candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:  # noqa: ARG001
    return candidate


def _one_part(candidate: CandidateFile, cache: Cache | None = None) -> list[CandidateFile]:  # noqa: ARG001
    return [candidate]


@dataclass(frozen=True, slots=True)
class Reader:
    """A file format.

    Attributes:
        name: what sources call it.
        load: the trace of a source; its keyword `progress` is called with the bytes read since.
        recognises: whether a file is of this format. It is asked of any file that is named, whatever it is called.
        probe: tells rank and world without reading the trace.
        thorough: the same where the beginning tells no rank; None where nothing more would.
        parts: the ranks of a file that holds several; `load` gives that of `Source.part`.
        suffixes: endings of the names of its files, by which they are found in folders.
        excluded: endings among these that are not traces; of a whole name `/` and the name.
        named: whether a file of another ending may be of this format by its name; what it begins with decides.
        richness: of recordings of one rank by several tools that with the most is read. 0: beside other files these are
            no recordings of more ranks, but copies of them or what belongs to them.
        marker: path of the file, below a folder, that makes the folder a trace; "" for a format of single files.
    """

    name: str
    load: Callable[..., Trace]
    recognises: Recognises = _of_none
    probe: Probe = _tells_nothing
    thorough: ThoroughProbe | None = None
    parts: Parts = _one_part
    suffixes: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    named: Callable[[str], bool] = _no_other
    richness: int = 0
    marker: str = ""

    def trace_at(self, file: str) -> str:
        """The trace that a file in a folder is, or belongs to; "" for none. Hidden files are other programs'."""
        if self.marker:
            return file.removesuffix(f"/{self.marker}") if file.endswith(f"/{self.marker}") else ""
        name = file.rpartition("/")[2]
        is_trace = name.endswith(self.suffixes) and not f"/{name}".endswith(self.excluded) and not name.startswith(".")
        return file if is_trace else ""
