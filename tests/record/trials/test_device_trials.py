"""Trials for devices, as far as a CPU can show them: torch says that a device is in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from kinetoscope.record.trials.expandable_segments import _variable  # noqa: E402
from kinetoscope.record.trials.pinned_memory import _goes_to_device  # noqa: E402
from tests.record.trials.attached import attached  # noqa: E402

PROGRAM = """
import torch
torch.cuda.is_available = torch.cuda.is_initialized = lambda: True
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.Flatten(), torch.nn.Linear(64, 2))
loader = torch.utils.data.DataLoader(torch.ones(8, 3, 4, 4), 4)
BEFORE
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for _ in range(2):
    net(torch.ones(2, 3, 4, 4)).square().mean().backward()
    optimizer.step()
AFTER
print(torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark)
"""

NAMES = ["tf32", "cudnn-benchmark", "pinned", "expandable-segments"]


def ran(folder: Path, before: str = "", after: str = "", *, acts: bool = True) -> Any:
    program = PROGRAM.replace("BEFORE", before).replace("AFTER", after)
    return attached(program, folder, NAMES, acts=["tf32", "cudnn-benchmark"] if acts else [])


def test_they_apply_where_a_device_is_used(tmp_path: Path) -> None:
    done = ran(tmp_path)
    assert done.out.split() == ["high", "True"]
    assert done.said("tf32") == done.said("cudnn-benchmark") == (1, [], "")
    assert done.said("pinned") == (1, [], "")
    assert done.lines("pinned") == [5]
    assert done.lines("tf32") == done.lines("cudnn-benchmark") == []
    looked = ran(tmp_path, acts=False)
    assert looked.out.split() == ["highest", "False"]
    assert {name: looked.said(name) for name in NAMES} == dict.fromkeys(NAMES, (1, [], ""))
    facts = {"variable": "PYTORCH_ALLOC_CONF", "settings": "expandable_segments:True"}
    assert looked.notes["expandable-segments"]["facts"] == facts


def test_what_the_program_sets_itself_stays(tmp_path: Path) -> None:
    own = 'torch.set_float32_matmul_precision("medium"); torch.backends.cudnn.deterministic = True'
    done = ran(tmp_path, own)
    assert done.out.split()[0] == "medium"
    assert done.said("tf32")[:2] == (0, ["the program sets the precision of products itself"])
    assert done.said("cudnn-benchmark")[:2] == (0, ["the program asks for the same results each time"])
    newer = 'torch.backends.cuda.matmul.fp32_precision = "tf32"'
    looked = ran(tmp_path, newer, "torch.get_float32_matmul_precision = lambda: ''", acts=False)
    assert looked.said("tf32")[:2] == (0, ["the program sets the precision of products itself"])


def test_what_is_undone_is_not_in_effect(tmp_path: Path) -> None:
    undone = 'torch.set_float32_matmul_precision("highest"); torch.backends.cudnn.benchmark = False'
    done = ran(tmp_path, after=undone)
    assert done.said("tf32")[2] == "the program sets the precision of products itself"
    assert done.said("cudnn-benchmark")[2] == "the program has switched it off"


def test_the_users_settings_of_the_allocator_stay(tmp_path: Path) -> None:
    for given, why, settings in (
        ("max_split_size_mb:64", "this torch has no such setting", "max_split_size_mb:64,expandable_segments:True"),
        ("expandable_segments:False", "the user has chosen how segments grow", None),
        ("backend:cudaMallocAsync", "the driver's allocator is used", None),
    ):
        before = f'import os\nos.environ["PYTORCH_ALLOC_CONF"] = {given!r}\n'
        done = attached("import torch", tmp_path, ["expandable-segments"], before=before)
        assert done.said("expandable-segments") == (0, [why], "")
        if settings:
            assert done.notes["expandable-segments"]["facts"]["settings"] == settings


@pytest.mark.parametrize(
    ("version", "name"), [("2.8.0", "PYTORCH_CUDA_ALLOC_CONF"), ("2.13.0+cpu", "PYTORCH_ALLOC_CONF")]
)
def test_the_variable_of_the_allocator(version: str, name: str) -> None:
    assert _variable(version) == name


@pytest.mark.parametrize(
    ("call", "args", "kwargs", "goes"),
    [
        ("cuda", (), {}, True),
        ("to", ("cuda:1",), {}, True),
        ("to", (0,), {}, True),
        ("to", (), {"device": torch.device("cuda")}, True),
        ("to", ("cpu",), {}, False),
        ("to", (torch.float16,), {}, False),
        ("to", (torch.ones(1),), {}, False),
        ("to", (), {"dtype": torch.float16}, False),
    ],
)
def test_which_copies_go_to_a_device(call: str, args: tuple[Any, ...], kwargs: dict[str, Any], goes: bool) -> None:
    assert _goes_to_device(call, args, kwargs) is goes
