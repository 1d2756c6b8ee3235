"""Names and times of the kernels of real libraries, by device and precision: what simulated networks are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TYPES: Final = {"bf16": "c10::BFloat16", "fp16": "c10::Half", "fp32": "float", "tf32": "float", "fp64": "double"}
BYTES: Final = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp64": 8}


@dataclass(frozen=True)
class Silicon:
    """What a device does in practice.

    Attributes:
        tera: by precision 10¹² operations a second that large products reach.
        bandwidth: bytes a ns.
        generation: how its kernels' names begin.
    """

    tera: dict[str, float]
    bandwidth: float
    generation: str


_SILICON: Final = {
    "H100": Silicon({"bf16": 600, "fp16": 600, "tf32": 290, "fp32": 45}, 2600, "sm90"),
    "A100": Silicon({"bf16": 230, "fp16": 230, "tf32": 110, "fp32": 17}, 1250, "ampere"),
    "V100": Silicon({"fp16": 85, "fp32": 13}, 720, "volta"),
    "T4": Silicon({"fp16": 40, "fp32": 6}, 250, "turing"),
    "MI300X": Silicon({"bf16": 600, "fp16": 600, "fp32": 90, "tf32": 90}, 3500, "gfx942"),
}
_CPU: Final = Silicon({"bf16": 0.4, "fp16": 0.2, "fp32": 0.8, "tf32": 0.8, "fp64": 0.4}, 20, "cpu")


def silicon(device: str | None) -> Silicon:
    """Of a device by its name; of the host for None."""
    return next((facts for name, facts in _SILICON.items() if device and name in device), _CPU)


def microseconds(of: Silicon, precision: str, flops: float, size: float) -> float:
    """What a well-made kernel takes that computes so much and moves so many bytes."""
    compute = flops / (of.tera[precision] * 1e6) if flops else 0.0
    return max(compute, size / of.bandwidth / 1000) + 1.6


def gemm(of: Silicon, precision: str, layout: str = "tn") -> str:
    """The name of a matrix product."""
    kind = {"bf16": "bf16bf16_bf16f32", "fp16": "f16f16_f16f32", "tf32": "f32f32_tf32f32", "fp32": "f32f32_f32f32"}
    if of.generation == "gfx942":
        types = {"bf16": "BBS_BH", "fp16": "HHS_BH"}.get(precision, "SB")
        return f"Cijk_Alik_Bljk_{types}_MT128x128x32_MI16x16x1_SN_K1"
    if of.generation == "sm90" and precision != "fp32":
        tiles = "tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
        return f"sm90_xmma_gemm_{kind[precision]}_f32_{layout}_n_{tiles}"
    if precision in ("fp32", "fp64"):
        return f"{'ampere' if of.generation == 'sm90' else of.generation}_sgemm_128x64_{layout}"
    if of.generation == "ampere":
        shape = {"tf32": "tf32_s1688gemm", "bf16": "bf16_s16816gemm_bf16", "fp16": "fp16_s16816gemm_fp16"}[precision]
        return f"ampere_{shape}_128x128_ldg8_f2f_stages_32x5_{layout}"
    return f"{of.generation}_fp16_s884gemm_fp16_128x128_ldg8_f2f_{layout}"


def convolution(of: Silicon, precision: str, way: str, *, last: bool) -> str:
    """The name of a convolution; `way` is fprop, dgrad or wgrad; `last`: channels last."""
    if of.generation == "gfx942":
        short = {"fprop": "fwd", "dgrad": "bwd", "wgrad": "wrw"}[way]
        return f"igemm_{short}_gtcx3_nhwc_{precision}_bx0_ex0_bt128x128x16"
    if precision == "fp32":
        return {
            "fprop": "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true, false, true>(int, int)",
            "dgrad": f"{of.generation.replace('sm90', 'ampere')}_scudnn_128x64_stridedB_splitK_medium_nn_v1",
            "wgrad": f"{of.generation.replace('sm90', 'ampere')}_scudnn_128x32_stridedB_splitK_medium_nn_v1",
        }[way]
    kind = {"bf16": "bf16bf16_bf16f32_f32", "fp16": "f16f16_f16f32_f32", "tf32": "f32f32_tf32f32_f32"}[precision]
    layout = "nhwckrsc_nhwc" if last else "nchwkcrs_nchw"
    tiles = "tilesize128x128x32_stage3_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn"
    return f"sm80_xmma_{way}_implicit_gemm_{kind}_{layout}_{tiles}"


def elementwise(what: str, scalar: str) -> str:
    """The name of a pointwise kernel of torch."""
    return (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{what}<{scalar}>, "
        f"std::array<char*, 3ul> >(int, at::native::{what}<{scalar}>, std::array<char*, 3ul>)"
    )


def multi_tensor(what: str) -> str:
    """The name of a kernel that works on a list of tensors."""
    space = "at::native::(anonymous namespace)::"
    return (
        f"void {space}multi_tensor_apply_kernel<{space}TensorListMetadata<3>, {space}{what}<float, 3, 2, 0>, "
        f"std::plus<float> >({space}TensorListMetadata<3>, {space}{what}<float, 3, 2, 0>, std::plus<float>)"
    )


ATTENTION: Final = {
    "forward": "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, "
    "false, cutlass::bfloat16_t, 64>, false, true, false, false, false, true, false>(pytorch_flash::Flash_fwd_params)",
    "backward": "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<pytorch_flash::"
    "Flash_bwd_kernel_traits<64, 128, 128, 8, 4, 4, 4, false, false, cutlass::bfloat16_t, 64> >"
    "(pytorch_flash::Flash_bwd_params)",
}
