"""The Dask engine on a real scheduler with worker processes, over loopback."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from kinetoscope import ANALYSES, Job, read
from kinetoscope.cli import main
from kinetoscope.engines.cluster import Cluster
from kinetoscope.errors import InputError, MissingExtraError, UsageError
from kinetoscope.model.analysis import Question
from tests.catalog.samples import BUNDLED
from tests.engines.questions import (
    BROKEN,
    FOLDED,
    HALVES,
    RANKS,
    WHO,
    added,
    ends_always,
    ends_once,
    folded,
    halves,
    mistaken,
    number,
    refused,
    who,
    written,
)

pytestmark = pytest.mark.slow

pytest.importorskip("distributed", reason="needs kinetoscope[dask]")

WAIT = 60
"""Seconds that a process may take to start on a busy machine. Nothing waits so long unless it is broken."""


def _pass_on(pipe: IO[str], lines: queue.Queue[str]) -> None:
    for line in pipe:
        lines.put(line)


@contextmanager
def program(*arguments: str, cwd: Path) -> Iterator[queue.Queue[str]]:
    """A program of Dask that runs meanwhile, and the lines that it writes: unread, they would stop it."""
    lines: queue.Queue[str] = queue.Queue()
    command = [sys.executable, "-m", "dask", *arguments]
    with subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        reader = threading.Thread(target=_pass_on, args=(process.stderr, lines))
        reader.start()
        try:
            yield lines
        finally:
            process.terminate()
            reader.join(WAIT)


def said(lines: queue.Queue[str], words: str) -> str:
    """The first line with these words that the program writes."""
    while words not in (line := lines.get(timeout=WAIT)):
        pass
    return line


@contextmanager
def cluster(folder: Path, *workers: Sequence[str]) -> Iterator[str]:
    """A scheduler, and workers started with these options each; gives the address."""
    with ExitStack() as stack:
        listening = "--host", "127.0.0.1", "--no-dashboard"
        scheduler = stack.enter_context(program("scheduler", *listening, "--port", "0", cwd=folder))
        address = said(scheduler, "Scheduler at:").split()[-1]
        for options in workers:
            stack.enter_context(program("worker", address, *listening, "--nthreads", "1", *options, cwd=folder))
        yield address


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler with two worker processes, which are started again when they die."""
    with cluster(tmp_path_factory.mktemp("dask"), ["--nworkers", "2"]) as address:
        yield address


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("run"))


@contextmanager
def asked(path: Path | str, address: str, ranks: Sequence[int] | None = None) -> Iterator[Job]:
    """A job on the cluster; the connection ends before the cluster does."""
    job = read(path, ranks=ranks, engine="dask", address=address)
    assert isinstance(job.engine, Cluster)
    try:
        yield job
    finally:
        job.engine.close()


def raised(message: str) -> AbstractContextManager[object]:
    return pytest.raises(InputError, match=message)


@pytest.fixture(scope="module")
def job(address: str, run: Path) -> Iterator[Job]:
    with asked(run, address) as job:
        yield job


def same(job: Job, other: Job) -> None:
    """Each analysis answers both alike."""
    for analysis in ANALYSES:
        one, two = analysis(job), analysis(other)
        assert one.frame.equals(two.frame), analysis.name
        assert one.notes == two.notes, analysis.name


def test_every_analysis_answers_as_on_threads_while_a_worker_is_killed(job: Job, run: Path, tmp_path: Path) -> None:
    threads = read(run)
    interrupted = job.map(ends_once, WHO, rank=7, mark=str(tmp_path / "mark"))
    assert (tmp_path / "mark").exists()
    assert interrupted.frame.select("rank", "events").equals(threads.map(who, WHO).frame.select("rank", "events"))
    assert interrupted.notes == threads.map(who, WHO).notes
    assert interrupted.notes[-1].startswith(f"rank {BROKEN} is left out: ")
    same(job, threads)


def test_real_traces_answer_as_on_threads(address: str) -> None:
    with asked(BUNDLED / "ddp2", address) as job:
        same(job, read(BUNDLED / "ddp2"))


