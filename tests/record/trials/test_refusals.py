"""Programs to which changes must not be made, and the reason that each gives."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

from tests.record.trials.attached import attached  # noqa: E402

LOADERS = """
import threading, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset
class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(4))
class Items(Dataset):
    def __init__(self, **held):
        self.__dict__.update(held)
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return index
loaders = [
    DataLoader(Stream()), DataLoader(Items(), num_workers=64),
    DataLoader(Items(file=open(__file__))),
    DataLoader(Subset(Items(lock=threading.Lock()), [1, 2])), DataLoader(Items(), batch_size=None),
    DataLoader(Items(), batch_sampler=[[1], [2]]), DataLoader(Items(), 5), DataLoader(Items(), 2, pin_memory=True),
]
class Wild(Items):
    def __init__(self):
        pass
    def __getattribute__(self, name):
        if name == "__dict__":
            raise RuntimeError("never look at me")
        return super().__getattribute__(name)
loaders.append(DataLoader(Wild(), 4))
assert len(list(loaders[0])) == 2 and loaders[0].num_workers == 0
try:
    DataLoader(Items(), nothing=1)
except TypeError as error:
    print(error)
print([each.batch_size for each in loaders])
"""


def test_loaders(tmp_path: Path) -> None:
    done = attached(
        LOADERS,
        tmp_path,
        ["workers", "batch-size", "pinned", "persistent-workers"],
        acts=["workers", "batch-size", "persistent-workers"],
    )
    refused = done.notes["workers"]["refused"]
    assert set(refused) == {
        "an iterable data set may repeat its data in each worker",
        "the loader has 64 workers already",
        "the data set holds an open file, of which all workers would move the position",
        "the data set holds a lock, which each worker would have for itself",
        "it cannot be looked at: RuntimeError('never look at me')",
    }
    assert set(done.notes["batch-size"]["refused"]) == {
        "a sampler of the program makes the batches",
        "the data set makes the batches",
        "the data set holds less than such a batch",
    }
    assert done.said("persistent-workers") == (1, ["the loader has no workers"], "")
    assert "the loader pins its batches already" in done.notes["pinned"]["refused"]
    assert "unexpected keyword argument 'nothing'" in done.out
    assert "[2, 2, 2, 2, None, None, 5, 4, 8]" in done.out


OPTIMIZERS = """
import torch
from torch.optim import SGD, Adagrad, Adam, AdamW
def parameters(dtype=torch.float32):
    return [torch.nn.Parameter(torch.ones(3, dtype=dtype))]
class Own(Adam):
    def step(self, closure=None):
        return None
class Named(AdamW):
    def __init__(self, params):
        super().__init__(params, lr=0.1)
made = [
    Adam(parameters(), fused=True), Adam(parameters(), capturable=False, differentiable=True), Own(parameters()),
    SGD(parameters(torch.complex64)), Adam([{"params": parameters(), "foreach": True}]),
    SGD((each for each in parameters()), 0.1, momentum=0.9), Adagrad(parameters(), foreach=True), Named(parameters()),
    AdamW([{"params": iter(parameters()), "lr": 1.0}, {"params": parameters()[0]}], foreach=True),
    Adam([("a", each) for each in parameters()]), torch.optim.RMSprop(parameters()),
]
for optimizer in made[4:]:
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
    optimizer.step()
    optimizer.step(lambda: torch.zeros(()))
print([bool(each.param_groups[0].get("fused")) for each in made])
for wrong in ([], torch.ones(2)):
    try:
        Adam(wrong)
    except (ValueError, TypeError) as error:
        print(str(error)[:30])
"""


def test_optimizers(tmp_path: Path) -> None:
    done = attached(OPTIMIZERS, tmp_path, ["fused"])
    assert done.out.splitlines()[0] == str([True, False, False, False, False, True, True, True, True, True, False])
    assert done.said("fused") == (
        7,  # with those that the program makes wrongly
        [
            "the optimizer is fused already",
            "the optimizer is differentiable",
            "the optimizer has a step of its own",
            "some parameters are complex",
            "a group of parameters says itself how it is updated",
        ],
        "",
    )
    plain = attached(OPTIMIZERS, tmp_path, ["fused"], acts=[])
    assert plain.out.splitlines()[1:] == done.out.splitlines()[1:]


MODELS = """
import copy, pickle, torch
kind = __import__("sys").argv[0] and KIND
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.Flatten(), torch.nn.Linear(64, 2))
model = {
    "plain": lambda: net, "half": lambda: net.to(torch.bfloat16), "cast": lambda: net,
    "compiled": lambda: torch.compile(net, backend="eager"), "scripted": lambda: torch.jit.script(net),
    "laid out": lambda: net.to(memory_format=torch.channels_last),
    "without sizes": lambda: torch.nn.Sequential(torch.nn.LazyConv2d(4, 1), torch.nn.Flatten(), net[2]),
}[kind]()
optimizer = torch.optim.SGD(net.parameters(), 0.01)
x = torch.ones(2, 3, 4, 4, dtype=torch.bfloat16 if kind == "half" else torch.float32)
for _ in range(3):
    with torch.autocast("cpu", torch.bfloat16, enabled=kind == "cast"):
        loss = model(x).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if kind == "plain":
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin[2].weight.zero_(), twin[2].bias.zero_()
    assert twin(x).abs().sum() == 0 and net(x).abs().sum() > 0
    assert pickle.loads(pickle.dumps(net))(x).shape == (2, 2)
    assert "forward" not in net.state_dict()
