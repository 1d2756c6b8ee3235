"""Files that a program believes to have written: they can be renamed, copied, looked at and removed, and are nowhere.

Only calls on such files are changed, and those that would take away a checkpoint of an earlier run; all others are as
they were.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import io
import os
import shutil
import stat
import time
from collections.abc import Callable
from typing import Any, Final

SUFFIXES: Final = (".pt", ".pth", ".ckpt", ".safetensors", ".pth.tar")
"""How names of checkpoints end."""

_MAX_FILES: Final = 10_000
"""Files of a folder that are looked at before it is removed."""


class UnwrittenFiles:
    """The files that were not written, by absolute path."""

    def __init__(self) -> None:
        self._began = time.time()
        self._there: set[str] = set()
        self._gone: set[str] = set()

    def add(self, path: Any) -> None:
        """The program believes that it has written this."""
        key = _key(path)
        self._there.add(key)
        self._gone.discard(key)

    def has(self, path: Any) -> bool:
        """Does the program believe that this is what it has written?"""
        return bool(self._there) and _key(path) in self._there

    def attach(self) -> None:
        """From here on, calls on such files do what the program expects, and leave the disk as it is.

        What stands for a function has its parameters, by their names.
        """
        for name in ("replace", "rename"):
            _wrap(os, name, self._moved)
        for name in ("remove", "unlink"):
            _wrap(os, name, self._removed)
        for name in ("copyfile", "copy", "copy2"):
            _wrap(shutil, name, self._copied)
        for name in ("symlink", "link"):
            _wrap(os, name, self._linked)
        for name in ("stat", "lstat"):
            _wrap(os, name, self._looked_at)
        for name in ("chmod", "utime"):
            _wrap(os, name, lambda original, path, *_, **__: None if self.has(path) else original)
        _wrap(shutil, "rmtree", self._tree_removed)
        opened = builtins.open
        _wrap(builtins, "open", self._opened)
        if io.open is opened:
            io.open = builtins.open

    def _is_old(self, path: Any) -> bool:
        """Is it a checkpoint of an earlier run?"""
        key = _key(path)
        if not key.endswith(SUFFIXES) or key in self._gone:
            return False
        try:
            return _LSTAT(key).st_mtime < self._began
        except OSError:
            return False

    def _forget(self, path: Any) -> None:
        """The program believes that this is no longer there."""
        key = _key(path)
        self._there.discard(key)
        with contextlib.suppress(OSError):
            _LSTAT(key)
            self._gone.add(key)

    def _moved(self, original: Any, src: Any, dst: Any, **_: Any) -> Any:
        if not (self.has(src) or self._is_old(src) or self._is_old(dst)):
            return original
        if not self.has(src) and not self._is_old(src):  # a file of this run takes the place of an old one
            os.unlink(src)  # noqa: PTH108 - pathlib would not accept all that it may be
        self._forget(src)
        self.add(dst)
        return None

    def _copied(self, original: Any, src: Any, dst: Any, **_: Any) -> Any:
        into = os.path.join(dst, os.path.basename(src)) if os.path.isdir(dst) else dst  # noqa: PTH112,PTH118,PTH119
        if not (self.has(src) or self._is_old(into)):
            return original
        self.add(into)
        return into

    def _linked(self, original: Any, src: Any, dst: Any, **_: Any) -> Any:
        meant = os.path.join(os.path.dirname(os.fspath(dst)), src)  # noqa: PTH118,PTH120
        if not (self.has(src) or self.has(meant)):
            return original
        self.add(dst)
        return None

    def _removed(self, original: Any, path: Any, **more: Any) -> Any:
        if more.get("dir_fd") is not None or not (self.has(path) or self._is_old(path)):
            return original
        self._forget(path)
        return None

    def _tree_removed(self, original: Any, path: Any, *_: Any, **__: Any) -> Any:
        files = (os.path.join(where, name) for where, _, names in os.walk(path) for name in names)  # noqa: PTH118
        if not any(self._is_old(file) for file, _ in zip(files, range(_MAX_FILES), strict=False)):
            return original
        return None

    def _looked_at(self, original: Any, path: Any, **more: Any) -> Any:
        if isinstance(path, int) or not (self._there or self._gone):
            return original
        key = _key(path)
        if key in self._gone:
            raise FileNotFoundError(2, "No such file or directory", path)
        if key not in self._there:
            return original
        try:
            return original(path, **more)
        except FileNotFoundError:
            now = int(time.time())
            return os.stat_result((stat.S_IFREG | 0o644, 0, 0, 1, os.getuid(), os.getgid(), 1, now, now, now))

    def _opened(self, original: Any, file: Any, mode: str = "r", *_: Any, **__: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wxa"):
            return original
        self._gone.discard(_key(file))
        if not os.fsdecode(file).endswith(SUFFIXES):
            return original
        self.add(file)
        return original(os.devnull, mode.replace("x", "w"))


_LSTAT: Final = os.lstat


def _key(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path)) if not isinstance(path, int) else ""  # noqa: PTH100 - also without `..`


def _wrap(module: Any, name: str, act: Callable[..., Any]) -> None:
    """Have `act` asked first: it returns the original if the call is none of ours, else what is to be returned."""
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        answer = act(original, *args, **kwargs)
        return original(*args, **kwargs) if answer is original else answer

    for supported in (os.supports_dir_fd, os.supports_follow_symlinks, os.supports_fd):
        if original in supported:  # `shutil` asks for these
            supported.add(called)
    setattr(module, name, called)
