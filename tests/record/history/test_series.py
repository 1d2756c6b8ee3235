"""Histories of real programs: the parts of their steps, marks, and which process writes which file."""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path

import polars as pl
import pytest

from kinetoscope.readers.history.history import HistoryTables, read_history
from kinetoscope.record.history.layout import FOLDER
from kinetoscope.record.history.writer import HistoryWriter
from tests.history import written
from tests.record.processes import environment, run
from tests.record.programs import kinetoscope, python, traces

pytestmark = pytest.mark.torch

WHOLE = """
import gc, sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters())
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 60
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(8)
for number, batch in enumerate(torch.utils.data.DataLoader(Slow(), batch_size=3)):
    loss = net(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 5:
        net.eval()
        with torch.no_grad():
            for batch in torch.utils.data.DataLoader(Slow(), batch_size=30):
                net(batch)
        net.train()
    if number == 7:
        torch.save(net.state_dict(), sys.argv[1])
    if number == 9:
        gc.collect()
    if number == 11:
        time.sleep(0.2)
print("loss", loss.item().hex())
"""


def recorded(folder: Path, *command: str, options: tuple[str, ...] = ("--history",), **more: str) -> HistoryTables:
    done = run(kinetoscope("record", "-o", folder, *options, "--", *command), env=environment(**more))
    assert done.returncode == 0, done.stderr
    assert ("of all steps" in done.stderr) == ("--every" not in options)
    return read_history(folder)


def test_the_parts_of_steps_and_what_lies_between_them(tmp_path: Path) -> None:
    alone = run(python(WHOLE, str(tmp_path / "a.pt")))
    done = run(kinetoscope("record", "-o", tmp_path / "run", "--history", "--", *python(WHOLE, str(tmp_path / "a.pt"))))
    assert (done.returncode, done.stdout) == (0, alone.stdout)
    assert done.stderr == f"kinetoscope: the times of all steps of 1 process in {tmp_path}/run/{FOLDER}\n"
    assert not traces(tmp_path / "run")
    tables = read_history(tmp_path / "run")
    steps = tables.steps
    assert steps["step"].to_list() == list(range(20))
    assert set(steps["samples"]) == {3}
    assert (steps["data"] >= 30_000_000).all()
    later = steps[1:]
    parts = later.select("data", "forward", "backward", "optimizer")
    assert (parts.min_horizontal() > 0).all()
    assert (parts.sum_horizontal() <= later["end"] - later["start"]).all()
    assert (steps["start"][1:] >= steps["end"][:-1]).all()
    assert steps["start"][12] - steps["end"][11] >= 200_000_000
    assert (steps["resident"] > 50_000_000).all()
    assert steps.select("device", "memory_used", "memory_reserved").null_count().row(0) == (20, 20, 20)

    marks = tables.marks
    (evaluation,) = marks.filter(kind="evaluation").rows(named=True)
    assert evaluation["step"] == 6
    assert steps["end"][5] <= evaluation["start"] < evaluation["end"] - 600_000_000 < evaluation["end"]
    assert evaluation["end"] <= steps["start"][6]
    (save,) = marks.filter(kind="save").rows(named=True)
    assert steps["end"][7] <= save["start"] < save["end"] <= steps["start"][8]
    full = marks.filter(pl.col("step") == 10, kind="collection", detail="2")
    assert ((full["start"] >= steps["end"][9]) & (full["end"] <= steps["start"][10])).any()
    assert marks.filter(kind="end")["step"].to_list() == [20]


NO_LOADER = """
import sys, torch
net, critic = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
one, two = torch.optim.SGD(net.parameters(), 0.1, momentum=0.1), torch.optim.SGD(critic.parameters(), 0.1)
for _ in range(6):
    for _ in range(2):  # accumulates
        critic(net(torch.ones(4))).sum().backward()
    two.step()
    one.step()
"""


def test_optimizers_that_take_turns_and_gradients_that_accumulate(tmp_path: Path) -> None:
    steps = recorded(tmp_path, *python(NO_LOADER)).steps
    assert 5 <= len(steps) <= 7
    last = steps[-1].row(0, named=True)
    assert (last["data"], last["samples"]) == (None, None)
    assert last["forward"] > 0
    assert last["backward"] > 0
    assert last["optimizer"] > 0


CALLS = """
import torch
net = torch.nn.Linear(4, 4)
with torch.inference_mode():
    for _ in range(12):
        net(torch.ones(4))
"""


def test_calls_that_are_steps(tmp_path: Path) -> None:
    tables = recorded(tmp_path, *python(CALLS))
    steps = tables.steps
    assert len(steps) == 10  # of the first two it was not known that they are
    assert steps["step"].to_list() == list(range(10))
    assert (steps["forward"] == steps["end"] - steps["start"]).all()
    assert steps["optimizer"].null_count() == 10
    assert tables.marks.filter(kind="evaluation").is_empty()


THEN_TRAINS = """
import torch
net = torch.nn.Linear(4, 4)
for _ in range(5):
    net(torch.ones(4))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(4):
    net(torch.ones(4)).sum().backward()
    optimizer.step()
"""