"""

WHY: dict[str, list[list[str] | None]] = {
    "plain": [[], [], ["no convolution of pictures has weights in another layout"]],
    "half": [[], ["the model's parameters are not all in FP32"], None],
    "cast": [[], ["autocast is on already"], None],
    "compiled": [["the program compiles it, or a part of it, already"], [], None],
    "scripted": [["the model is a TorchScript module"], ["the model is a TorchScript module"], None],
    "without sizes": [[], [], ["the sizes of its weights are not known before its first call"]],
    "laid out": [[], [], ["no convolution of pictures has weights in another layout"]],
}


@pytest.mark.parametrize("kind", WHY)
def test_models(tmp_path: Path, kind: str) -> None:
    names = ["compile", "bf16", "channels-last"]
    done = attached(MODELS.replace("KIND", repr(kind)), tmp_path, names, acts=["bf16", "channels-last", "compile"])
    for name, why in zip(names, WHY[kind], strict=True):
        if why is not None:
            assert done.said(name)[1] == why
            assert bool(done.said(name)[0]) != bool(why)
            assert not done.said(name)[2]


EVALUATION = """
import torch
def net():
    return torch.nn.Linear(4, 4)
student, teacher, frozen, guided, unused = net(), net(), net(), net(), net()
frozen.eval(), teacher.eval(), guided.eval(), unused.eval()
optimizer = torch.optim.SGD([*student.parameters(), *frozen.parameters()], 0.01)
x = torch.ones(2, 4)
for step in range(6):
    aim = teacher(x).detach(); out = frozen(student(x))
    (out - aim).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    seen = x.clone().requires_grad_()
    guided(seen).sum().backward()
    assert seen.grad is not None and out.requires_grad
    for each in (unused, teacher):
        print(each(x).requires_grad, end=" ")
    with torch.no_grad():
        unused(x)
scripted = torch.jit.script(unused)
print(scripted(x).requires_grad, unused(x).requires_grad)
"""


def test_modules_in_evaluation(tmp_path: Path) -> None:
    done = attached(EVALUATION, tmp_path, ["no-grad"])
    assert done.out.split() == ["True", "True", "True", "False", *["False"] * 8, "True", "True"]
    count, refused, _ = done.said("no-grad")
    assert refused == ["gradients go through a module in evaluation"]
    assert done.notes["no-grad"]["refused"][refused[0]] == 2
    assert count == 4 + 10  # the first two calls of each are only looked at
    assert done.lines("no-grad") == [EVALUATION.splitlines().index('        print(each(x).requires_grad, end=" ")') + 1]
    plain = attached(EVALUATION, tmp_path, ["no-grad"], acts=[])
    assert plain.out.split() == ["True"] * 14
    assert plain.said("no-grad")[0] == count


SETTINGS = """
import gc, os, torch
gc.disable()
os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
torch.set_num_threads(1)
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], 0.1)
optimizer.step()
print(os.environ.get("TORCH_DISTRIBUTED_DEBUG"), torch.distributed.get_debug_level().name, gc.isenabled())
"""


def test_settings(tmp_path: Path) -> None:
    names = ["garbage", "debug", "threads", "expandable-segments", "anomaly"]
    variables = 'import os\nos.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"\n'
    done = attached(SETTINGS, tmp_path, names, before=variables)
    assert done.out.split() == ["None", "OFF", "False"]
    assert done.said("garbage") == (0, ["the program has switched collection off"], "")
    assert done.said("debug") == (1, ["the program sets CUDA_LAUNCH_BLOCKING itself, after it has imported torch"], "")
    assert done.notes["debug"]["facts"] == {"variables": "TORCH_DISTRIBUTED_DEBUG"}
    assert done.said("threads")[0] == 0
    assert done.said("expandable-segments") == (0, ["this torch has no such setting"], "")
    assert done.said("anomaly") == (0, [], "")
