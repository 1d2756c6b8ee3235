"""How the edits of trials come out: the patched program parses, and does what is said."""

from __future__ import annotations

import ast
import runpy
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.compare.trials.patch import Applied, Patch, in_words, patch_of
from kinetoscope.record.trials import ours
from kinetoscope.record.trials.trial import Edit

EDITS = {trial.name: trial.edit for trial in ours()}


def patched(
    folder: Path, source: str, *changes: tuple[str | Edit, Sequence[int], Mapping[str, Any]]
) -> tuple[str, Patch]:
    """The program after `git apply` of the patch of these changes, and the patch."""
    file = folder / "train.py"
    file.write_text(source, newline="")
    applied = [
        Applied(
            edit=EDITS[name] if isinstance(name, str) else name, facts=facts, places=[(str(file), at) for at in lines]
        )
        for name, lines, facts in changes
    ]
    patch = patch_of(applied, program=str(file), root=folder)
    if patch.diff:
        subprocess.run(["git", "apply", "-"], input=patch.text.encode(), cwd=folder, check=True)
    with file.open(newline="") as text:
        after = text.read()
    ast.parse(after)
    return after, patch


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Loader(data)", "Loader(data, num_workers=2, persistent_workers=True)"),
        ("Loader(data, 4, False, None, None, 0)", "Loader(data, 4, False, None, None, 2, persistent_workers=True)"),
        ("Loader(data, num_workers=0,)", "Loader(data, num_workers=2, persistent_workers=True,)"),
        ("Loader()", "Loader(num_workers=2, persistent_workers=True)"),
        ("Loader((data))", "Loader((data), num_workers=2, persistent_workers=True)"),
        ("Loader(x for x in data)", "Loader((x for x in data), num_workers=2, persistent_workers=True)"),
        ("Loader(\n  data,  # (yes)\n)", "Loader(\n  data, num_workers=2, persistent_workers=True,  # (yes)\n)"),
        ("lib.Loader(make(data), 'ü')", "lib.Loader(make(data), 'ü', num_workers=2, persistent_workers=True)"),
        ("'ü', Loader(data)", "'ü', Loader(data, num_workers=2, persistent_workers=True)"),
    ],
)  # fmt: skip
def test_arguments_are_added_or_replaced(tmp_path: Path, before: str, after: str) -> None:
    edit = Edit(
        calls=("Loader",),
        keywords={"num_workers": "{workers}", "persistent_workers": "True"},
        positional=("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers"),
    )
    text, patch = patched(tmp_path, f"x = {before}\n", (edit, [1], {"workers": 2}))
    assert text == f"x = {after}\n"
    assert not patch.by_hand


@pytest.mark.parametrize(
    "call", ["print(data)", "Loader(*given)", "Loader(data, **given)", "Loader(Loader(data))", "other()[0](1)(2)"]
)
def test_what_is_not_sure_is_left_to_the_user(tmp_path: Path, call: str) -> None:
    edit = Edit(calls=("Loader",), keywords={"workers": "2"}, positional=("data", "workers"))
    text, patch = patched(tmp_path, f"x = {call}\n", (edit, [1], {}))
    assert text == f"x = {call}\n"
    assert len(patch.by_hand) == 1
    assert patch.by_hand[0].startswith("give the call workers=2 (train.py: ")


def test_the_class_may_have_another_name_in_the_program(tmp_path: Path) -> None:
    source = "from lib import DataLoader as DL\nclass Mine(DL):\n    pass\nx = Mine(make(1))\n"
    text, _ = patched(tmp_path, source, ("pinned", [4], {}))
    assert text.endswith("x = Mine(make(1), pin_memory=True)\n")


def test_changes_of_one_call_come_together(tmp_path: Path) -> None:
    source = "import torch\nloader = DataLoader(data, 4)\nfor x in loader:\n    x = x.to(device)\n"
    workers = ("workers", [2], {"workers": 3})
    text, _ = patched(tmp_path, source, workers, ("pinned", [2, 4], {}), ("batch-size", [2], {}))
    assert text == (
        "import torch\nloader = DataLoader(data, 2 * 4, num_workers=3, persistent_workers=True, prefetch_factor=4, "
        "pin_memory=True)\nfor x in loader:\n    x = x.to(device, non_blocking=True)\n"
    )
    text, patch = patched(tmp_path, "x = DataLoader(data)\n", ("batch-size", [1], {}))
    assert patch.by_hand == ("give the DataLoader twice its batch_size (train.py: batch_size is not given)",)


FAULTY = '''"""A program."""
from contextlib import nullcontext
from torch import optim
import torch.nn as nn

torch_like = None
def main():
    net = nn.Linear(2, 2).to("cpu")
    torch_like.autograd.set_detect_anomaly(True)
    optimizer = optim.AdamW((p for p in net.parameters()), foreach=False)
    with detect_anomaly():
        out = net(
            """a text
            of two lines"""
        )
    optimizer.zero_grad(False)
    torch_like.set_num_threads(64)
    return out
'''


