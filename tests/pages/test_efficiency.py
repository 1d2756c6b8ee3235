"""Device efficiency: the parts of the device time sum to it, and what its reader chooses is what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages import named
from kinetoscope.pages.blocks import BarsBlock, Page, PartsBlock, RooflineBlock, TableBlock
from tests import drawn
from tests.analyses.test_roofline import A100, call, product


def job(folder: Path) -> Job:
    """A product that arithmetic bounds, a multiplication that memory bounds, and a small one of a shape of its own."""
    n = 64 << 20
    events = [
        *product(100, 4096, 1_000_000),
        *call("aten::mul", 300, [[n], [n]], 400_000),
        *call("aten::mul", 500, [[1000], [1000]], 2_000),
        *call("my::op", 700, [[1000]], 50_000),
    ]
    return drawn.job(folder, *events, deviceProperties=[A100])


def page(of: Job, view: str = "efficiency", **params: str) -> Page:
    return named(view).page(of, ALL, params)


def block(of: Page, kind: type) -> Any:
    return next(each for each in of.blocks if isinstance(each, kind))


def test_the_parts_sum_to_the_device_time(tmp_path: Path) -> None:
    parts = block(page(job(tmp_path)), PartsBlock).parts
    assert sum(part.value for part in parts) == 1_452_000
    assert [part.kind for part in parts] == ["computation", *["waiting"] * (len(parts) - 2), "idle"]
    reasons = parts[1:-1]
    assert [part.value for part in reasons] == sorted((part.value for part in reasons), reverse=True)
    assert [part.shade for part in reasons] == sorted((part.shade for part in reasons), reverse=True)
    assert parts[-1].value == 50_000, "what has no formula"
    assert reasons[-1].label == "Other reasons"
    assert reasons[-1].doc == "Small kernels: less than 1% each."
    assert page(job(tmp_path)).sentence.replace("\u00a0", " ") == (
        "Device work takes 1.45 ms, and would take 0.638 ms at the limits of the device (formulas cover 96.6%)."
    )


def test_the_overview_has_them_of_an_average_step(tmp_path: Path) -> None:
    overview = page(job(tmp_path), "overview")
    ribbon = next(each for each in overview.blocks if isinstance(each, PartsBlock) and "limits" in each.title)
    assert sum(part.value for part in ribbon.parts) == 1_452_000
    assert {part.link.view for part in ribbon.parts if part.link} == {"efficiency"}


def test_a_point_for_each_row_that_has_a_limit(tmp_path: Path) -> None:
    roofline = block(page(job(tmp_path)), RooflineBlock)
    assert [roofline.texts[at] for at in roofline.name] == ["aten::mm", "aten::mul", "aten::mul"]
    assert [roofline.texts[at] for at in roofline.kind] == ["computation", "memory", "runtime"]
    assert roofline.texts[roofline.detail[0]] == "[[4096, 4096], [4096, 4096]] · BF16"
    assert roofline.note == "3.44% of the time has no point: nothing tells its FLOPs and bytes"


def test_what_was_measured_of_the_device_is_drawn_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "peaks.toml"
    file.write_text('["NVIDIA A100-SXM4-80GB".attainable]\nbf16 = 2.5e14\nmemory = 1.8e12\n')
    monkeypatch.setenv("KINETOSCOPE_PEAKS", str(file))
    (folder := tmp_path / "run").mkdir()
    roofs = block(page(job(folder)), RooflineBlock).roofs
    labels = [label.replace("\u00a0", " ") for label, *_, is_measured in roofs if is_measured]
    assert labels == ["measured: memory 1.80 TB/s", "measured: BF16 250 TFLOP/s"]


def test_what_is_chosen_holds_in_picture_and_table(tmp_path: Path) -> None:
    of = job(tmp_path)
    bound = page(of, bound="memory")
    assert len(block(bound, RooflineBlock).time) == 1
    assert block(bound, TableBlock).filter == "bound:eq:memory"
    assert [part.link.params for part in block(bound, RooflineBlock).parts] == [{"bound": "any"}], "the key leads back"
    name = page(of, name="aten::mul")
    assert block(name, RooflineBlock).chosen == "aten::mul"
    assert block(name, TableBlock).filter == "name:eq:aten::mul"
    assert [bar.name for bar in block(name, BarsBlock).bars if bar.chosen] == ["aten::mul"]
    with pytest.raises(UsageError, match="bound is 'x'"):
        page(of, bound="x")


@pytest.mark.parametrize(("by", "points"), [("op", 3), ("kernel", 2), ("category", 2), ("step", 1), ("module", 1)])
def test_rows_of_every_kind_have_points(tmp_path: Path, by: str, points: int) -> None:
    assert len(block(page(job(tmp_path), by=by), RooflineBlock).time) == points


def test_without_device_work_it_says_so(tmp_path: Path) -> None:
    of = drawn.job(tmp_path, drawn.op("aten::mm", 0, 28))
    assert page(of).sentence.startswith("No device work was recorded")
    assert page(of).blocks == ()
    assert not any("limits" in each.title for each in page(of, "overview").blocks if isinstance(each, PartsBlock))
