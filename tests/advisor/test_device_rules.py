"""The rules about what the device is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.laws import StepTime
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules.double_precision import double_precision
from kinetoscope.advisor.rules.idle_device import idle_device
from kinetoscope.advisor.rules.kernels_that_leave_the_device_empty import kernels_that_leave_the_device_empty
from kinetoscope.advisor.rules.layout_transposes import layout_transposes
from kinetoscope.advisor.rules.matrix_units_unused import matrix_units_unused
from kinetoscope.advisor.rules.products_below_their_peak import products_below_their_peak
from kinetoscope.advisor.rules.shapes_beside_the_matrix_units import _alignment, shapes_beside_the_matrix_units
from kinetoscope.advisor.rules.unfused_attention import unfused_attention
from kinetoscope.advisor.run_rules import rank_findings
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.operators.unfused_attention import unfused_attention as find_attention
from kinetoscope.model.roofline.precision import UNKNOWN_PRECISION, call_precisions
from kinetoscope.model.steps.selection import ALL
from tests.drawn import Event, annotation, job, kernel, launch, op

Find = Callable[[RankView], Iterator[Finding]]
US = 1000
STEP = 1_000 * US

V100 = {"id": 0, "name": "Tesla V100-SXM2-16GB", "computeMajor": 7, "computeMinor": 0, "numSms": 80}
A100 = {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108,
        "totalGlobalMem": 42_505_273_344}  # fmt: skip
P100 = {"id": 0, "name": "Tesla P100-PCIE-16GB", "computeMajor": 6, "computeMinor": 0, "numSms": 56}
MI300 = {"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "numSms": 304}

PLAIN = "ampere_sgemm_128x64_tn"
MATRIX = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"


def view(folder: Path, *events: Event, device: dict[str, Any] = A100) -> RankView:
    """One rank on a device, drawn."""
    return RankView(job(folder, *events, deviceProperties=[device]).trace(), ALL)


class Steps:
    """Three steps of 1 ms, in which operators are launched one after another, and their kernels run on end.

    The host is ahead: its own steps take `host` ns.
    """

    def __init__(self, host: int = 300 * US) -> None:
        self.length = host
        self.events: list[Event] = [annotation(f"ProfilerStep#{k}", k * host, host) for k in range(3)]
        self._host, self._device, self._number = 0, 20 * US, 0
        self.ask("aten::relu_", "void at::native::vectorized_elementwise_kernel<4>", 50)

    def ask(self, name: str, work: str, us: int, *dims: Sequence[int], kind: str = "c10::BFloat16", **of: Any) -> Steps:
        """In each step an operator of 10 µs, and a kernel of `us` in it."""
        args = {key: of.pop(key) for key in ("Input Strides",) if key in of}
        if dims:
            told = {"Input Dims": [list(each) for each in dims], "Input type": [kind] * len(dims)}
            args |= {**told, "Concrete Inputs": [""] * len(dims)}
        for k in range(3):
            self._number += 1
            at, starts = k * self.length + self._host, k * STEP + self._device
            self.events += [op(name, at, 10 * US, **args), launch(at + 2 * US, 5 * US, self._number)]
            self.events.append(kernel(work, starts, us * US, self._number, **of))
        self._host += 11 * US
        self._device += us * US
        return self

    def fill(self) -> Steps:
        """Something else until the step ends."""
        left = (STEP - self._device) // US - 10
        return self.ask("aten::relu_", "void at::native::vectorized_elementwise_kernel<4>", left)


# --- DEVICE001

LARGE = ([1024, 2048], [2048, 2048])


def products(work: str, kind: str, *dims: Sequence[int]) -> list[Event]:
    return Steps().ask("aten::mm", work, 600, *dims, kind=kind).fill().events


@pytest.mark.parametrize("dims", [LARGE, ()], ids=["with shapes", "without"])
def test_products_in_fp32(dims: tuple[list[int], ...], tmp_path: Path) -> None:
    [finding] = matrix_units_unused(view(tmp_path, *products(PLAIN, "float", *dims)))
    assert "60% of the step" in finding.message
    assert "set_float32_matmul_precision" in finding.change
    assert 0.1 * STEP < finding.stake.low < finding.stake.high < 0.9 * STEP
    assert finding.time is not None
    assert finding.time.length == 3 * (600 + 370 // 2) * US  # and half of the other kernels


def test_before_ampere_there_is_only_fp16(tmp_path: Path) -> None:
    [finding] = matrix_units_unused(view(tmp_path, *products("volta_sgemm_128x64_tn", "float", *LARGE), device=V100))
    assert "float16" in finding.change
    assert "TF32" not in finding.change


@pytest.mark.parametrize(
    ("work", "kind", "device"),
    [
        (MATRIX, "c10::BFloat16", A100),
        ("Cijk_Alik_Bljk_SB_MT128x128x32_SN_K1", "float", MI300),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x128x32_MI16x16x1_SN_K1", "c10::BFloat16", MI300),
        ("maxwell_sgemm_128x64_tn", "float", P100),
        (PLAIN, "float", {"id": 0, "name": "something new"}),
        ("a_kernel_of_ones_own", "float", A100),
    ],
    ids=["bf16", "AMD", "AMD bf16", "no tensor cores", "unknown device", "unknown kernel"],
)
def test_what_uses_tensor_cores_or_cannot(work: str, kind: str, device: dict[str, Any], tmp_path: Path) -> None:
    """The TensorBoard plugin told owners of AMD devices to use tensor cores, whatever they did."""
    found = list(matrix_units_unused(view(tmp_path, *products(work, kind), device=device)))
    assert found == []


def test_tf32_could_be_bf16(tmp_path: Path) -> None:
    name = "ampere_tf32_s1688gemm_128x128_ldg8_stages_32x5_tn"
    [finding] = matrix_units_unused(view(tmp_path, *products(name, "float"), device=A100))
    assert finding.title == "Matrix products run in TF32, where BF16 is up to twice as fast"
    assert finding.at_most == "note"  # it changes what is computed
    assert 0.1 * STEP < finding.stake.low < finding.stake.high < 0.6 * STEP


RTX_3050 = {"id": 0, "name": "NVIDIA GeForce RTX 3050", "computeMajor": 8, "computeMinor": 6, "numSms": 20}
RTX_3060 = {"id": 0, "name": "NVIDIA GeForce RTX 3060", "computeMajor": 8, "computeMinor": 6, "numSms": 28}


@pytest.mark.parametrize("dims", [LARGE, ()], ids=["with shapes", "without"])
def test_of_a_device_without_known_peaks_nothing_is_sure(dims: tuple[list[int], ...], tmp_path: Path) -> None:
    """What an A100 is faster by in TF32 says nothing of other devices."""
    [finding] = matrix_units_unused(view(tmp_path, *products(PLAIN, "float", *dims), device=RTX_3050))
    assert (finding.stake.low, finding.confidence) == (0, "low")
    assert finding.stake.high < 0.55 * STEP  # a GeForce is twice as fast in 16 bits as in FP32, like all other kernels
    assert "The peaks of `NVIDIA GeForce RTX 3050` are not known" in finding.why
    assert "matmul_precision" not in finding.change


@pytest.mark.parametrize("dims", [LARGE, ()], ids=["with shapes", "without"])
def test_a_device_no_faster_in_tf32_is_not_told_to_use_it(dims: tuple[list[int], ...], tmp_path: Path) -> None:
    [finding] = matrix_units_unused(view(tmp_path, *products(PLAIN, "float", *dims), device=RTX_3060))
    assert finding.confidence == "medium"
    assert finding.stake.low < 0.05 * STEP
    assert "matmul_precision" not in finding.change
    assert "bfloat16" in finding.change


@pytest.mark.parametrize("dims", [LARGE, ()], ids=["with shapes", "without"])
def test_products_of_one_finding_are_no_others_of_another(dims: tuple[list[int], ...], tmp_path: Path) -> None:
    """In a graph that is replayed kernels have no operators: their names tell what they compute."""
    steps = Steps().ask("aten::mm", PLAIN, 500, *dims, kind="float")
    steps.ask("aten::_efficient_attention_forward", "fmha_cutlassF_f32_aligned_64x64_rf_sm80", 200)
    attention, products = matrix_units_unused(view(tmp_path, *steps.fill().events))
    assert "by three products" in attention.message
    assert "without tensor cores" in products.message
    others = 1000 - 20 - 10 - 500 - 200  # µs of a step
    for finding, own in ((attention, 200), (products, 500)):
        assert finding.time is not None
        assert finding.time.length == pytest.approx(3 * (own + others / 2) * US, rel=0.05)


def test_attention_in_fp32_by_three_products_is_neither_fp32_nor_tf32(tmp_path: Path) -> None:
    name = "fmha_cutlassF_f32_aligned_64x64_rf_sm80"
    seen = view(tmp_path, *products(name, "float", *LARGE))
    assert set(call_precisions(seen.trace).tolist()) == {UNKNOWN_PRECISION}
    [finding] = matrix_units_unused(seen)
    assert finding.title == "Attention computes in FP32, by three products in TF32 each"
    assert finding.at_most == "note"
    assert 0.1 * STEP < finding.stake.low < finding.stake.high < 0.8 * STEP


# --- DEVICE002


@pytest.mark.parametrize(
    ("dims", "strides", "expected"),
    [
        ([[64, 1024], [1024, 50257]], None, (1, 50257)),
        ([[64, 1024], [1024, 50258]], None, (2, 50258)),
        ([[64, 1024], [1024, 50304]], None, (8, 50304)),
        ([[63, 1024], [1024, 512]], None, (8, 1024)),  # only the number of rows is odd
        ([[1024, 63], [63, 512]], None, (1, 63)),
        ([[1024, 64], [64, 512]], [[1, 1023], [512, 1]], (1, 1023)),  # the first operand lies column by column
        ([[1024, 63], [63, 512]], [[64, 1], [512, 1]], (8, 64)),  # rows are padded
        ([[1024, 64]], None, (8, 0)),
        ("nonsense", None, (8, 0)),
        ([[1024, -1], [-1, 512]], None, (8, 0)),
    ],
)
def test_alignment(dims: Any, strides: Any, expected: tuple[int, int]) -> None:
    found = _alignment(False, dims, strides)
    assert found[0] == expected[0]
    assert found[0] == 8 or found == expected


def test_a_vocabulary_beside_the_units(tmp_path: Path) -> None:
    def of(size: int, work: str = MATRIX, us: int = 600, fit: int = 0) -> list[Finding]:
        asked = Steps().ask("aten::mm", work, us, [1024, 1024], [1024, size])
        asked = (asked.ask("aten::mm", MATRIX, fit, [1024, 1024], [1024, 50304]) if fit else asked).fill()
        return list(shapes_beside_the_matrix_units(view(tmp_path, *asked.events)))

    assert [each.stake.low for each in of(50257)] == [0.0], "no product of the trace is faster"
    [finding] = of(50257, fit=350)
    assert "such as 50,257" in finding.message
    assert "50304" in finding.change
    # at most it is as fast as the other one, and surely at 85 % of that
    assert finding.stake.low == pytest.approx((600 - 350 / 0.85) * US, rel=0.02)
    assert finding.stake.high == pytest.approx(1.05 * (600 - 350) * US, rel=0.02)
    assert of(50257, fit=600) == [], "products whose sizes fit are no faster"
    assert of(50304) == []
    [worse] = of(10001, "ampere_hgemm_64x64_tn")
    # 2 × 1024 × 1024 × 10001 operations take 67 µs at the peak of 312 · 10¹²
    assert worse.stake.low == pytest.approx((600 - 2 * 67) * US, rel=0.05)
    assert worse.stake.high > worse.stake.low


# --- DEVICE003


def filled(blocks: float, occupancy: float = 50.0, work: str = "mine") -> list[Event]:
    shape: dict[str, Any] = {"blocks per SM": blocks, "est. achieved occupancy %": occupancy}
    return Steps().ask("mine::op", work, 400, **shape).fill().events


def test_few_blocks(tmp_path: Path) -> None:
    [finding] = kernels_that_leave_the_device_empty(view(tmp_path, *filled(0.25)))
    assert finding.stake.low == pytest.approx(0.5 * 0.75 * 400 * US, rel=0.01)
    assert finding.stake.high == pytest.approx(1.05 * 0.75 * 400 * US, rel=0.01)
    assert finding.title == "`mine` leaves most of the device empty"
    assert "25% of the multiprocessors have a block" in finding.message
    assert finding.key == "`mine`"


def test_a_kernel_that_fills_most_of_the_device_leaves_a_part_of_it_empty(tmp_path: Path) -> None:
    [finding] = kernels_that_leave_the_device_empty(view(tmp_path, *filled(0.91)))
    assert finding.title == "`mine` leaves a part of the device empty"
    assert "91% of the multiprocessors have a block" in finding.message
    assert finding.stake.high == pytest.approx(1.05 * 0.09 * 400 * US, rel=0.02)


def test_few_warps_are_a_note(tmp_path: Path) -> None:
    [finding] = kernels_that_leave_the_device_empty(view(tmp_path, *filled(2.0, 5.0)))
    assert (finding.at_most, finding.confidence, finding.stake.low) == ("note", "low", 0.0)
    assert list(kernels_that_leave_the_device_empty(view(tmp_path, *filled(2.0, 5.0, MATRIX)))) == []


def test_blocks_by_the_grid_where_they_were_not_recorded(tmp_path: Path) -> None:
    """ROCm writes the grid alone."""
    [finding] = kernels_that_leave_the_device_empty(
        view(tmp_path, *Steps().ask("mine::op", "mine", 400, grid=[4, 19, 1]).fill().events, device=MI300)
    )
    assert "25% of the multiprocessors have a block" in finding.message
    for grid in ([304, 1, 1], [0, 1, 1], ["x"], 7):
        asked = Steps().ask("mine::op", "mine", 400, grid=grid).fill()
        assert list(kernels_that_leave_the_device_empty(view(tmp_path, *asked.events, device=MI300))) == []


@pytest.mark.parametrize("blocks", [1.0, 8.0, 0.0, -1.0, float("nan")])
def test_blocks_enough_or_not_known(blocks: float, tmp_path: Path) -> None:
    assert list(kernels_that_leave_the_device_empty(view(tmp_path, *filled(blocks)))) == []


# --- DEVICE004


@pytest.mark.parametrize(
    "name",
    ["void cudnn::ops::nchwToNhwcKernel<float, float>(int)", "void nhwcToNchwKernel<float>(int)",
     "batched_transpose_32x32_half"],
)  # fmt: skip
def test_layouts_change(name: str, tmp_path: Path) -> None:
    [finding] = layout_transposes(view(tmp_path, *Steps().ask("aten::conv2d", name, 100).fill().events))
    assert finding.stake.low == pytest.approx(0.85 * 100 * US, rel=0.02)
    assert finding.stake.high == pytest.approx(1.05 * 100 * US, rel=0.02)
    assert "channels_last" in finding.change


@pytest.mark.parametrize(
    ("channels", "written", "found"),
    [
        (64, [64 * 1024, 1, 64 * 32, 64], True),
        (64, [64 * 1024, 1024, 32, 1], False),  # as it was
        (3, [3 * 1024, 1, 3 * 32, 3], False),  # images as they come
    ],
)
def test_copies_between_layouts(channels: int, written: list[int], found: bool, tmp_path: Path) -> None:
    shape = (8, channels, 32, 32)
    read = [channels * 1024, 1024, 32, 1]
    strides: dict[str, Any] = {"Input Strides": [written, read]}
    steps = Steps().ask("aten::copy_", "copy", 100, shape, shape, **strides)
    findings = list(layout_transposes(view(tmp_path, *steps.fill().events)))
    assert len(findings) == found
    if found:
        assert findings[0].stake.low == pytest.approx(0.85 * 100 * US, rel=0.02)


@pytest.mark.parametrize(
    "name", ["sm80_xmma_fprop_nhwckrsc_nhwc_kernel", "transpose_kernel", "igemm_fwd_gtcx3_nhwc_bf16"]
)
def test_kernels_that_compute_in_a_layout(name: str, tmp_path: Path) -> None:
    assert list(layout_transposes(view(tmp_path, *Steps().ask("aten::conv2d", name, 100).fill().events))) == []


# --- DEVICE005

SCORES = [32, 512, 512]
VALUES = [32, 512, 64]


def attended(softmax: Sequence[int] = SCORES, *, shapes: bool = True, last: Sequence[int] = SCORES) -> list[Event]:
    def dims(*each: Sequence[int]) -> tuple[Sequence[int], ...]:
        return each if shapes else ()

    return (
        Steps()
        .ask("aten::bmm", MATRIX, 100, *dims(VALUES, [32, 64, 512]))
        .ask("aten::div", "elementwise_kernel", 50, *dims(SCORES))
        .ask("aten::_softmax", "softmax_warp_forward", 150, *dims(softmax))
        .ask("aten::bmm", MATRIX, 100, *dims(last, VALUES))
        .fill()
        .events
    )


@pytest.mark.parametrize("shapes", [True, False])
def test_attention_in_parts(shapes: bool, tmp_path: Path) -> None:
    look = view(tmp_path, *attended(shapes=shapes))
    [finding] = unfused_attention(look)
    assert "1 time a step" in finding.message
    floor = 2 * 32 * 512 * 512 * 64 / 312e6  # of a product, us: more than reading and writing all but the scores takes
    left, most = (4 * floor, floor) if shapes else (85, 40)  # a quarter of the peak
    assert finding.stake.low == pytest.approx((0.9 * 200 + 2 * (100 - left)) * US, rel=0.02)
    assert finding.stake.high == pytest.approx(1.05 * (200 + 2 * (100 - most)) * US, rel=0.02)
    found = find_attention(look.trace)
    assert (len(found.first), found.math) == (3, 0)
    assert not (found.between & found.products).any()


def test_attention_in_parts_on_a_host(tmp_path: Path) -> None:
    """The caches hold some of the scores: four tenths of the time between the products surely remain."""
    parts = (("bmm", 100), ("div", 50), ("_softmax", 150), ("bmm", 100))
    events = []
    for k in range(3):
        at = k * 500 * US
        events.append(annotation(f"ProfilerStep#{k}", at, 500 * US))
        for name, took in parts:
            events.append(op(f"aten::{name}", at, took * US))
            at += took * US
    [finding] = unfused_attention(RankView(job(tmp_path, *events).trace(), ALL))
    assert finding.stake.low == pytest.approx(0.6 * 200 * US)
    assert finding.stake.high == pytest.approx(1.05 * (200 + 0.6 * 200) * US)


@pytest.mark.parametrize("events", [attended([32, 512, 100]), attended(last=[32, 512, 64]), attended([32, 1, 1])])
def test_a_softmax_of_something_else(events: list[Event], tmp_path: Path) -> None:
    assert list(unfused_attention(view(tmp_path, *events))) == []


def test_attention_that_torch_falls_back_to_is_a_note(tmp_path: Path) -> None:
    events = attended()
    around = [op("aten::_scaled_dot_product_attention_math", k * 300 * US, 44 * US) for k in range(3)]
    [finding] = unfused_attention(view(tmp_path, *around, *events))
    assert finding.at_most == "note"
    assert "no fused kernel that fits" in finding.message


# --- DEVICE006


def test_an_idle_device_with_its_reasons(tmp_path: Path) -> None:
    look = view(tmp_path, *Steps(STEP).ask("aten::mm", MATRIX, 300).events)
    [finding] = idle_device(look)
    assert "idle 65% of the step" in finding.message
    assert (finding.overlap_priority, finding.confidence, finding.stake.low) == (2, "low", 0.0)
    assert finding.stake.high == pytest.approx(look.idle.length / 3)
    assert list(idle_device(view(tmp_path, *Steps().ask("aten::mm", MATRIX, 300).fill().events))) == []


def test_broad_claims_count_only_what_no_other_does() -> None:
    def finding(code: str, stake: float, begin: int, end: int, broad: int = 0) -> Finding:
        return Finding(
            "",
            Stake(stake, stake),
            code=code,
            time=Intervals(np.array([begin]), np.array([end])),
            overlap_priority=broad,
        )

    claims = [finding("C", 900, 0, 900, 2), finding("B", 800, 0, 800, 1), finding("A", 100, 0, 100)]
    found = {each.code: each.stake.high for each in rank_findings(claims, StepTime(1000.0))}
    assert found == {"A": 100, "B": 700, "C": pytest.approx(100)}
    claims[0] = finding("C", 900, 0, 801, 2)
    assert [each.code for each in rank_findings(claims, StepTime(1000.0))] == ["A", "B"]


# --- DEVICE012


@pytest.mark.parametrize(("us", "device", "found"), [(300, A100, 1), (60, A100, 0), (300, RTX_3050, 0)])
def test_large_products_below_their_peak(us: int, device: dict[str, Any], found: int, tmp_path: Path) -> None:
    """17.2 · 10⁹ operations take 55 µs at the peak of an A100."""
    asked = Steps().ask("aten::mm", MATRIX, us, [2048, 2048], [2048, 2048]).fill()
    findings = list(products_below_their_peak(view(tmp_path, *asked.events, device=device)))
    assert len(findings) == found
    for finding in findings:
        assert finding.title == "Large products reach 18% of their peak"
        assert (finding.at_most, finding.stake.low) == ("note", 0)  # nothing in the trace is nearer to its peak
        assert finding.takes == 300 * US
        assert finding.stake.high == pytest.approx(1.05 * (300 - 55 / 0.85) * US, rel=0.03)


# --- DEVICE013


@pytest.mark.parametrize(("kind", "found"), [("double", 1), ("float", 0)])
def test_a_model_in_double_precision(kind: str, found: int, tmp_path: Path) -> None:
    asked = Steps().ask("aten::mm", "dgemm", 600, [1024, 1024], [1024, 1024], kind=kind).fill()
    findings = list(double_precision(view(tmp_path, *asked.events)))
    assert len(findings) == found
    for finding in findings:
        assert finding.title == "The model computes in FP64"
        assert finding.takes == 600 * US
        assert finding.stake.low == pytest.approx(0.4 * 600 * US, rel=0.02)
        assert finding.stake.high == pytest.approx(1.05 * 0.7 * 600 * US, rel=0.02)


def test_numbers_of_python_are_no_tensors_in_double_precision(tmp_path: Path) -> None:
    asked = Steps().ask("aten::mul", "mul", 600, [], kind="double").fill()
    assert list(double_precision(view(tmp_path, *asked.events))) == []


# --- all


ALL_RULES: tuple[Find, ...] = (
    matrix_units_unused, shapes_beside_the_matrix_units, kernels_that_leave_the_device_empty, layout_transposes,
    unfused_attention, idle_device,
)  # fmt: skip


@pytest.mark.parametrize("find", ALL_RULES, ids=lambda find: find.__name__)
def test_nothing_is_said_of_nothing(find: Find, tmp_path: Path) -> None:
    healthy = Steps().ask("aten::mm", MATRIX, 600, [2048, 1024], [1024, 4096]).fill().events
    for events in ([], [op("aten::mm", 0, 0)], healthy):
        assert list(find(view(tmp_path, *events))) == []
