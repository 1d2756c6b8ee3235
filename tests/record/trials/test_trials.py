"""Each trial where it applies, and where it must not; alone and with all others."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from kinetoscope.record.trials.trial import cores  # noqa: E402
from tests.record.trials.attached import attached, ranks  # noqa: E402

FAULTS = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
torch.set_num_threads(64)
torch.autograd.set_detect_anomaly(True)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.head = torch.nn.Linear(8, 2)
    def forward(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))
net = Net()
loss_of = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, foreach=False)
data = TensorDataset(torch.randn(32, 3, 8, 8), torch.zeros(32, dtype=torch.long))
loader = DataLoader(data, 4)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        out = net(x)
        loss_of(out, y).backward()
        optimizer.step()
    net.eval()
    for x, y in loader:
        loss_of(net(x), y)
    net.train()
print("loss", loss_of(net(x), y).item().hex(), torch.get_num_threads(), out.dtype)
"""

APPLY = ["anomaly", "workers", "threads", "fused", "set-to-none", "compile", "bf16", "channels-last", "garbage",
         "batch-size", "no-grad"]  # fmt: skip


def line(text: str) -> int:
    """The line of the program with the text."""
    return next(number for number, each in enumerate(FAULTS.splitlines(), 1) if text in each)


def test_a_look_says_what_applies_and_changes_nothing(tmp_path: Path) -> None:
    plain = attached(FAULTS, tmp_path, ["debug"])
    looked = attached(FAULTS, tmp_path, acts=[])
    assert looked.out == plain.out
    assert {name for name, note in looked.notes.items() if note["count"]} == set(APPLY)
    places = {
        "anomaly": ["set_detect_anomaly"],
        "workers": ["DataLoader(data"],
        "threads": ["set_num_threads"],
        "fused": ["AdamW"],
        "set-to-none": ["zero_grad"],
        "compile": ["out = net(x)"],
        "bf16": ["out = net(x)"],
        "channels-last": ["out = net(x)"],
        "batch-size": ["DataLoader(data"],
        "no-grad": ["loss_of(net(x), y)"],
        "garbage": [],
    }
    assert {name: looked.lines(name) for name in places} == {
        name: [line(each) for each in texts] for name, texts in places.items()
    }
    assert not any(note["ineffective"] for note in looked.notes.values())
    assert looked.said("pinned") == (0, ["the program uses no device"], "")
    assert looked.said("tf32")[1] == looked.said("cudnn-benchmark")[1] == ["the program uses no device"]


@pytest.mark.parametrize("name", APPLY)
def test_each_acts_and_is_in_effect(tmp_path: Path, name: str) -> None:
    done = attached(FAULTS, tmp_path, [name])
    count, _, ineffective = done.said(name)
    assert count
    assert not ineffective
    assert "loss" in done.out


def test_all_act_together_in_any_order(tmp_path: Path) -> None:
    for names in (APPLY, APPLY[::-1]):
        done = attached(FAULTS, tmp_path, names)
        assert {name: done.said(name)[2] for name in names} == dict.fromkeys(names, "")
        assert all(done.said(name)[0] for name in names)


TOGETHER = """
import torch
torch.set_num_threads(CORES)
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for (x,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(24, 2)), 4):
    net(x).sum().backward()
    optimizer.step()
    threads = torch.get_num_threads()
print(threads)
"""


def test_threads_make_room_for_workers(tmp_path: Path) -> None:
    if (free := cores()) < 2:
        pytest.skip("one core has no room to share")
    program = TOGETHER.replace("CORES", str(free))
    alone = attached(program, tmp_path, ["threads"])
    assert alone.out.split() == [str(free)]
    assert alone.said("threads") == (0, [f"operators run on {free} of {free} cores already"], "")
    looked = attached(program, tmp_path, ["threads", "workers"], acts=[])
    assert looked.said("threads")[0] == 1
    both = attached(program, tmp_path, ["threads", "workers"])
    workers = both.notes["workers"]["facts"]["workers"]
    assert both.out.split() == [str(max(free - workers, 1))]
    assert both.notes["threads"]["facts"] == {"threads": max(free - workers, 1)}
    assert both.said("threads") == (1, [], "")


RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
(tmp / f"weights{dist.get_rank()}").write_text(str([each.tolist() for each in net.parameters()]))
dist.destroy_process_group()
"""


def test_ranks_make_the_same_changes(tmp_path: Path) -> None:
    names = ["bucket-views", "bucket-size", "static-graph", "compile", "fused"]
    notes = ranks(f"import pathlib\ntmp = pathlib.Path({str(tmp_path)!r})\n{RANKS}", tmp_path, names)
    assert len(notes) == 2
    for note in notes:
        assert {name: (note[name]["count"], note[name]["ineffective"]) for name in names} == dict.fromkeys(
            names, (1, "")
        )
        assert note["compile"]["facts"]["inner"] == ".module"
        assert note["compile"]["facts"]["graphs"] >= 1
    assert (tmp_path / "weights0").read_text() == (tmp_path / "weights1").read_text()


COMPILED = """
import torch
from torch._dynamo.utils import counters, get_compilation_metrics
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
whole, placed = torch.compile(net, backend="eager"), torch.nn.Linear(4, 1)
placed.compile(backend="eager")
optimizer = torch.optim.SGD([*net.parameters(), *placed.parameters()], 0.01)
@torch.compile(backend="eager")
def loss_of(module, x):
    return module(x).square().mean()
x = torch.ones(3, 4)
for _ in range(5):
    (whole(x).mean() + placed(x).mean() + loss_of(net, x)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    net.eval()
    whole(x), loss_of(net, x)
    net.train()
print(counters["stats"]["unique_graphs"], dict(counters["graph_break"]), len(get_compilation_metrics()))
"""


def test_a_look_makes_nothing_compile_again(tmp_path: Path) -> None:
    plain = attached(COMPILED, tmp_path, ["debug"])
    assert attached(COMPILED, tmp_path, acts=[]).out == plain.out
