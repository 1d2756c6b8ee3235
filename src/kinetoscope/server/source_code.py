"""Source files of the program that was traced: read only below the folders that the user allowed.

A path in a trace is what the trace says, and a trace is untrusted: it is followed, links and all, and must end below
one of the folders. Traces recorded elsewhere have other paths: prefixes are mapped as the user says, else the longest
end of the path that is a file below one of the folders is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

from kinetoscope.server.errors import BadValueError, ForbiddenError, MissingError

MAX_FILE_BYTES: Final = 4 << 20
"""Bytes of a file that is shown."""

MAX_LINES: Final = 100_000
"""Lines that are sent at most."""

_ENDINGS: Final = (".py", ".pyx", ".pxd", ".pyi", ".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".rs", ".triton")


@dataclass(frozen=True, slots=True)
class SourceText:
    """Lines of the `file` here that was `asked` for, of `all` that it has; the number of the first is `first`."""

    file: str
    asked: str
    first: int
    lines: Sequence[str]
    all: int


@dataclass(frozen=True, slots=True)
class Sources:
    """The folders in which source files may be read.

    Attributes:
        roots: folders that the user allowed, resolved.
        maps: prefixes of paths as traces have them, and what stands here in their place.
    """

    roots: tuple[Path, ...] = ()
    maps: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, roots: Sequence[str], maps: Sequence[tuple[str, str]] = ()) -> Sources:
        """The sources in folders as the user names them."""
        return cls(tuple(Path(root).resolve() for root in roots), tuple(maps))

    def lines(self, file: str, line: int, around: int | None) -> SourceText:
        """The lines of a file, `around` before and after `line` (None: all).

        Raises:
            ForbiddenError: no folder is allowed, or the file lies below none of them.
            MissingError: there is no such file.
            BadValueError: it is no text of a bearable size.
        """
        path = self.find(file)
        data = _read(path)
        if b"\0" in data:
            raise BadValueError(f"{path.name} is no text")
        texts = data.decode("utf-8", "replace").splitlines()
        first = 1 if around is None else max(1, line - around)
        last = min(len(texts), first + MAX_LINES - 1 if around is None else line + around)
        return SourceText(str(path), file, first, texts[first - 1 : last], len(texts))

    def find(self, file: str) -> Path:
        """The file here that a path in a trace means.

        Raises:
            ForbiddenError: no folder is allowed, or it lies below none of them.
            MissingError: there is no such file.
        """
        if not self.roots:
            raise ForbiddenError("no folder of sources is allowed", "kinetoscope view PATH --source DIR allows one.")
        if not file or "\0" in file or len(file) > 4096:
            raise BadValueError("that is no path of a file")
        if not file.lower().endswith(_ENDINGS):
            raise ForbiddenError("only files of source code are shown")
        outside = False
        for candidate in self._candidates(file):
            try:
                path = candidate.resolve()
                is_file = path.is_file()
            except (OSError, RuntimeError, ValueError):  # too long, links in a circle
                continue
            if not is_file:
                continue
            if not any(path.is_relative_to(root) for root in self.roots) or not path.name.lower().endswith(_ENDINGS):
                outside = True
                continue
            return path
        if outside:
            raise ForbiddenError(
                "that file lies outside the folders that are allowed", "kinetoscope view PATH --source DIR allows one."
            )
        raise MissingError(
            "there is no such file below the folders that are allowed",
            "If the trace was recorded elsewhere: --map OLD=NEW, with the beginning of its paths and that here.",
        )

    def _candidates(self, file: str) -> Iterator[Path]:
        """Mapped paths, the path itself, then its ends below each folder, the longest first."""
        plain = file.replace("\\", "/") if PureWindowsPath(file).drive else file
        for old, new in self.maps:
            if plain.startswith(old):
                yield Path(new + plain.removeprefix(old))
        if Path(plain).is_absolute():
            yield Path(plain)
        parts = [part for part in PurePosixPath(plain).parts if part not in ("/", "..", ".")]
        for begin in range(len(parts)):
            for root in self.roots:
                yield root.joinpath(*parts[begin:])


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise MissingError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise BadValueError(f"{path.name} has more than {MAX_FILE_BYTES:,} bytes")
    return data
