"""Run as a process of low priority beside the job: check, compress, sync and name what torch exported.

Reads one JSON object from its standard input (see `finish`; or `try_out`: a URL that is tried), prints one to its
standard output: `status` is "ok" or "invalid" (the plain file is left), "full" (no room: everything is removed),
"failed" (`message` says why). A bare interpreter runs it (`python -I -S`): it imports the standard library alone, and
fsspec where the trace goes to a URL.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":  # a bare interpreter: the module beside this one, and no package
    sys.path.insert(0, str(Path(__file__).parent))
    from validate_json import InvalidError, TraceChecker, repaired, texts  # type: ignore[import-not-found, unused-ignore]
else:
    from kinetoscope.record.output.validate_json import InvalidError, TraceChecker, repaired, texts

_BLOCK_BYTES: Final = 1 << 20
_GZIP_LEVEL: Final = 1
_MAX_EMBEDDED_CHARACTERS: Final = 256 << 10
"""Characters of the sidecar beyond which its longest parts are left out of the trace."""

_DISK_FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ATOMIC_STORES: Final = frozenset(
    ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory", "oss", "cos", "r2")
)
"""Stores in which a file appears whole or not at all."""


def finish(task: dict[str, Any]) -> dict[str, Any]:
    """Make the final files of one trace.

    Args:
        task: `plain`: the exported file; `target`: the final name, a path or a URL; `facts`: what to mark
            the trace with; `meta`: the sidecar's content or null, `meta_target` its name; `repair`: keep what can be
            read; `keep_free`: bytes of disk to leave alone; `path`: folders to import fsspec from.
    """
    plain = Path(task["plain"])
    packed = plain.with_name(plain.name.removesuffix(".part") + ".gz.part")
    lost = [0]
    try:
        if shutil.disk_usage(plain.parent).free < plain.stat().st_size // 8 + task["keep_free"]:
            raise OSError(errno.ENOSPC, "the disk is nearly full")
        events = _pack(plain, packed, task, lost)
        size = packed.stat().st_size
        answer = {"status": "ok", "events": events, "bytes": size, "lost": lost[0], "message": ""}
        if task["meta"] is not None:
            _write_meta(task, answer)
        _publish(packed, task["target"])
    except InvalidError as error:
        _remove(packed)
        return {"status": "invalid", "message": str(error)}
    except OSError as error:
        full = error.errno in _DISK_FULL_ERRORS
        # A trace that waits for its upload is kept where it is; what fills the job's disk is not.
        _remove(packed, *([plain] if full else ()))
        _unpublish(task["meta_target"])
        return {"status": "full" if full else "failed", "message": f"{error.strerror or error}"}
    return answer  # the plain file is left to whoever asked: should this process be killed, it is begun anew with it


def _pack(plain: Path, packed: Path, task: dict[str, Any], lost: list[int]) -> int:
    """Check and compress; how many events there are."""
    meta = task["meta"] or {}
    distributed = {"rank": meta["rank"], "world_size": meta["world"]} if "rank" in meta else None
    checker = TraceChecker(Path(task["target"]).name, _embedded(task), distributed)
    compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 31)
    with plain.open("rb") as source, packed.open("wb") as target:
        pieces = texts(iter(lambda: source.read(_BLOCK_BYTES), b""))
        for text in repaired(_lenient(plain), lost) if task.get("repair") else pieces:
            target.write(compressor.compress(checker.feed(text).encode()))
        target.write(compressor.compress(checker.finish().encode()))
        target.write(compressor.flush())
        target.flush()
        os.fsync(target.fileno())
    return int(checker.events)


def _embedded(task: dict[str, Any]) -> dict[str, Any]:
    """Facts of the run for the trace itself: those of the sidecar, without the longest, so that copies have them."""
    whole = {**(task["meta"] or {}), **task["facts"]}
    if len(json.dumps(whole)) > _MAX_EMBEDDED_CHARACTERS:
        whole = {key: value for key, value in whole.items() if len(json.dumps(value)) < _MAX_EMBEDDED_CHARACTERS // 16}
    return whole


def _lenient(plain: Path) -> Iterator[str]:
    with plain.open(encoding="utf-8", errors="replace", newline="") as source:
        yield from iter(lambda: source.read(_BLOCK_BYTES), "")


# --- final names --------------------------------------------------------------------------------------------------


def _write_meta(task: dict[str, Any], answer: dict[str, Any]) -> None:
    meta = {**task["meta"], "events": answer["events"], "bytes": answer["bytes"], "lost_events": answer["lost"]}
    part = Path(task["plain"]).with_suffix(".meta.part")
    try:
        with part.open("w", encoding="utf-8") as target:
            json.dump(meta, target, indent=1)
            target.flush()
            os.fsync(target.fileno())
        _publish(part, task["meta_target"])
    finally:
        _remove(part)


def _publish(part: Path, target: str) -> None:
    """Give a whole file its final name, in one step as far as whoever looks there can tell."""
    if "://" not in target:
        part.replace(target)
        _sync_folder(Path(target).parent)
        return
    _in_store(target, lambda store, path: _upload(store, part, path))
    _remove(part)


def _upload(store: Any, part: Path, path: str) -> None:
    if _is_atomic(store):
        store.put_file(str(part), path)
        return
    store.makedirs(path.rpartition("/")[0], exist_ok=True)
    store.put_file(str(part), path + ".part")
    store.mv(path + ".part", path)


def _is_atomic(store: Any) -> bool:
    names = (store.protocol,) if isinstance(store.protocol, str) else store.protocol
    return bool(_ATOMIC_STORES.intersection(names))


def _in_store(target: str, act: Callable[[Any, str], None]) -> None:
    # Gcsfs would ask another service which kind of bucket it is; without an answer it waits for a minute.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        import fsspec

        act(*fsspec.core.url_to_fs(target))
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - each store has errors of its own; all mean that it is not there
        raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from None


def _try_out(folder: str) -> None:
    """Write an empty file to a store and remove it: who may write learns before there is something to lose.

    Raises:
        OSError: it cannot be written to.
    """

    def act(store: Any, path: str) -> None:
        if not _is_atomic(store):  # it has no folders, and would make a bucket of a name that is wrong
            store.makedirs(path.rpartition("/")[0], exist_ok=True)
        store.pipe_file(path, b"")
        with contextlib.suppress(Exception):  # there are those who may write and not remove
            store.rm_file(path)

    _in_store(f"{folder.rstrip('/')}/.kinetoscope-{os.getpid()}", act)


def _unpublish(target: str) -> None:
    """Remove a sidecar whose trace did not come."""
    if "://" in target:
        with contextlib.suppress(OSError):
            _in_store(target, lambda store, path: store.exists(path) and store.rm_file(path))
    else:
        _remove(Path(target))


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()


def main() -> None:
    """One task from standard input, its answer to standard output."""
    task = json.load(sys.stdin)
    with contextlib.suppress(OSError):
        os.nice(task.get("nice", 0))
    sys.path.extend(task.get("path", ()))
    json.dump(_tried(task["try_out"]) if "try_out" in task else finish(task), sys.stdout)


def _tried(folder: str) -> dict[str, Any]:
    try:
        _try_out(folder)
    except OSError as error:
        return {"status": "failed", "message": f"{error.strerror or error}"}
    return {"status": "ok", "message": ""}


if __name__ == "__main__":
    main()
