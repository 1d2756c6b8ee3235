from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import Selection, flops, read
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.schema import Result
from tests import drawn
from tests.catalog.samples import GOLDEN, SHARED, required

A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000, "computeMajor": 8, "numSms": 108}
TENSOR = "ampere_bf16_s16816gemm_bf16_128x64_tn"
PLAIN = "ampere_sgemm_128x64_nn"


def op(name: str, start: int, duration: int, dims: object, dtype: str = "c10::BFloat16", **args: Any) -> drawn.Event:
    types = [dtype] * len(dims) if isinstance(dims, list) else []
    return drawn.op(name, start, duration, **{"Input Dims": dims, "Input type": types, **args})


def product(start: int, correlation: int, duration: int, *, kernel: str = TENSOR, **more: Any) -> list[drawn.Event]:
    """A product of 2·1000·500·100 = 100 MFLOP as torch records it: linear, addmm, launch, kernel."""
    dims = [[100], [1000, 500], [500, 100], [], []]
    return [
        op("aten::linear", start, 90, [[1000, 500], [100, 500], [100]], **more),
        op("aten::addmm", start + 10, 70, dims, **more),
        drawn.launch(start + 20, 5, correlation),
        drawn.kernel(kernel, start + 100, duration, correlation),
    ]


FLOP = 100e6


def answer(folder: Path, *events: drawn.Event, devices: list[Any] | None = None, **asked: Any) -> Result:
    job = drawn.job(folder, *events, deviceProperties=[A100] if devices is None else devices)
    return flops(job, **asked)


def test_a_product_counts_once_however_many_operators_it_passes_through(tmp_path: Path) -> None:
    result = answer(tmp_path, *product(0, 1, 1000), *product(5000, 2, 3000))
    [row] = result.frame.to_dicts()
    assert (row["name"], row["dtype"], row["precision"]) == ("aten::addmm", "bfloat16", "bf16")
    assert row["input_shapes"] == "[[100], [1000, 500], [500, 100], [], []]"
    assert (row["calls"], row["flop"], row["device_time"], row["host_time"]) == (2, 2 * FLOP, 4000, 140)
    assert row["rate"] == pytest.approx(2 * FLOP / 4000e-9)
    assert row["peak"] == 312e12
    assert row["peak_share"] == pytest.approx(2 * FLOP / 4000e-9 / 312e12)
    assert row["intensity"] == pytest.approx(FLOP / (2 * (1000 * 500 + 500 * 100 + 100 + 1000 * 100)))
    assert [note for note in result.notes if "A100 80 GB SXM" in note]


def test_the_innermost_operator_that_tells_is_the_one(tmp_path: Path) -> None:
    events = product(0, 1, 1000)
    events[1]["args"].pop("Input Dims")  # so addmm does not tell, and linear does
    [row] = answer(tmp_path, *events).frame.to_dicts()
    assert (row["name"], row["calls"], row["flop"], row["device_time"]) == ("aten::linear", 1, FLOP, 1000)


def test_attention_in_its_parts_counts_as_its_parts(tmp_path: Path) -> None:
    heads = [[2, 4, 10, 8]] * 3
    whole = op("aten::scaled_dot_product_attention", 0, 100, heads)
    parts = [op("aten::bmm", 10, 20, [[8, 10, 8], [8, 8, 10]]), op("aten::bmm", 40, 20, [[8, 10, 10], [8, 10, 8]])]
    assert answer(tmp_path, whole).frame["flop"].sum() == answer(tmp_path, whole, *parts).frame["flop"].sum()


def test_overloads_are_the_operator(tmp_path: Path) -> None:
    plain = op("aten::mm", 0, 10, [[3, 4], [4, 5]])
    out = op("aten::mm.out", 20, 10, [[3, 4], [4, 5], [3, 5]])
    frame = answer(tmp_path, plain, out).frame
    assert frame["name"].to_list() == ["aten::mm"] * 2
    assert frame["flop"].to_list() == [120, 120]


# --- precision and peak


