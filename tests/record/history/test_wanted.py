"""A program whose steps become slower is recorded there, and what is deleted of it leaves its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinetoscope.model.history.history import history
from kinetoscope.model.history.spikes import spike_events
from kinetoscope.model.history.windows import windows_of
from kinetoscope.outputs.window_summary import window_numbers
from kinetoscope.readers.history.files import window_files
from kinetoscope.readers.history.history import read_history
from kinetoscope.record.history.layout import WINDOW_ENDING
from tests.record.processes import run
from tests.record.programs import kinetoscope, python, sidecars

pytestmark = pytest.mark.torch

SLOWER = """
import time, torch
torch.set_num_threads(1)
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
class Images(torch.utils.data.Dataset):
    def __len__(self): return 700
    def __getitem__(self, index):
        time.sleep(0.004)
        if index >= 400:
            torch.rand(200_000).sort()
        return torch.ones(8)
for batch in torch.utils.data.DataLoader(Images(), batch_size=1):
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()
"""


def test_the_window_of_a_change_is_opened_soon_and_says_why(tmp_path: Path) -> None:
    options = ("--every", "150", "--budget", "60%", "--keep", "1")
    done = run(kinetoscope("record", "-o", tmp_path, *options, "--", *python(SLOWER)))
    assert done.returncode == 0, done.stderr
    tables = read_history(tmp_path)
    windows = tables.marks.filter(kind="window")
    (first, *_) = [row for row in windows.rows(named=True) if row["reason"].startswith("steps take ")]
    assert 400 < first["step"] < 550
    assert "longer from step " in first["reason"]
    assert ": data " in first["reason"]
    reasons = {each["first_step"]: each["reason"] for each in sidecars(tmp_path)}
    assert len(reasons) <= 3
    assert all(reasons[row["step"]] == row["reason"] for row in windows.rows(named=True) if row["step"] in reasons)

    files = window_files(tmp_path)
    left = [each for each in files.values() if each.name.endswith(WINDOW_ENDING)]
    assert len(left) + len(reasons) == len(windows)
    assert left
    for each in left:
        assert each.stat().st_size < 50_000
        assert json.loads(each.read_text())["summary"]["sentence"].startswith("A step takes ")
    answers = history([tables.steps], tables.marks)
    assert answers.run is not None
    shown = windows_of(
        tables.marks,
        answers.changes.frame,
        answers.spikes.frame,
        spike_events(answers.run),
        lambda name: window_numbers(files[name]) if name in files else None,
    ).drop_nulls("change")
    (change,) = [row["number"] for row in answers.changes if row["step"] in range(395, 406)]
    (row,) = shown.filter(change=change).rows(named=True)
    assert row["step"] > 400
    assert row["shows"] == "aten::sort"
