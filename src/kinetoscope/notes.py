"""Notes: sentences on what an answer leaves out, or what is odd about a trace, each with a code for programs.

A note is text for everyone who prints it. Code asks for its code, never for its words, so that a sentence can be
reworded. `docs/notes.md` lists the codes.
"""

from __future__ import annotations

from typing import Literal, Self

from kinetoscope.errors import one_line

Severity = Literal["error", "warning", "note"]
"""error: data was lost. warning: numbers are affected. note: good to know; some questions cannot be answered."""


class Note(str):
    """One sentence with the numbers in it, and what follows from it.

    Two notes are equal if their texts are.

    Attributes:
        code: stable name in capitals, for programs; "" if it has none.
        severity: error, warning or note.
        number: how many events (or bytes, strings, …) it concerns.
        lost: share of the file that could not be read for it; 0 where nothing was lost, or nobody can tell how much.
        about: what it is about, where a code is of several things: `shapes`, `cuda:0`.
    """

    __slots__ = ("about", "code", "lost", "number", "severity")

    code: str
    severity: Severity
    number: int
    lost: float
    about: str

    def __new__(
        cls, code: str, text: str, severity: Severity = "note", number: int = 1, lost: float = 0.0, about: str = ""
    ) -> Self:
        """A note; line breaks, which names of a trace may bring, are spelled out."""
        self = super().__new__(cls, one_line(text))
        self.code, self.severity, self.number, self.lost, self.about = code, severity, number, lost, about
        return self

    @classmethod
    def of(cls, text: str) -> Note:
        """The note itself; a plain text is a note without a code."""
        return text if isinstance(text, Note) else Note("", text)

    def __getnewargs__(self) -> tuple[str, str, Severity, int, float, str]:  # type: ignore[override]
        return self.code, str(self), self.severity, self.number, self.lost, self.about

    def reworded(self, text: str) -> Note:
        """The same note in other words, as with the ranks that it is about."""
        return Note(self.code, text, self.severity, self.number, self.lost, self.about)