@pytest.mark.parametrize(
    ("kernel", "precision", "peak"),
    [
        (PLAIN, "fp32", 19.5e12),
        ("cutlass_80_tensorop_s1688gemm_128x128_nn", "tf32", 156e12),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_execute_kernel", "tf32", 156e12),
        ("my_kernel", None, None),
    ],
)
def test_the_kernel_tells_whether_fp32_was_tf32(
    tmp_path: Path, kernel: str, precision: str | None, peak: float | None
) -> None:
    result = answer(tmp_path, *product(0, 1, 100_000, kernel=kernel, dtype="float"))
    [row] = result.frame.to_dicts()
    assert (row["dtype"], row["precision"], row["peak"]) == ("float32", precision, peak)
    assert row["peak_share"] == (None if peak is None else pytest.approx(FLOP / 100_000e-9 / peak))
    assert any("FP32 or TF32" in note for note in result.notes) == (precision is None)


TF32 = "cutlass_80_tensorop_s1688gemm_128x128_nn"


def test_a_kernel_on_matrix_units_tells_else_the_longest_kernel(tmp_path: Path) -> None:
    def precision(*others: str) -> list[str | None]:
        events = product(0, 1, 100_000, kernel="nchwToNhwcKernel", dtype="float")
        for number, name in enumerate(others, 2):
            events += [drawn.launch(30 + number, 1, number), drawn.kernel(name, 200_000, 10 + number, number)]
        return list(answer(tmp_path, *events).frame["precision"])

    assert precision("unknown", TF32) == ["tf32"]
    assert precision("unknown") == ["fp32"]


def test_a_call_whose_kernels_were_lost_is_like_the_others(tmp_path: Path) -> None:
    lost = op("aten::addmm", 5000, 70, [[100], [1000, 500], [500, 100], [], []], "float")
    [row] = answer(tmp_path, *product(0, 1, 100_000, kernel=TF32, dtype="float"), lost).frame.to_dicts()
    assert (row["precision"], row["calls"], row["device_time"]) == ("tf32", 2, 100_000)
    assert row["rate"] == pytest.approx(FLOP / 100_000e-9)


def test_a_product_of_nothing_takes_no_peak(tmp_path: Path) -> None:
    empty = [op("aten::mm", 500, 20, [[10, 0], [0, 10]]), drawn.launch(505, 2, 9)]
    empty.append(drawn.kernel("Memset (Device)", 900, 10, 9, category="gpu_memset"))
    [row] = answer(tmp_path, *steps((0, 2000)), *product(100, 1, 1000), *empty, by="step").frame.to_dicts()
    assert row["mfu"] == pytest.approx(FLOP / (2000e-9 * 312e12))


@pytest.mark.parametrize("name", ["Tesla V100-SXM2-16GB", "AMD Instinct MI210"])
def test_where_there_is_no_tf32_matrix_units_compute_fp32(tmp_path: Path, name: str) -> None:
    events = product(0, 1, 100_000, kernel="Cijk_Alik_Bljk_SB_MT64x16x32_MI16x16x1", dtype="float")
    [row] = answer(tmp_path, *events, devices=[{"id": 0, "name": name}]).frame.to_dicts()
    assert row["precision"] == "fp32"
    assert row["peak"] in (15.7e12, 45.3e12)


def test_a_peak_given_by_hand_is_the_peak(tmp_path: Path) -> None:
    file = drawn.written(tmp_path / "drawn.pt.trace.json", *product(0, 1, 1000), deviceProperties=[])
    result = flops(read(file, peak="bf16=1000T"))
    assert result.frame["peak_share"].to_list() == pytest.approx([FLOP / 1000e-9 / 1e15])
    assert result.notes == ("Peaks are given by hand: bf16.",)


@pytest.mark.parametrize(
    ("devices", "reason"),
    [([], "the file does not describe the device"), ([{"id": 0, "name": "ABC 1"}], "no peak is known of ABC 1")],
)
def test_an_unknown_device_has_no_peak(tmp_path: Path, devices: list[Any], reason: str) -> None:
    result = answer(tmp_path, *product(0, 1, 1000), devices=devices)
    [row] = result.frame.to_dicts()
    assert (row["peak"], row["peak_share"]) == (None, None)
    assert row["rate"] == pytest.approx(FLOP / 1000e-9)
    assert f"Shares of the peak are unknown: {reason} (--peak gives it by hand)." in result.notes


