"""The same name in every run, and no two names made one that are two."""

from __future__ import annotations

import pytest

from kinetoscope.compare.diff.normalize_names import normalized, normalized_frame, without_digits

SAME = [
    ("ProfilerStep#1010", "ProfilerStep#1011"),
    ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 0/1"),
    ("Torch-Compiled Region: 0/0", "Torch-Compiled Region: 12/3_1"),
    (
        "## Call CompiledFxGraph fud64jsrxcxliekg7lptyw24yz5k3oa65b73wjfbhz6j2fg6ouu7 ##",
        "## Call CompiledFxGraph f2wqzo4abcxliekg7lptyw24yz5k3oa65b73wjfbhz6j2fg6ab12 ##",
    ),
    ("CompiledFunctionBackward", "CompiledFunctionBackward7"),
    ("triton_poi_fused_add_relu_0", "triton_poi_fused_add_relu_17"),
    ("triton_red_fused__to_copy_mul_3", "triton_red_fused__to_copy_mul_4"),
    ("triton__0d1d2d3de", "triton__0d1d2d"),
    ("triton_poi_fused_add_0d1d2de", "triton_poi_fused_add_0d1d2d3de"),
    ("cpp_fused_add_mm_0", "cpp_fused_add_mm_2"),
    (
        "autograd::engine::evaluate_function: MulBackward0, seq = 12",
        "autograd::engine::evaluate_function: MulBackward0",
    ),
    ("<built-in method run of Tensor object at 0x7fd1c8>", "<built-in method run of Tensor object at 0x55aa00>"),
    (
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    ),
    (
        "void at::native::_GLOBAL__N__04b3c2d5_12_Foo_cu_a1b2c3d4::kern(int)",
        "void at::native::_GLOBAL__N__99b3c2d5_7_Foo_cu_ffffc3d4::kern(int)",
    ),
]

DIFFERENT = [
    ("aten::conv1d", "aten::conv2d"),
    ("SumBackward0", "SumBackward1"),
    ("ampere_sgemm_128x64_nn", "ampere_sgemm_64x64_nn"),
    ("triton_poi_fused_add_0", "triton_poi_fused_mul_0"),
    ("triton_poi_fused_max_pool2d_1", "triton_poi_fused_max_pool3d_1"),
    ("nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN", "nvjet_tst_192x8_64x8_4x1_v_bz_TNT"),
    ("layer_1", "layer_2"),
    ("void k<float, 512, 6>(float)", "void k<float, 512, 8>(float)"),
    ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_names_of_the_same(one: str, other: str) -> None:
    assert normalized(one) == normalized(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_names_that_differ(one: str, other: str) -> None:
    assert normalized(one) != normalized(other)


@pytest.mark.parametrize("name", ["", ";", " \n "])
def test_a_name_is_never_empty_nor_two(name: str) -> None:
    assert normalized(name)
    assert ";" not in normalized(name)


def test_frames() -> None:
    assert (
        normalized_frame("/home/me/run1/train.py(12): main")
        == normalized_frame("/data/run2/train.py(40): main")
        == "train.py: main"
    )
    assert normalized_frame("torch/nn/modules/module.py(1501): _call_impl") == "torch/nn/modules/module.py: _call_impl"
    installed = "/opt/conda/lib/python3.8/site-packages/torch/utils/data/dataloader.py(530): __next__"
    assert normalized_frame(installed) == "torch/utils/data/dataloader.py: __next__"
    assert (
        normalized_frame("nn.Module: Conv2d_3")
        == normalized_frame("nn.Module: Conv2d_12")
        != normalized_frame("nn.Module: Linear_3")
    )
    assert normalized_frame("model.py(1): forward") != normalized_frame("model.py(1): backward")


def test_digits() -> None:
    assert without_digits("request 17 of 20") == without_digits("request 4 of 7")
