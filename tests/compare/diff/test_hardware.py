"""Two runs on different devices: what their peaks explain."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.compare.diff.diff import diff
from kinetoscope.compare.diff.hardware import OF_RANK, across_hardware, limits_of_rank, sentence
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages.answers.diff import of_diff
from kinetoscope.pages.compare import page
from kinetoscope.reading import read
from tests.compare.drawing import call, loop
from tests.drawn import Event

H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]
MI300X = [{"id": 0, "name": "AMD Instinct MI300X", "numSms": 304}]
BF16 = "c10::BFloat16"
MEMORY_RATIO = 3350 / 5300
"""H100 SXM to MI300X, in GB/s of the datasheets."""
PRODUCT_RATIO = 989.4 / 1307.4
"""In TFLOP/s of BF16."""

ADD = {"Input Dims": [[1 << 20], [1 << 20], []], "Input type": [BF16, BF16, "Scalar"]}
MM = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": [BF16, BF16]}


def run(folder: Path, device: list[dict[str, Any]], *events: list[Event]) -> Job:
    return loop(folder, *([[each for part in events for each in part]] * 3), deviceProperties=device)


def rows(base: Job, new: Job) -> dict[str, dict[str, Any]]:
    found = diff(base, new).hardware
    assert found is not None
    return {str(row["name"]): row for row in found.frame.to_dicts()}


def test_what_the_peaks_do_not_explain(tmp_path: Path) -> None:
    def events(add: int, product: int) -> list[list[Event]]:
        return [
            call("aten::add", 0, 50, "add", 100, add, 1, **ADD),
            call("aten::mm", 50, 50, "mm", 400, product, 2, **MM),
        ]

    base, new = run(tmp_path / "a", H100, *events(200, 300)), run(tmp_path / "b", MI300X, *events(200, 150))
    found = rows(base, new)
    # Times are drawn in nanoseconds: everything is far quicker than its floor, and only ratios count.
    add, product = found["aten::add"], found["aten::mm"]
    assert add["expected_ratio"] == pytest.approx(MEMORY_RATIO, rel=1e-3)
    assert product["expected_ratio"] == pytest.approx(PRODUCT_RATIO, rel=1e-3)
    assert add["unexplained"] == round(200 - 200 * add["expected_ratio"])
    assert product["unexplained"] == round(150 - 300 * product["expected_ratio"])
    assert product["ratio"] == 0.5
    assert product["new_efficiency"] / product["base_efficiency"] == pytest.approx(2 * PRODUCT_RATIO, rel=1e-3)
    difference = diff(base, new)
    assert difference.hardware is not None
    said = difference.hardware.sentence.replace("\N{NO-BREAK SPACE}", " ")
    assert said.startswith("MI300X instead of H100 SXM: device work takes 350 ns a step instead of 500 ns;")
    assert said in " ".join(str(difference).split())
    assert "instead of H100 SXM" in difference._repr_html_()
    written = of_diff(difference).to_markdown()
    assert "## By device" in written
    assert "| `aten::mm 4096×4096, 4096×4096` | 300 ns | 150 ns |" in written.replace("\N{NO-BREAK SPACE}", " ")
    titles = [getattr(block, "title", "") for block in page(new, ALL, {}, base=base).blocks]
    assert "What the hardware explains" in titles


def test_alike_devices_and_unknown_ones_have_no_such_table(tmp_path: Path) -> None:
    events = call("aten::add", 0, 50, "add", 100, 200, 1, **ADD)
    base = run(tmp_path / "a", H100, events)
    for device in (H100, [{"id": 0, "name": "Unheard Of"}], []):
        other = diff(base, run(tmp_path / "b", device, events))
        assert other.hardware is None
        assert "instead of" not in str(other)


def test_backends_of_an_operator_are_one(tmp_path: Path) -> None:
    image, weight, gradient = [8, 64, 56, 56], [64, 64, 3, 3], [8, 64, 56, 56]
    lists = ["[1, 1]"] * 3

    def backward(library: str) -> list[Event]:
        dims = [gradient, image, weight, *[[]] * 8]
        concrete = ["", "", "", "[0]", *lists, "False", "[0, 0]", "1", "[True, True, False]"]
        kinds = [BF16] * 3 + ["ScalarList"] * 4 + ["Scalar", "ScalarList", "Scalar", "ScalarList"]
        return call("aten::convolution_backward", 0, 40, f"{library}_bwd", 100, 90, 1,
                    **{"Input Dims": dims, "Input type": kinds, "Concrete Inputs": concrete})  # fmt: skip

    def norm(name: str, first: list[int], extra: list[Any]) -> list[Event]:
        dims = [first, first, *[[64]] * 5, *extra]
        return call(name, 50, 40, "bn", 300, 90, 2, **{"Input Dims": dims, "Input type": [BF16] * len(dims)})

    base = run(tmp_path / "a", H100, backward("cudnn"), norm("aten::cudnn_batch_norm_backward", image, [[], [17]]))
    new = run(tmp_path / "b", MI300X, backward("miopen"), norm("aten::native_batch_norm_backward", image, [[], []]))
    found = rows(base, new)
    assert set(found) == {"aten::convolution_backward", "aten::batch_norm_backward"}
    assert all(row["base_calls"] == row["new_calls"] == 1 for row in found.values())


def test_shapes_that_one_run_only_has_are_one_row_of_their_operator(tmp_path: Path) -> None:
    half = {**ADD, "Input Dims": [[1 << 19], [1 << 19], []]}
    base = run(tmp_path / "a", H100, call("aten::add", 0, 50, "add", 100, 200, 1, **ADD))
    new = run(tmp_path / "b", MI300X, call("aten::add", 0, 50, "add", 100, 200, 1, **half))
    row = rows(base, new)["aten::add"]
    assert row["input_shapes"] is None
    assert row["expected_ratio"] == pytest.approx(MEMORY_RATIO / 2, rel=1e-3)


def side(name: str | None = "aten::add", time: int = 100, covered: int = 100, limit: float = 10.0) -> pl.DataFrame:
    row = {"rank": 0, "products": "A", "name": name, "input_shapes": "[[8]]", "key": "[8]", "calls": 1, "time": time,
           "covered": covered, "floor": limit, "limit": limit}  # fmt: skip
    return pl.DataFrame([row], schema=OF_RANK.types)


@pytest.mark.parametrize(
    "unknown", [side(covered=80), side(name=None), side(covered=0, limit=0.0), side(name="aten::mul")]
)
def test_nothing_is_expected_of_what_has_no_floor(unknown: pl.DataFrame) -> None:
    for base, new in ((unknown, side()), (side(), unknown)):
        frame = across_hardware(base, new, (1, 1))
        assert frame["unexplained"].null_count() == len(frame)
        assert sentence(frame, "A", "B").endswith("no operator with a floor is in both runs.")


def test_little_that_can_be_compared_is_no_answer() -> None:
    other = side(name="aten::mul", time=900, covered=900)
    frame = across_hardware(pl.concat([side(), other]), side(), (1, 1))
    assert sentence(frame, "A", "B").endswith("only 10.0% of it is of operators that can be compared.")


def test_the_parts_are_means_of_steps() -> None:
    frame = across_hardware(side(time=400, covered=400, limit=40.0), side(time=90, covered=90, limit=5.0), (4, 1))
    [row] = frame.to_dicts()
    assert (row["base_time"], row["new_time"], row["expected_time"], row["unexplained"]) == (100, 90, 50, 40)
    assert (row["base_calls"], row["new_calls"]) == (0.25, 1.0)


MEASURED_US = {
    "[[16, 5185, 5185]]": ("aten::softmax", 1280.821),
    "[[16, 5185, 64], [16, 64, 5185]]": ("aten::bmm", 337.169),
    "[[16, 5185, 5185], [16, 5185, 64]]": ("aten::bmm", 458.803),
    "[[1, 5185, 1024], [1024, 1024], [1024]]": ("aten::linear", 31.679),
    "[[1, 5185, 4096], [1024, 4096], [1024]]": ("aten::linear", 101.588),
    "[[1, 5185, 1024], [4096, 1024], [4096]]": ("aten::linear", 96.561),
    "[[1, 5185, 1024], [1024], [1024]]": ("aten::layer_norm", 20.362),
}
"""Device time of a call on MI300X, as TraceLens' table of the same model there has it (AMD-AGI/TraceLens, MIT,
tests/traces/mi300/google_owlv2-large-patch14-ensemble__1016001_perf_report_csvs)."""


def test_owlv2_on_mi300x_as_measured(shared_traces: Path, tmp_path: Path) -> None:
    path = next((shared_traces / "owlv2_h100").glob("*.json.gz"))
    elsewhere = tmp_path / "mi300x.json"
    data = gzip.decompress(path.read_bytes())
    for theirs, ours in (
        (b"NVIDIA H100 80GB HBM3", b"AMD Instinct MI300X"),
        (b'"numSms": 132', b'"numSms": 304'),
        (b"85018279936", b"206141652992"),
    ):
        assert theirs in data
        data = data.replace(theirs, ours)
    elsewhere.write_bytes(data)
    base, new = (limits_of_rank(read(each).trace(), ALL).frame.with_columns(rank=0) for each in (path, elsewhere))
    times = {key: round(1000 * time) for key, (_, time) in MEASURED_US.items()}
    measured = pl.col("input_shapes").replace_strict(times, default=None, return_dtype=pl.Int64) * pl.col("calls")
    is_same = pl.struct("name", "input_shapes").is_in(
        [{"name": name, "input_shapes": key} for key, (name, _) in MEASURED_US.items()]
    )
    new = new.filter(is_same).with_columns(time=measured, covered=measured)
    frame = across_hardware(base.filter(is_same).select(new.columns), new, (1, 1))
    assert len(frame) == len(MEASURED_US)
    found = {row["input_shapes"]: row for row in frame.to_dicts()}
    # Softmax moves data: MI300X is faster by more than its memory is.
    softmax = found["[[16, 5185, 5185]]"]
    assert softmax["expected_ratio"] == pytest.approx(MEMORY_RATIO)
    assert softmax["ratio"] == pytest.approx(1280.821 / 2186.854, rel=1e-5)
    assert softmax["unexplained"] < 0
    # The projections compute: its matrix cores are faster, and the products take longer.
    linear = found["[[1, 5185, 1024], [1024, 1024], [1024]]"]
    assert linear["expected_ratio"] == pytest.approx(PRODUCT_RATIO)
    assert linear["unexplained"] == pytest.approx(480 * (31_679 - 21_844 * PRODUCT_RATIO), rel=1e-3)
    assert linear["base_efficiency"] > linear["new_efficiency"] > 0.25