def test_faster_than_the_peak_is_no_share(tmp_path: Path) -> None:
    result = answer(tmp_path, *product(0, 1, 100))
    assert result.frame["peak_share"].to_list() == [None]
    assert any(note.startswith("Shares of more than 1 are left out (rows: 1)") for note in result.notes)


# --- steps and modules


def steps(*windows: tuple[int, int]) -> list[drawn.Event]:
    return [drawn.annotation(f"ProfilerStep#{k}", start, end - start) for k, (start, end) in enumerate(windows)]


def test_mfu_is_the_time_at_the_peak_over_the_device_step(tmp_path: Path) -> None:
    events = [*product(100, 1, 1000), *product(2100, 2, 4000), *product(2300, 3, 1000)]
    result = answer(tmp_path, *steps((0, 2000), (2000, 4000)), *events, by="step")
    first, second = result.frame.to_dicts()
    assert (first["step"], first["calls"], first["flop"], first["duration"]) == (0, 1, FLOP, 2000)
    assert first["mfu"] == pytest.approx(FLOP / (2000e-9 * 312e12))
    assert (second["step"], second["calls"], second["flop"]) == (1, 2, 2 * FLOP)
    assert second["duration"] == 6200 - 2000  # the last kernel ends at 2200 + 4000
    assert second["mfu"] == pytest.approx(2 * FLOP / (4200e-9 * 312e12))


def test_mfu_leaves_out_what_checkpointing_computes_again_and_hfu_does_not(tmp_path: Path) -> None:
    again = [*product(1000, 2, 1000), *product(1500, 3, 1000)]
    again[0]["args"] |= {"Sequence number": 8, "Fwd thread id": 0}  # the second is of the backward pass itself
    span = drawn.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 990, 900)
    result = answer(tmp_path, *steps((0, 4000)), *product(100, 1, 1000), span, *again, by="step")
    [row] = result.frame.to_dicts()
    assert (row["flop"], row["recomputed_flop"]) == (3 * FLOP, FLOP)
    assert row["mfu"] == pytest.approx(2 * FLOP / (4000e-9 * 312e12))
    assert row["hfu"] == pytest.approx(3 * FLOP / (4000e-9 * 312e12))


def test_of_packed_sequences_a_note_says_how_far_the_flops_may_go(tmp_path: Path) -> None:
    dims: list[list[int]] = [[30, 8, 64]] * 3 + [[4], [4]] + [[]] * 4  # 30 tokens in 3 sequences of at most 16
    args: dict[str, Any] = {"Concrete Inputs": ["", "", "", "", "", "16", "16", "0.0", "False"]}
    packed = [op("aten::_flash_attention_forward", 100, 70, dims, **args), drawn.launch(110, 5, 1)]
    result = answer(tmp_path, *packed, drawn.kernel(TENSOR, 300, 1000, 1), *product(2000, 2, 1000))
    each = 2 * 8 * 128
    assert result.frame["flop"].to_list() == [FLOP, each * (16**2 + 7**2 + 7**2)]
    assert any("at most it is 1.3 times as much" in note for note in result.notes)


def test_precisions_add_up_in_mfu(tmp_path: Path) -> None:
    events = [*product(100, 1, 1000), *product(300, 2, 20_000, kernel=PLAIN, dtype="float")]
    [row] = answer(tmp_path, *steps((0, 20_400)), *events, by="step").frame.to_dicts()
    assert row["mfu"] == pytest.approx((FLOP / 312e12 + FLOP / 19.5e12) / 20_400e-9)
    assert (row["precision"], row["peak"]) == (None, None)


def test_two_devices_have_twice_the_peak(tmp_path: Path) -> None:
    events = [*product(100, 1, 1000), *product(300, 2, 1000)]
    events[-1]["args"]["device"] = 1
    both = [A100, {**A100, "id": 1}]
    [row] = answer(tmp_path, *steps((0, 2000)), *events, by="step", devices=both).frame.to_dicts()
    assert row["mfu"] == pytest.approx(2 * FLOP / (2 * 2000e-9 * 312e12))