def test_calls_before_the_optimizer_were_no_steps(tmp_path: Path) -> None:
    steps = recorded(tmp_path, *python(THEN_TRAINS)).steps
    assert steps["step"].to_list() == list(range(4))
    assert steps["attempt"].to_list() == [0] * 4


RESUMES = """
import os, sys, torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters())
if os.path.exists(sys.argv[1]):
    optimizer.load_state_dict(torch.load(sys.argv[1]))
for _ in range(5):
    net(torch.ones(4)).sum().backward()
    optimizer.step()
torch.save(optimizer.state_dict(), sys.argv[1])
"""


def test_a_run_that_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    command = python(RESUMES, str(tmp_path / "a.pt"))
    recorded(tmp_path, *command)
    tables = recorded(tmp_path, *command, TORCHELASTIC_RESTART_COUNT="3")
    assert tables.steps.select("attempt", "step").rows() == [(0, n) for n in range(5)] + [(3, n) for n in range(5, 10)]
    (restart,) = tables.marks.filter(kind="restart").rows(named=True)
    assert (restart["attempt"], restart["step"]) == (3, 5)
    assert tables.steps["end"][4] < restart["start"] < restart["end"] == tables.steps["start"][5]


CHILDREN = """
import os, sys, torch, torch.multiprocessing as mp
def train(rank, how):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="3")
    torch.set_num_threads(1)
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(4 + rank):
        net(torch.ones(4)).sum().backward()
        optimizer.step()
if __name__ == "__main__":
    train(0, None)
    mp.start_processes(train, (None,), nprocs=3, start_method=sys.argv[1])
"""


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_each_process_has_its_own_file_with_an_end(how: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(CHILDREN)
    tables = recorded(tmp_path, sys.executable, str(script), how)
    assert tables.steps.group_by("rank", "attempt").len().sort("rank", "attempt").rows() == [
        (0, 0, 4),
        (0, 1, 4),
        (1, 0, 5),
        (2, 0, 6),
    ]
    assert tables.marks.filter(kind="end").select("rank", "attempt").rows() == [(0, 0), (0, 1), (1, 0), (2, 0)]


def test_windows_are_marks_and_what_does_not_want_a_history_has_none(tmp_path: Path) -> None:
    train = WHOLE.replace("range(60)", "range(300)").replace("return 60", "return 300")
    options = ("--every", "30", "--budget", "50%")
    tables = recorded(tmp_path / "a", *python(train, str(tmp_path / "a.pt")), options=options)
    windows = tables.marks.filter(kind="window")
    assert windows["detail"].to_list()
    for row in windows.rows(named=True):
        assert (tmp_path / "a" / row["detail"]).exists()
        assert f".step{row['step']}." in row["detail"]
        first = tables.steps.filter(step=row["step"]).row(0, named=True)
        assert row["start"] <= first["start"] < row["end"]
    run(kinetoscope("record", "-o", tmp_path / "b", *options, "--no-history", "--", *python(NO_LOADER)))
    assert not (tmp_path / "b" / FOLDER).exists()


COMPILED = """
import torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
whole, model = torch.compile(net, backend="eager"), net[0]
step_of = torch.compile(optimizer.step, backend="eager")
model.compile(backend="eager")
@torch.compile(backend="eager")
def train(x):
    optimizer.zero_grad(); net(x).sum().backward(); optimizer.step()
for number in range(8):
    train(torch.ones(4, 8))
    whole(torch.ones(4, 8)).sum().backward()
    model(torch.ones(4, 8)).sum().backward()
    step_of()
from torch._dynamo.utils import counters
print(dict(counters["stats"]))
"""


def test_nothing_is_compiled_otherwise(tmp_path: Path) -> None:
    alone = run(python(COMPILED))
    done = run(kinetoscope("record", "--history", "-o", tmp_path, "--", *python(COMPILED)))
    assert (done.returncode, done.stdout) == (0, alone.stdout), done.stderr
    assert done.stderr.count("\n") == alone.stderr.count("\n") + 1, (done.stderr, alone.stderr)
    assert len(read_history(tmp_path).steps) == 16


def test_a_full_disk_ends_the_history_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history" / "a.history"
    writer = HistoryWriter(path, written.head(), deque(), offset=0, keep_free=1 << 60)
    writer.start()
    writer.rows.append(written.records(1).tobytes())
    writer.end()
    said = capsys.readouterr().err
    assert said.startswith("kinetoscope: the history of process ")
    assert " MB of the disk are free" in said
    assert writer.over
    assert read_history(path).steps.is_empty()


def test_compilations_are_marks(tmp_path: Path) -> None:
    train = """
import torch
net = torch.nn.Linear(4, 4)
def loss(batch):
    return net(batch).square().sum()
compiled = torch.compile(loss, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for number in range(6):
    compiled(torch.ones(2 if number < 3 else 5, 4)).backward()
    optimizer.step()
"""
    marks = recorded(tmp_path, *python(train)).marks.filter(kind="compile")
    assert marks["step"].to_list()[0] == 0
    assert 3 in marks["step"].to_list()
    assert (marks["end"] > marks["start"]).all()
