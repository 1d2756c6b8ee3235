"""Trees of calls: the callers and callees of one, and two runs as one tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.blocks import IcicleBlock, NoteBlock, Page, RowsBlock
from kinetoscope.pages.compare import page as compare
from kinetoscope.pages.flame import flame
from tests import drawn
from tests.catalog.samples import everywhere, job_of
from tests.compare.drawing import call, loop
from tests.drawn import op, python


def levels(picture: IcicleBlock) -> list[tuple[str, str, float]]:
    """The nodes of a picture: the name of the parent, its own, its value."""
    names = ["", *picture.name]
    nodes = zip(picture.parent, picture.name, picture.value, strict=True)
    return [(names[parent + 1], name, value) for parent, name, value in nodes]


def pictures(job: Job, chosen: str) -> dict[str, IcicleBlock]:
    blocks = flame(job, ALL, weight="host", chosen=chosen)
    return {block.title: block for block in blocks if isinstance(block, IcicleBlock)}


def test_callers_and_callees_of_a_name_at_several_places(tmp_path: Path) -> None:
    job = drawn.job(
        tmp_path,
        python("train", 0, 100),
        op("forward", 0, 60),
        op("norm", 0, 20),
        op("mul", 5, 10),
        op("backward", 60, 40),
        op("norm", 60, 30),
    )
    drawn_of = pictures(job, "norm")
    callers, callees = drawn_of["Callers"], drawn_of["Callees"]
    assert callers.upward
    assert levels(callers) == [
        ("", "norm", 50),
        ("norm", "backward", 30),
        ("norm", "forward", 20),
        ("backward", "train", 30),
        ("forward", "train", 20),
    ]
    assert levels(callees) == [("", "norm", 50), ("norm", "mul", 10)]


def test_of_a_name_inside_itself_the_outer_one_counts(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, op("a", 0, 100), op("walk", 10, 80), op("walk", 20, 50), op("leaf", 30, 10))
    drawn_of = pictures(job, "walk")
    assert levels(drawn_of["Callers"]) == [("", "walk", 80), ("walk", "a", 80)]
    assert levels(drawn_of["Callees"]) == [("", "walk", 80), ("walk", "walk", 50), ("walk", "leaf", 10)]


def test_a_name_that_is_not_there_is_said(tmp_path: Path) -> None:
    note = next(iter(flame(drawn.job(tmp_path, op("a", 0, 9)), ALL, weight="host", chosen="b")))
    assert isinstance(note, NoteBlock)
    assert note.text == "No call is named `b` here."


@pytest.mark.parametrize("name", everywhere())
def test_what_calls_a_name_and_what_it_calls_take_as_long(name: str) -> None:
    job = job_of(name)
    whole = pictures(job, "")["From the program down to the kernel"]
    for chosen in whole.name[:40:13]:
        both = pictures(job, chosen)
        roots = [
            sum(v for p, v in zip(b.parent, b.value, strict=True) if p < 0) for b in (both["Callers"], both["Callees"])
        ]
        assert roots[0] == roots[1] > 0


# --- two runs


def runs(folder: Path) -> tuple[Job, Job]:
    """Of a step of 1000: `mm` with its kernel becomes longer, `gelu` becomes `relu`, which is shorter."""
    before = [*call("mm", 0, 100, "gemm", 20, 300, 1), *call("gelu", 400, 50, "tanh", 420, 100, 2)]
    now = [*call("mm", 0, 100, "gemm", 20, 500, 1), *call("relu", 600, 50, "max", 620, 40, 2)]
    return loop(folder, *[before] * 3, name="before"), loop(folder, *[now] * 4, name="now")


def tree(page: Page) -> dict[str, tuple[float, float]]:
    picture = next(block for block in page.blocks if isinstance(block, IcicleBlock))
    return dict(zip(picture.name, zip(picture.value, picture.other, strict=True), strict=True))


def test_the_tree_of_two_runs_has_the_time_of_both_in_a_mean_step(tmp_path: Path) -> None:
    base, new = runs(tmp_path)
    device = tree(compare(new, ALL, {"time": "device"}, base=base))
    assert device.pop("ProfilerStep*") == (540, 400)
    assert device == {"mm": (500, 300), "gemm": (500, 300), "relu": (40, 0), "max": (40, 0)}
    before = tree(compare(new, ALL, {"time": "device", "width": "before"}, base=base))
    assert before.pop("ProfilerStep*") == (400, 540)
    assert before == {"mm": (300, 500), "gemm": (300, 500), "gelu": (100, 0), "tanh": (100, 0)}
    kernels = tree(compare(new, ALL, {"time": "device", "frames": "modules"}, base=base))
    assert kernels["gemm"] == (500.0, 300.0)
    with pytest.raises(UsageError, match="time is 'night'"):
        compare(new, ALL, {"time": "night"}, base=base)


def test_the_tree_of_the_step_is_as_wide_as_the_step(tmp_path: Path) -> None:
    base, new = runs(tmp_path)
    page = compare(new, ALL, {}, base=base)
    picture = next(block for block in page.blocks if isinstance(block, IcicleBlock))
    assert sum(value for value, parent in zip(picture.value, picture.parent, strict=True) if parent < 0) == 1000


def test_changes_by_module_sum_to_the_change_of_the_step(tmp_path: Path) -> None:
    def step(length: int) -> list[drawn.Event]:
        inside = call("mm", 10, 100, "gemm", 40, length, 1)
        return [python("nn.Module: Model_0", 0, 900), python("nn.Module: Linear_3", 5, 200), *inside]

    base, new = loop(tmp_path, *[step(200)] * 3, name="before"), loop(tmp_path, *[step(300)] * 3, name="now")
    page = compare(new, ALL, {}, base=base)
    rows = next(
        block for block in page.blocks if isinstance(block, RowsBlock) and block.title == "What changed by module"
    ).rows
    changes = {row[0]: row[3] for row in rows}
    assert changes["Linear"] == 100
    assert sum(changes.values()) == 0  # both steps take 1000: what the kernel takes more, nothing recorded takes less


def test_steps_of_different_programs_are_no_gain(tmp_path: Path) -> None:
    def of(name: str, length: int, *modules: str) -> Job:
        step = [python(f"nn.Module: {each}_0", 10 * at, 5) for at, each in enumerate(modules)]
        return loop(tmp_path, *[[*step, *call("aten::mm", 100, 50, "gemm", 120, length, 1)]] * 3, name=name)

    one, other = of("chat", 200, "Attention", "MLP", "Embedding"), of("vision", 600, "Conv2d", "BatchNorm2d", "Stem")
    sentence = compare(other, ALL, {}, base=one).sentence
    assert sentence.startswith("These are different programs: a step of the first takes ")
    assert "different programs" not in compare(of("again", 600, "Attention", "MLP"), ALL, {}, base=one).sentence


def test_what_differs_beside_the_speed_is_said_first(tmp_path: Path) -> None:
    def on(device: str, *names: str) -> Job:
        properties = [{"id": 0, "name": device}]
        step = [
            each
            for place, name in enumerate(names)
            for each in call(name, 100 * place, 50, f"k_{name}", 100 * place + 20, 9, place + 1)
        ]
        return loop(tmp_path, *[step] * 3, name=device, deviceProperties=properties)

    one, other = on("A100", *"abcdef"), on("H100", *"uvwxyz")
    page = compare(other, ALL, {}, base=one)
    [note] = [each for each in page.blocks if isinstance(each, NoteBlock)]
    assert note.alert
    assert note.text.splitlines() == [
        "They are of different programs: 0 of 12 names of their operators are in both.",
        "The device was `A100`; now it is `H100`.",
    ]
    assert not any(isinstance(each, NoteBlock) for each in compare(one, ALL, {}, base=one).blocks)