def test_a_sum_is_the_same_bit_by_bit(job: Job, run: Path) -> None:
    results = [each.answer(Question(halves, HALVES, combine=added)) for each in (job, read(run, jobs=1), read(run))]
    assert len({result.frame["value"].item() for result in results}) == 1
    assert len({result.notes for result in results}) == 1
    assert {f"of {rank + 1}." for rank in range(RANKS) if rank != BROKEN} < set(results[0].notes)


def test_workers_fold_what_they_are_asked_and_one_of_them_dies(address: str, tmp_path: Path) -> None:
    ranks = 45
    for folder in ("run", "again"):
        (tmp_path / folder).mkdir()
        written(tmp_path / folder, ranks)
    fold = partial(folded, here=os.getpid())
    question = Question(number, FOLDED, combine=fold)
    threads = read(tmp_path / "run").answer(question)
    for folder, mark in (("run", ""), ("again", str(tmp_path / "mark"))):
        with asked(tmp_path / folder, address) as job:
            found = job.answer(replace(question, params={"mark": mark}))
            again = job.answer(question)  # of traces that are kept
        for each in (found, again):
            assert each.frame["value"].to_list() == threads.frame["value"].to_list()
            assert each.notes[:-1] == threads.notes[:-1]
            assert each.notes[-1].startswith(f"rank {BROKEN} is left out: ")
            assert each.frame["elsewhere"].item() > 4
    assert (tmp_path / "mark").exists()


def test_a_rank_that_ends_each_worker_is_given_up_and_no_other(address: str, run: Path) -> None:
    with asked(run, address, range(4)) as job:
        result = job.map(ends_always, WHO, rank=2)
    assert result.frame["rank"].to_list() == [0, 1, 3]
    [note] = [note for note in result.notes if "left out" in note]
    assert note.startswith("rank 2 is left out: ")
    assert note.endswith("rank2.json: each worker that read it died; give workers more memory.")


def test_a_file_that_workers_do_not_see_is_said(job: Job, tmp_path: Path) -> None:
    lost = replace(job, sources=(replace(job.sources[0], url="/nowhere/rank0.json"),))
    with pytest.raises(InputError, match=r"no such file on worker .*; put it where all workers see it"):
        lost.map(who, WHO)


def test_mistakes_are_told_apart(job: Job) -> None:
    with pytest.raises(ZeroDivisionError):
        job.map(mistaken, WHO)
    with pytest.raises(UsageError, match="there is no such thing"):
        replace(job, sources=job.sources[:2]).map(refused, WHO)


def test_whoever_stops_listening_leaves_nothing_behind(job: Job) -> None:
    assert isinstance(job.engine, Cluster)
    answers = job.engine._answers(job.sources, [Question(who, WHO)])
    block, _ = next(answers)
    answers.close()  # type: ignore[attr-defined]
    assert block.stop <= len(job.sources)
    assert len(job.map(who, WHO)) == RANKS - 1


def test_a_trace_itself_is_read_here(job: Job) -> None:
    assert len(job.trace(3)) == 4
    assert job.trace(3) is job.trace(3)


