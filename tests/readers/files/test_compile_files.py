"""Which files about torch.compile belong to which trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.errors import NotATraceError, NotFoundError
from tests.drawn import op, written

LOG = "dedicated_log_torch_trace_rank_{rank}_host_{pid}.log"
GENERATED = "c" + "a" * 51 + ".py"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two ranks, a log and a generated file of each in `compile`, and tables that are no traces."""
    for rank in (0, 1):
        written(tmp_path / f"host_7{rank}.rank{rank}of2.step3.1.pt.trace.json", op("aten::mm", 0, 5))
        folder = tmp_path / "compile" / f"rank{rank}"
        folder.mkdir(parents=True)
        (folder / GENERATED).write_text("# AOT ID: ['0_inference']\n")
        (folder / "linemaps.json").write_text("{}")
        for pid in (f"6{rank}", f"7{rank}"):
            (tmp_path / "compile" / LOG.format(rank=rank, pid=pid)).write_text("V1122 {}\n")
    return tmp_path


def names(run: Path, compile: Path | str | None = None) -> list[set[str]]:  # noqa: A002 - the keyword of read
    """Of each rank the names of its files, below the run."""
    return [
        {str(Path(file).relative_to(run)) for file in source.files("compile")}
        for source in read(run, compile=compile).sources
    ]


def test_the_files_beside_a_trace_are_those_of_its_rank_and_process(run: Path) -> None:
    assert names(run) == [
        {
            f"compile/rank{rank}/{GENERATED}",
            f"compile/rank{rank}/linemaps.json",
            f"compile/{LOG.format(rank=rank, pid=f'7{rank}')}",
        }
        for rank in (0, 1)
    ]
    assert not any("linemaps" in note for note in read(run).notes)


def test_a_folder_of_a_cache_counts_for_all_ranks(run: Path) -> None:
    (run / "cache" / "aa").mkdir(parents=True)
    (run / "cache" / "aa" / GENERATED).write_text("")
    (run / "cache" / "aa" / "kernel.so").write_text("")
    assert names(run, run / "cache") == [{f"cache/aa/{GENERATED}"}] * 2
    assert names(run, "off") == [set(), set()]


def test_a_folder_without_such_files_is_a_mistake(run: Path) -> None:
    (run / "nothing").mkdir()
    with pytest.raises(NotATraceError, match=r"nothing of torch\.compile in it"):
        read(run, compile=run / "nothing")
    with pytest.raises(NotFoundError, match="no such file or folder"):
        read(run, compile=run / "missing")