def test_statements_go_are_wrapped_and_come(tmp_path: Path) -> None:
    facts = {"module": "Linear", "inner": "", "device": "cpu", "threads": 2}
    text, patch = patched(
        tmp_path, FAULTY,
        ("anomaly", [9, 11], {}), ("fused", [10], {}), ("bf16", [12], facts), ("compile", [12], facts),
        ("set-to-none", [16], {}), ("threads", [17], facts), ("garbage", [], {}),
    )  # fmt: skip
    assert not patch.by_hand
    lines = text.splitlines()
    start = lines.index("def main():")
    assert lines[:4] == FAULTY.splitlines()[:4]
    assert {"import torch", "import gc", "register_optimizer_step_post_hook(_collect_garbage)"} <= set(lines[4:start])
    assert (
        "\n".join(lines[start:])
        == '''def main():
    net = nn.Linear(2, 2).to("cpu")
    net.forward = torch.compile(net.forward)
    optimizer = optim.AdamW((p for p in net.parameters()), fused=True)
    with torch.autograd.set_detect_anomaly(False):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = net(
                """a text
            of two lines"""
            )
    optimizer.zero_grad(True)
    torch_like.set_num_threads(2)
    return out'''
    )


def test_the_patched_program_does_what_is_said(tmp_path: Path) -> None:
    source = (
        "calls = []\ndef zero_grad(*args, **named):\n    calls.append((args, named))\nzero_grad(set_to_none=False)\n"
    )
    text, _ = patched(tmp_path, source, ("set-to-none", [4], {}))
    assert "True" in text
    assert runpy.run_path(str(tmp_path / "train.py"))["calls"] == [((), {"set_to_none": True})]


def test_two_contexts_of_one_statement(tmp_path: Path) -> None:
    facts = {"device": "cpu"}
    source = "import torch\nif net:\n\ty = net(x); z = 1\n\tw = net(x)\n"
    text, patch = patched(tmp_path, source, ("bf16", [4], facts), ("no-grad", [4], facts))
    assert text.endswith(
        "\tw = net(x)\n".replace("\tw", '\twith torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():\n\t\tw')
    )
    _, patch = patched(tmp_path, source, ("no-grad", [3], facts))
    assert patch.by_hand == ("evaluate within `with torch.no_grad():` (train.py: line 3 has several statements)",)


def test_a_model_in_a_wrapper(tmp_path: Path) -> None:
    source = "import torch\nmodel = Net()\nmodel = DDP(model)\nloss(model(x), y)\n".replace(
        "import torch\n", "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
    )
    facts = {"module": "DistributedDataParallel", "inner": ".module"}
    text, _ = patched(tmp_path, source, ("compile", [5], facts))
    assert "model = DDP(model)\nmodel.module.forward = torch.compile(model.module.forward)\nloss(" in text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_files_as_people_write_them(tmp_path: Path, newline: str) -> None:
    source = f"import torch{newline}torch.set_num_threads(9)  # ü\x0c{newline}x = 1"
    text, _ = patched(tmp_path, source, ("threads", [2], {"threads": 1}), ("tf32", [], {}))
    added = f'torch.set_float32_matmul_precision("high"){newline}'
    assert text == f"import torch{newline}{added}torch.set_num_threads(1)  # ü\x0c{newline}x = 1"


def test_settings_and_what_is_done_by_hand(tmp_path: Path) -> None:
    facts = {"variable": "PYTORCH_ALLOC_CONF", "settings": "expandable_segments:True"}
    _, patch = patched(
        tmp_path, "x = 1\n", ("expandable-segments", [], facts), ("debug", [], {"variables": "CUDA_LAUNCH_BLOCKING"}),
        ("workers", [], {"workers": 2}), ("workers", [1], {"workers": 2}),
    )  # fmt: skip
    assert patch.settings == ("export PYTORCH_ALLOC_CONF=expandable_segments:True",)
    words = in_words(EDITS["workers"], {"workers": 2})
    assert patch.by_hand == (
        "start the program without CUDA_LAUNCH_BLOCKING in its environment",
        f"{words} (its place in the program is not known)",
        f"{words} (train.py: line 1 has no calls that may be meant)",
    )
    gone = patch_of([Applied(edit=EDITS["workers"], facts={"workers": 2}, places=[(str(tmp_path / "none.py"), 1)])])
    assert gone.by_hand == (f"{words} (none.py: No such file or directory)",)
    assert not gone.diff


def test_each_edit_has_words() -> None:
    for trial in ours():
        assert len(in_words(trial.edit, {})) > 10