def test_the_command_line_asks_a_cluster(
    address: str, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run.parent)  # a path that only means something here
    printed = []
    for options in (["--engine", "dask", "--address", address], []):
        assert main(["show", "operators", run.name, "--ranks", "0,2-4", "--format", "json", *options]) == 0
        printed.append(capsys.readouterr().out)
    assert json.loads(printed[0]) == json.loads(printed[1])
    for options in (["--engine", "dask", "--address", address], []):
        assert main(["summary", run.name, "--ranks", "0,2-4", *options]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[2] == printed[3]
    for options in (["--engine", "dask", "--address", address], []):
        assert main(["doctor", str(run), *options]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[4] == printed[5]
    assert "UNREADABLE" in printed[4]


def test_a_module_of_the_users_own_runs_on_workers(address: str, run: Path, tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text(
        "import polars as pl\n"
        "from kinetoscope.model.job import Partial\n"
        "from kinetoscope.schema import ALL, Column, Schema\n"
        "RESULT = Schema(Column('rank', pl.Int64, 'Rank.'), Column('twice', pl.Int64, 'Twice the events.'))\n"
        "def _twice(number): return 2 * number\n"
        "def mine(trace, select):\n"
        '    """How many?"""\n'
        "    return Partial(pl.DataFrame({'twice': [_twice(len(trace))]}))\n".replace("ALL, ", "")
    )
    assert main(["show", str(module), str(run), "--engine", "dask", "--address", address, "--format", "csv"]) == 0


def test_jobs_share_a_connection_until_the_last_one_is_closed(address: str, run: Path, job: Job) -> None:
    with asked(run, address, [0]) as other:
        assert other.map(who, WHO).frame["events"].to_list() == [1]
    assert len(job.map(who, WHO)) == RANKS - 1


def test_without_an_address_there_are_workers_here_which_keep_what_they_read_until_it_changes(tmp_path: Path) -> None:
    job = read(written(tmp_path, 4), engine="dask", jobs=1)
    assert isinstance(job.engine, Cluster)
    first, second = job.map(who, WHO).frame, job.map(who, WHO).frame
    assert first["events"].to_list() == [1, 2, 3, 4]
    assert first.equals(second)
    file = tmp_path / "rank1.json"
    file.write_text(file.read_text().replace('"mm"', '"addmm"'))
    third = job.map(who, WHO).frame
    assert (first != third)["identity"].to_list() == [False, True, False, False]
    [process] = set(first["process"])
    assert process != os.getpid()
    job.engine.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


# --- what does not fit


def test_a_worker_without_kinetoscope_or_with_another_version_is_one_line(run: Path, tmp_path: Path) -> None:
    for name, code, words in (
        ("absent", "import sys; sys.modules['kinetoscope'] = None", "Kinetoscope is not installed there"),
        ("older", "import kinetoscope; kinetoscope.__version__ = '0.0.1'", "there Kinetoscope has version 0.0.1"),
    ):
        (tmp_path / f"{name}.py").write_text(code)
        message = f"^Dask at {{}}, worker tcp://127.*: {words}; all workers need"
        worker = ["--no-nanny", "--preload", f"{name}.py"]
        with cluster(tmp_path, worker) as address, asked(run, address) as job, raised(message.format(address)):
            job.map(who, WHO)


def test_what_is_wrong_with_an_address_is_one_line(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kinetoscope.engines.dask.CONNECT_S", 0.5)
    for address in ("tcp://127.0.0.1:1", "nonsense://x", "/nowhere/scheduler.json"):
        assert main(["show", "operators", str(run), "--engine", "dask", "--address", address]) == 1
        assert f"no Dask scheduler answers at {address}; start one with `dask scheduler`" in capsys.readouterr().err
    with pytest.raises(UsageError, match="threads have no address"):
        read(run, address="tcp://127.0.0.1:1")


def test_a_port_that_does_not_speak_is_one_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinetoscope.engines.dask.CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent, raised("^no Dask scheduler answers at"):
        read(run, engine="dask", address=f"tcp://127.0.0.1:{silent.getsockname()[1]}")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSTOP, "the scheduler has not answered for 2 s"),
        (signal.SIGKILL, "the scheduler (is gone; what|has not answered for 2 s)"),
    ],
)
def test_a_scheduler_that_stops_in_the_middle_is_one_line(
    number: signal.Signals, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    written(tmp_path / "run", 20)
    with cluster(tmp_path, ["--no-nanny"]) as address:
        with asked(tmp_path / "run", address) as job:
            assert isinstance(job.engine, Cluster)
            process = job.engine._actors.client.run_on_scheduler(os.getpid)  # type: ignore[attr-defined]
            answers = job.engine._answers(job.sources, [Question(who, WHO)])
            next(answers)
            monkeypatch.setattr("kinetoscope.engines.dask.TIMEOUT_S", 2)
            os.kill(process, number)
            with raised(words):
                list(answers)
            with raised(words):  # and to the next question
                job.map(who, WHO)
        if number == signal.SIGSTOP:
            os.kill(process, signal.SIGCONT)
    with raised("^no Dask scheduler answers at"):
        read(tmp_path / "run", engine="dask", address=address)


def test_a_missing_extra_says_what_to_install(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"engine 'dask' needs an extra: pip install 'distributed>="):
        read(run, engine="dask")
