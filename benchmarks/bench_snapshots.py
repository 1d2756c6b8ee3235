"""How fast is a memory snapshot read, and answered about, and with how much memory?

The files are those of `tests/snapshots/large.py`: the steps of a training, as many as fill `data.size()`.
"""

from __future__ import annotations

import gzip
import json
import pickle
import shutil
from pathlib import Path

from benchmarks import data

# Stacks of the events, and the form.
_CASES: dict[str, tuple[str, str]] = {
    "Python stacks": ("python", ".pickle"),
    "Python and C++ stacks": ("all", ".pickle"),
    "gzip": ("python", ".pickle.gz"),
    "JSON": ("python", ".json"),
}
_EVENT_BYTES = {"python": 105, "all": 140}
_JSON_EVENT_BYTES = 2500


def file(case: str) -> Path:
    """The snapshot of a case, made if it is not there."""
    stacks, suffix = _CASES[case]
    size = data.size()
    out = data.FOLDER / f"snapshot-{stacks}-{size}{suffix}"
    if not out.exists():
        part = out.with_name(f"part-{out.name}")
        data.FOLDER.mkdir(parents=True, exist_ok=True)
        _make(part, stacks, suffix, size)
        part.replace(out)
    return out


def _make(out: Path, stacks: str, suffix: str, size: int) -> None:
    from tests.snapshots.large import steady, write_large

    is_json = suffix == ".json"
    plain = out.with_suffix(".plain")
    write_large(plain, size // (_JSON_EVENT_BYTES if is_json else _EVENT_BYTES[stacks]), training=steady(stacks=stacks))
    if is_json:
        out.write_text(json.dumps(pickle.loads(plain.read_bytes())))  # noqa: S301 - made above
    elif suffix.endswith(".gz"):
        with plain.open("rb") as source, gzip.open(out, "wb", 1) as packed:
            shutil.copyfileobj(source, packed, 1 << 22)
    else:
        plain.replace(out)
    plain.unlink(missing_ok=True)


class SnapshotReading:
    """A whole snapshot: bytes to columns."""

    params = tuple(_CASES)

    def prepare(self, case: str) -> None:
        file(case)

    def size(self, case: str) -> int:
        return data.json_size(file(case))

    def setup(self, case: str) -> None:
        self.path = str(file(case))

    def time_load(self) -> None:
        from kinetoscope.readers.files.stream import TextBlocks
        from kinetoscope.readers.snapshot import load

        with TextBlocks(self.path, max_size=1 << 36) as blocks:
            load(self.path, blocks)

    def peakmem_load(self) -> None:
        self.time_load()


def answers() -> tuple[str, ...]:
    """The analyses of memory."""
    from kinetoscope.analyses import ANALYSES

    names = (analysis.name for analysis in ANALYSES)
    return tuple(name for name in names if name.startswith("memory_") and "bandwidth" not in name)


class SnapshotAnswers:
    """One analysis with its defaults, on a snapshot that has been read."""

    params = answers

    def prepare(self, _case: str) -> None:
        file("Python stacks")

    def setup(self, case: str) -> None:
        import kinetoscope
        from kinetoscope.model.snapshot.of_trace import snapshot_of

        self.job = kinetoscope.read(file("Python stacks"), jobs=1)
        self.analysis = next(each for each in kinetoscope.ANALYSES if each.name == case)
        snapshot_of(self.job.trace())

    def time_answer(self) -> None:
        self.analysis(self.job)

    def peakmem_read_and_answer(self) -> None:
        self.analysis(self.job)
