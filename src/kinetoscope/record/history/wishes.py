"""Windows that a run wants while it goes on, and how often for the same cause."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Final

REST_STEPS: Final = 20_000
"""Steps after which a cause that has had its windows may have some again."""


@dataclass(frozen=True)
class WindowWish:
    """A window that is wanted.

    Attributes:
        cause: what it is wanted for; windows for one cause are few.
        reason: the same, as it is said.
        first: number of the step of the run that it records first; 0: the next one.
        part: of the step that changed, "" where none did; size: by how many ns.
        took: the step that is the reason, s; 0: none is.
    """

    cause: str
    reason: str
    first: int = 0
    part: str = ""
    size: float = 0.0
    took: float = 0.0

    @property
    def is_change(self) -> bool:
        """True if it lasts: any later window shows it, too."""
        return self.cause.startswith(("change", "memory"))

    def said_of(self, who: str) -> WindowWish:
        """The same, of some ranks."""
        return replace(self, reason=f"{who}: {self.reason}")

    def note(self) -> dict[str, Any]:
        """For another process."""
        return asdict(self)


def wish_of(note: dict[str, Any]) -> WindowWish | None:
    """The wish of such a note; None if it is none."""
    texts = [note.get(name) for name in ("cause", "reason", "part")]
    numbers = [note.get(name) for name in ("first", "size", "took")]
    if not all(isinstance(each, str) for each in texts) or not all(isinstance(each, int | float) for each in numbers):
        return None
    return WindowWish(**{name: note[name] for name in ("cause", "reason", "first", "part", "size", "took")})


class CauseLimits:
    """How many windows each cause has had of late."""

    def __init__(self) -> None:
        self._steps: dict[str, list[int]] = {}

    def allows(self, cause: str, step: int, most: int) -> bool:
        """True if it may have one more at this step, which is then counted."""
        recent = [each for each in self._steps.get(cause, ()) if step - each < REST_STEPS]
        if allowed := len(recent) < most:
            recent.append(step)
        self._steps[cause] = recent
        return allowed
