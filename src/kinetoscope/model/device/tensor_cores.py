"""Kernels that compute on matrix units (tensor cores, matrix cores), by their names.

A trace holds no instructions, only names. Libraries that choose between matrix units and plain arithmetic put the
choice into the name; where a name leaves it open, the answer is *unknown* and counts on neither side.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np

from kinetoscope.algorithms.arrays import Int8s
from kinetoscope.model.device.hardware import device_of, is_rocm
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import NAMES_DECIDE
from kinetoscope.model.trace.trace import Trace

MatrixUnit = Literal["yes", "no", "unknown"]

_PLAIN_ARITHMETIC: Final[dict[str, str]] = {
    # cuBLAS and cuDNN: xmma is the name of a code generator, its variant `ffma` computes in plain FP32.
    "xmma without": r"xmma_.*_(?:ffma|dfma|simt)",
    # CUTLASS names the class of operations: simt or tensorop (CUTLASS documentation, "Profiler").
    "CUTLASS": r"cutlass.*_simt_|OpClassSimt|MmaSimt",
    # PyTorch's memory-efficient attention (on CUTLASS): tensor cores for half types from sm70, for FP32 from sm80.
    "attention before sm80": r"fmha_cutlass[FB]_f32_\w*_sm(?:50|70|75)|fmha_cutlass[FB]_\w*_sm50",
    # Passes that prepare, combine or convert, beside the one that multiplies.
    "side passes": r"flash_bwd_(?:dot_do_o|convert|clear)|splitkv_combine|FlashAttn(?:Fwd|Bwd)?(?:Combine|Pre|Post)"
    r"|Fmha(?:Bwd(?:OGradDotO|ConvertQGrad)|FwdSplitKVCombine)|reshape_and_cache_flash|fmhaReduction|ReduceSplitK",
}
"""No, whatever else the name says."""

_MATRIX_KERNELS: Final[dict[str, str]] = {
    # The shape of the instruction, after the letter of the accumulator: s1688, h884, i16832 (CUTLASS documentation,
    # "Kernel names"; the TensorBoard plugin's list).
    "instruction shape": r"(?<![a-z])[hsidc](?:884|1684|1688|8816|8832|16816|16832|16864|161616)(?!\d)",
    "instruction": r"(?<![a-z])(?:[hiqw]gmma|[hid]mma|wmma|mfma|mma_sync|tcgen05|tensorop)",
    "cuBLAS, cuDNN": r"^nvjet|xmma_(?:sparse_)?(?:gemm|conv|implicit_gemm|fprop|dgrad|wgrad|warp_specialized)"
    r"|^cudnn_generated_fort_native_sdpa",
    # From the plugin's list, which has it from NVIDIA's profilers.
    "cuDNN, old": r"dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv2d_c1_k1",
    # Where CUTLASS's types are spelled out: the shape of a warp's multiplication, 1x1x1 without matrix units.
    "CUTLASS, types": r"GemmShape(?:<|ILi)16(?:, |ELi)8(?:, |ELi)\d+|SM\d+_\d+x\d+x\d+|(?:OpClass|Mma)TensorOp"
    r"|MainloopSm(?:90|100|103|120)\w*(?:Gmma|Umma|WarpSpecialized)",
    "attention": r"flash_(?:fwd|bwd)|FlashAttn(?:Fwd|Bwd)|fmha|Fmha(?:Fwd|Bwd)|mha_(?:fwd|bwd)",
    # TensorRT-LLM's generated kernels name the types of their inputs: bmm_MxE4m3_..., gemm_Bfloat16_...
    "TensorRT-LLM": r"^(?:bmm|gemm)_(?:\w*E[245]m[0123]|Bfloat16|Fp16)",
    "GEMMs of inference": r"deep_gemm::|gptq_marlin|\bmarlin::|\bMarlin<|machete::",
    # Tensile (rocBLAS, hipBLASLt): `_MI16x16x1` is the matrix instruction.
    # Cijk_ begins the name; `\w*` from each of many `Cijk_` in a hostile name would take a square of its length.
    "Tensile": r"^(?:void )?Cijk_\w*_MI(?:\d+x)+\d+",
    # MIOpen: gtcx is its generator for matrix cores (xdlops), gtc the one without. Composable Kernel: xdl, wmma.
    "MIOpen, Composable Kernel": r"igemm_(?:fwd|bwd|wrw)_gtcx\d*|xdlops|_xdl_",
}
"""Yes."""

_OTHER_KERNELS: Final[dict[str, str]] = {
    # The classic hand-written GEMMs and convolutions carry no instruction shape: plain arithmetic.
    "cuBLAS, plain": r"(?:maxwell|pascal|volta|turing|ampere|hopper)_(?:\w*_)?g?[shdcz](?:gemm|cudnn)_"
    r"|magma_[sdhcz]gemm|gemv|gemmSN_|gemmk1_|sgemm_largek|dot_kernel<|splitKreduce|reduce_1Block|scal_kernel<"
    r"|cublasLt::|epilogue::impl",
    "cuDNN, plain": r"_scudnn_|(?:im|ex)plicit_convolve_[sd]gemm|dgrad_engine|wgrad_alg\d|wgrad2d|winograd|im2col|fft2d"
    r"|flip_filter|bn_(?:fw|bw)|reduce_wgrad|compute\w*Offsets|nchwToNhwc|nhwcToNchw|cudnn::ops::",
    "MIOpen, plain": r"igemm_(?:fwd|bwd|wrw)_gtc_|MIOpenBatchNorm|miopenSp3AsmConv|SubTensorOp|batched_transpose"
    r"|^transpose_|Im2d2Col|Op\dTensor|OpTensor",
    "torch": r"at::native::|at::cuda::|elementwise|[sS]oft[mM]ax_?(?:warp|[fF]orward|[bB]ackward)|multi_tensor_apply"
    r"|indexing_|cunn_|CatArray|batch_norm|layer_?norm|rms_?norm|rotary_embedding|index_(?:select|add)"
    r"|embedding_(?:forward|backward|codegen)",
    "libraries": r"^(?:void )?(?:cub|thrust|fbgemm_gpu)::|RadixSort|DeviceScan|DeviceReduce|nccl|rccl|nvshmem"
    r"|all_reduce|moe::dev::(?:routing|finalize|permute)|fp8_quant|quantize_(?:with|kernel|cuda)|linearize_index"
    r"|bounds_check_indices|permute_pooled_embs|recat_",
    # Inductor: poi is pointwise, red and per are reductions; only templates multiply matrices, unless the name says mm.
    "Triton by Inductor": r"^triton_(?:poi|red|per)_(?!.*mm)",
    "copies": r"^Mem(?:cpy|set)|^(?:Copy|Fill)(?:Host|Device|Buffer)",
}
"""No, unless one of those above says yes."""


def _search(patterns: dict[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns.values()))


_PLAIN_PATTERN: Final = _search(_PLAIN_ARITHMETIC)
_MATRIX_PATTERN: Final = _search(_MATRIX_KERNELS)
_OTHER_PATTERN: Final = _search(_OTHER_KERNELS)


@lru_cache(maxsize=1 << 14)
def matrix_unit(name: str) -> MatrixUnit:
    """The answer whether a kernel of this name computes on a matrix unit; *unknown* where the name leaves it open."""
    if _PLAIN_PATTERN.search(name):
        return "no"
    if _MATRIX_PATTERN.search(name):
        return "yes"
    return "no" if _OTHER_PATTERN.search(name) else "unknown"


ANSWERS: Final[tuple[MatrixUnit, ...]] = get_args(MatrixUnit)
ON_MATRIX_UNIT, NOT_ON_MATRIX_UNIT, UNKNOWN_UNIT = (ANSWERS.index(answer) for answer in ("yes", "no", "unknown"))


@derived
def kernel_units(trace: Trace) -> Int8s:
    """The use of a matrix unit by each piece of device work, a place in `ANSWERS`: int8 [work]."""
    names = trace.name[device_work(trace).rows]
    codes, places = np.unique(names, return_inverse=True)
    answers = np.array([ANSWERS.index(matrix_unit(trace.strings.glance(code))) for code in codes.tolist()], np.int8)
    if not len(codes):
        return answers
    of_mtia = trace.category[device_work(trace).rows] == trace.strings.code(NAMES_DECIDE)  # names of other libraries
    return np.where(of_mtia, np.int8(UNKNOWN_UNIT), answers[places])


def has_matrix_units(trace: Trace, number: int) -> bool:
    """May a device of this number have matrix units? NVIDIA's have from compute capability 7.0 on."""
    device = device_of(trace, number)
    return device is None or device.capability is None or is_rocm(trace) or device.capability >= (7, 0)
