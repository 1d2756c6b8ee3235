"""Each trial where it applies, and where it must not; alone and with all others."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from tests.record.trials.attached import attached  # noqa: E402

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
