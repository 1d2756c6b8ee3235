"""How fast is a file read, and with how much memory; beside it, what this machine could do at best.

Classes in the style of asv: `params` are the cases, `prepare` makes the file of one (not measured), `setup` runs
before each sample, `time_*` is measured in time, `peakmem_*` in memory; a rate is computed from `size`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from benchmarks import data

# What `data.large` is asked for, beside the size, and how many threads read it.
_CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "plain": (".json", {}, 1),
    "plain, 2 threads": (".json", {}, 2),
    "indented": (".json", {"style": "indent"}, 1),
    "gzip": (".json.gz", {}, 1),
    "gzip, 2 threads": (".json.gz", {}, 2),
    "zstd": (".json.zst", {}, 1),
    "many strings": (".json", {"distinct_strings": 500_000}, 1),
    "many strings, 2 threads": (".json", {"distinct_strings": 500_000}, 2),
    "many shapes": (".json", {"distinct_shapes": 4000}, 1),
}


def file(case: str) -> Path:
    """The file of a case, made if it is not there."""
    suffix, how, _ = _CASES[case]
    return data.large(data.source(), suffix, size=data.size(), **how)


class Reading:
    """A whole trace: bytes to columns."""

    params = tuple(_CASES)

    def prepare(self, case: str) -> None:
        file(case)

    def size(self, case: str) -> int:
        return data.json_size(file(case))

    def setup(self, case: str) -> None:
        from kinetoscope.model.trace.source import Source, SourceOptions

        self.source = Source(str(file(case)), options=SourceOptions(threads=_CASES[case][2]))

    def time_load(self) -> None:
        from kinetoscope.readers.json import kineto

        kineto.load(self.source)

    def peakmem_load(self) -> None:
        self.time_load()


class Ceiling:
    """The sketch of a tokenizer on the same text, which lies in memory; with n threads each reads all of it."""

    params: ClassVar = ("1 thread", "2 threads")

    def prepare(self, _case: str) -> None:
        file("plain")

    def size(self, case: str) -> int:
        return data.json_size(file("plain")) * int(case[0])

    def setup(self, case: str) -> None:
        from benchmarks.sketch import Sketch

        text = file("plain").read_bytes()
        self.sketches = [Sketch(text) for _ in range(int(case[0]))]
        self.sketches[0].run()

    def time_sketch(self) -> None:
        from benchmarks.sketch import run_all

        run_all(self.sketches)