def test_calls_without_device_work_are_in_no_rate(tmp_path: Path) -> None:
    on_host = op("aten::mm", 900, 10, [[10, 10], [10, 10]])
    result = answer(tmp_path, *steps((0, 2000)), *product(100, 1, 1000), on_host, by="step")
    [row] = result.frame.to_dicts()
    assert (row["calls"], row["flop"], row["device_time"]) == (2, FLOP + 2000, 1000)
    assert row["rate"] == pytest.approx(FLOP / 1000e-9)
    assert row["mfu"] == pytest.approx(FLOP / (2000e-9 * 312e12))
    assert any(
        note.startswith("0.0% of the FLOPs (calls: 1) are of calls that launched no device work")
        for note in result.notes
    )


def test_modules_have_what_they_call_themselves(tmp_path: Path) -> None:
    frames = [drawn.python("nn.Module: Net_0", 0, 300), drawn.python("nn.Module: Linear_0", 90, 150)]
    rows = answer(tmp_path, *frames, *product(100, 1, 1000), *product(5000, 2, 1000), by="module").frame.to_dicts()
    assert {(row["name"], row["calls"], row["flop"]) for row in rows} == {("Net_0/Linear_0", 1, FLOP), (None, 1, FLOP)}
    without = answer(tmp_path, *product(100, 1, 1000), by="module")
    assert len(without) == 0
    assert without.notes[0] == not_recorded("modules")


# --- selections


def test_calls_that_start_in_a_range_of_time_count_with_all_their_work(tmp_path: Path) -> None:
    events = [*product(0, 1, 9000), *product(5000, 2, 1000)]
    [row] = answer(tmp_path, *events, select=Selection(time=(0, 500))).frame.to_dicts()
    assert (row["calls"], row["device_time"]) == (1, 9000)


def test_selected_steps_and_devices(tmp_path: Path) -> None:
    events = [*steps((0, 2000), (2000, 4000)), *product(100, 1, 1000), *product(2100, 2, 4000)]
    events[-1]["args"]["device"] = 1
    assert answer(tmp_path, *events, select=Selection(steps=(1,))).frame["device_time"].to_list() == [4000]
    assert answer(tmp_path, *events, select=Selection(devices=(0,))).frame["device_time"].to_list() == [1000]


# --- what is not there


def test_shapes_that_were_not_recorded_are_said(tmp_path: Path) -> None:
    result = answer(tmp_path, drawn.op("aten::mm", 0, 10), drawn.launch(2, 3, 1), drawn.kernel(TENSOR, 20, 100, 1))
    assert len(result) == 0
    assert result.notes == (
        "Input shapes were not recorded (record_shapes=True records them): nothing can be counted.",
        "100.0% of the time of kernels on matrix units has no FLOPs (1 of 1 kernels), most of it launched by aten::mm.",
    )


def test_convolutions_without_strides_are_said_once(tmp_path: Path) -> None:
    dims = [[1, 3, 8, 8], [4, 3, 3, 3]]
    events = [op("aten::conv2d", 0, 90, dims), op("aten::cudnn_convolution", 10, 50, dims)]
    result = answer(tmp_path, *events)
    assert len(result) == 0
    [note] = result.notes
    assert note.endswith("strides or lengths were not recorded: aten::cudnn_convolution (1).")


def test_kernels_on_matrix_units_that_nobody_counts_are_said(tmp_path: Path) -> None:
    other = [drawn.op("vllm::moe_forward", 900, 50), drawn.launch(910, 5, 9), drawn.kernel(TENSOR, 9000, 3000, 9)]
    result = answer(tmp_path, *product(0, 1, 1000), *other)
    assert result.notes[0] == (
        "75.0% of the time of kernels on matrix units has no FLOPs (1 of 2 kernels), most of it launched by "
        "vllm::moe_forward."
    )


def test_nothing_to_count_is_said(tmp_path: Path) -> None:
    assert answer(tmp_path, drawn.op("aten::relu", 0, 10)).notes == (
        "No operator was recorded whose operations can be counted.",
    )


