"""What the summary says of memory snapshots: the same sentences as the page, and the fullest device's categories."""

from __future__ import annotations

from pathlib import Path

from kinetoscope import memory_peak, read
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.sentences.memory import memory_questions, memory_sentences
from kinetoscope.pages.sentences.snapshot import snapshot_questions, snapshot_words
from tests.conftest import OURS
from tests.snapshots.allocator import Settings
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write


def test_words_of_a_training(tmp_path: Path) -> None:
    process = Process(Settings())
    process.record()
    training = Training(process, Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100), metadata=True)
    training.build()
    training.run(3)
    job = read(write(tmp_path / "taken.pickle", process.snapshot()), jobs=1)
    words = snapshot_words(job, ALL, job.ask(snapshot_questions(ALL)))
    assert words is not None
    assert words.facts[0] == "1 device"
    assert words.sentences == memory_sentences(job, ALL, job.ask(memory_questions(ALL)))
    assert words.sentences[0].startswith("Memory of cuda:0 peaks at ")
    assert sum(size for _, size in words.categories) == memory_peak(job).frame.get_column("size").sum()


def test_fragmentation_is_followed_by_what_removes_it(tmp_path: Path) -> None:
    process = Process()
    process.record()
    for size in range(40, 140, 10):
        process.free(process.alloc("empty", size << 20))
        process.alloc("empty", (size // 2 + 2) << 20)
    job = read(write(tmp_path / "halves.pickle", process.snapshot()), jobs=1)
    sentences = memory_sentences(job, ALL, job.ask(memory_questions(ALL)))
    [said] = [sentence.replace("\xa0", " ") for sentence in sentences if sentence.startswith("Replayed ")]
    assert said == (
        "Replayed from an empty allocator, at most 545 MB are reserved on cuda:0 with expandable_segments:True, and"
        " 891 MB with the recorded settings, as was recorded."
    )


def test_no_words_without_a_snapshot() -> None:
    job = read(OURS / "mlp.pt.trace.json.gz", jobs=1)
    assert snapshot_words(job, ALL, job.ask(snapshot_questions(ALL))) is None