@pytest.mark.parametrize(
    "args",
    [
        {"Input Dims": [[1 << 39] * 30, [1 << 39] * 30]},
        {"Input Dims": [[-1, 3], [3, 4]]},
        {"Input Dims": "[[2, 3], [3, 4]"},
        {"Input Dims": [[2, 3], [3, 4]], "Input type": 7, "Concrete Inputs": {"a": 1}},
        {"Input Dims": 12},
    ],
)
def test_hostile_arguments_are_survived(tmp_path: Path, args: dict[str, Any]) -> None:
    result = answer(tmp_path, drawn.op("aten::matmul", 0, 10, **args), drawn.op("aten::conv2d", 20, 10, **args))
    assert result.frame["flop"].is_finite().all()


def test_the_hosts_time_is_the_time_only_where_no_device_was_used(tmp_path: Path) -> None:
    call = op("aten::mm", 0, 1000, [[10, 10], [10, 10]], "float")
    [row] = answer(tmp_path, call, devices=[]).frame.to_dicts()
    assert (row["rate"], row["device_time"]) == (pytest.approx(2000 / 1000e-9), None)
    for launched in (answer(tmp_path, call), answer(tmp_path, call, drawn.launch(10, 5, 1), devices=[])):
        assert launched.frame["rate"].to_list() == [None]


# --- real traces


@pytest.mark.parametrize("name", ["mlp", "conv", "transformer", "compile"])
def test_it_equals_torchs_own_flops(name: str) -> None:
    """Torch's table counts additions and multiplications too, and no backward pass of convolutions."""
    golden = json.loads(gzip.decompress(required(GOLDEN / "key_averages" / f"{name}.json.gz").read_bytes()))
    expected = {row["key"]: row["flops"] for row in golden["key_averages"] if row["flops"]}
    expected = {key: value for key, value in expected.items() if key not in ("aten::add", "aten::mul")}
    frame = flops(read(SHARED / "torch_2_13_cpu" / f"{name}.pt.trace.json.gz")).frame
    ours: dict[str, float] = {}
    for row in frame.filter(~frame["name"].str.contains("backward")).to_dicts():
        called = row["name"].replace("mkldnn_convolution", "conv2d")
        ours[called] = ours.get(called, 0) + row["flop"]
    assert ours == expected


@pytest.mark.parametrize("file", ["owlv2_h100", "resnet_ddp_mi300", "trace_diff/control", "eager_b200"])
def test_each_kernel_is_of_one_call_at_most(file: str, shared_traces: Path) -> None:
    job = read(shared_traces / file, jobs=1)
    trace = job.trace()
    work, counts = device_work(trace), costed_calls(trace)
    frame = flops(job).frame
    assert frame["device_time"].sum() == int(work.duration[np.append(counts.is_product, np.False_)[counts.call]].sum())
    assert frame["device_time"].sum() <= int(work.duration.sum())
    assert work.of(WorkKind.COMPUTATION)[counts.call >= 0].any()
    for step in flops(job, by="step").frame.to_dicts():
        assert 0 < step["mfu"] < 1


@pytest.mark.parametrize("file", ["num_workers_0", "num_workers_4"])
def test_a_file_without_strides_has_all_of_resnet_50(file: str, shared_traces: Path) -> None:
    """6 steps of 32 images: 4,089,184,256 multiplications forward and as many for each gradient but the images'."""
    job = read(next((shared_traces / "resnet50_v100" / file).iterdir()), jobs=1)
    forward, first_layer = 2 * 4_089_184_256, 2 * 112 * 112 * 64 * 3 * 7 * 7
    assert flops(job).frame["flop"].sum() == 6 * 32 * (3 * forward - first_layer)


def test_checkpointing_computes_the_forward_pass_twice(shared_traces: Path) -> None:
    """All of ResNet but its first layer is computed anew, and the first layer's input wants no gradient."""
    frame = flops(read(shared_traces / "resnet_ddp_mi300", jobs=1)).frame
    again = frame.filter(name="aten::miopen_convolution")["recomputed_flop"].sum()
    assert again == frame["recomputed_flop"].sum() > 0
    forward = frame.filter(name="aten::miopen_convolution")["flop"].sum()
    assert forward == frame.filter(name="aten::convolution_backward")["flop"].sum()
