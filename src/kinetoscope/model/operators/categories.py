"""Categories of operators and kernels, by words in their names: GEMM, attention, convolution, and so on.

The name of the operator that launched a kernel decides. Where it has none of the words, or no operator is known
(graphs, compiled code), the kernel's own name does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, get_args

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, marked
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import OPTIMIZER_STEP, is_optimizer_range
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import COLLECTIVE_OPS, EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

Category = Literal[
    "GEMM", "attention", "convolution", "MoE", "normalization", "softmax", "reduction", "elementwise", "embedding",
    "indexing", "optimizer", "copy", "communication", "other",
]  # fmt: skip
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
COPY, COMMUNICATION, OTHER = (CATEGORIES.index(name) for name in ("copy", "communication", "other"))

PRODUCTS: Final = tuple(CATEGORIES.index(name) for name in ("GEMM", "attention", "convolution"))
"""What matrix units can compute."""

_RULES: Final[tuple[tuple[Category, str, str], ...]] = (
    # Inductor names what it fuses: `poi` computes each element by itself, the others reduce, and name what is in them.
    ("elementwise", "", "triton_poi_"),
    ("normalization", "bn_fw bn_bw", "(?:batch|layer|rms|group|instance|local_response)_?norm gamma_beta"),
    ("softmax", "", "(?<!topk_)(?<!top_k_)(?<!gating_)soft_?max(?!_?top)"),
    ("reduction", "", "triton_(?:red|per)_"),
    (
        "embedding",
        "fb",
        r"""(?<!rotary_)embedding split_lookup pooled_embs jagged sparse_(?:data|features) linearize_index
        bounds_check_indices permute_indices_weights permute_\dd_data lengths_range to_dense_representation""",
    ),
    ("optimizer", "adamw? lamb sgd lion", "_foreach _fused_(?:adam|sgd) multi_tensor"),
    ("MoE", "moe", "experts _matmul_(?:ogs|scatter) grouped_topk top_?k_(?:gating_)?softmax routing"),
    ("copy", "", "reshape_and_cache concat_and_cache store_(?:kv_)?cache kv_cache"),
    ("attention", "sdpa [fx]?mha mla", "attention attn fmha flash_(?:fwd|bwd) splitkv"),
    (
        "convolution",
        r"conv\d?d? convolve im\d?d?2col im2d2_?col",
        "convolution [wd]grad fprop igemm implicit_ winograd (?:cudnn|miopen)(?!_rnn) nchw_?to_?nhwc nhwc_?to_?nchw",
    ),
    (
        "GEMM",
        "b?mm addb?mm baddbmm mv addmv v?dot addr ger outer einsum tensordot multi_dot linear lstm gru rnn",
        r"""matmul (?<!fb)gemm gemv nvjet cijk_ [a-z\d]_mm(?![a-z]) bmm_ splitk_?reduce marlin machete cublas cutlass
        int\dpack dot_kernel (?:lstm|gru|rnn)_""",
    ),
    ("reduction", "", "pool(?!ed) cum_?sum cum_?prod"),
    (
        "indexing",
        "take unique",
        """index indices gather scatter sort top_?k search_?sorted bucketize nonzero masked_select
        device_(?:select|compact|partition)""",
    ),
    (
        "reduction",
        """(?:nan)?sum mean prod var std(?!:) a?max a?min aminmax arg_?max arg_?min norm logsumexp median all any""",
        "reduce reduction vector_norm loss cross_entropy scan_kernel device_scan histogram bincount",
    ),
    (
        "copy",
        "cat stack fill zeros? ones full arange contiguous roll flip repeat pad clone",
        """copy(?!sign) (?<!masked_)fill_ fill_functor cat_array mem_?cpy mem_?set batched_transpose transpose_[cn]
        repeat_""",
    ),
    (
        "elementwise",
        "rope log2 logit nan_to_num sgn quant",
        """element_?wise pointwise act_and_mul swi_?glu rotary quantize dropout uniform_ normal_ bernoulli random
        exponential_ threshold (?:sigmoid|tanh|elu|relu|silu|logit)_backward tensor_op""",
    ),
)
"""Category, words that stand alone in a name, and parts of one: regular expressions. The first that matches counts.

Names are compared in lower case, with an underscore where a capital begins a word.
"""


_OF_LISTS: Final = re.compile("_foreach_?|multi_tensor")
"""What works on a list of tensors: an optimizer, where there is one, but also a copy of many tensors."""


def _pattern(words: str, parts: str) -> re.Pattern[str]:
    alone = [f"(?<![a-z])(?:{'|'.join(words.split())})(?![a-z])"] if words else []
    return re.compile("|".join(alone + parts.split()))


_PATTERNS: Final = tuple((category, _pattern(words, parts)) for category, words, parts in _RULES)

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_ELEMENTWISE: Final = (
    "abs add addcdiv addcmul bitwise_and bitwise_not bitwise_or celu clamp clamp_max clamp_min copysign cos div"
    " dropout elu eq erf exp expm1 floor fmod ge gelu gt hardsigmoid hardswish hardtanh isnan le leaky_relu lerp log"
    " log1p log_sigmoid_forward logical_and logical_not logical_or lt masked_fill maximum minimum mish mul"
    " native_dropout ne neg pow reciprocal relu remainder round rsqrt rsub selu sigmoid sign silu sin softplus sqrt"
    " square sub tan tanh threshold tril triu true_divide where"
)
_OPERATORS: Final = frozenset(f"aten::{name}{tail}" for name in _ELEMENTWISE.split() for tail in ("", "_"))

_NODES: Final = (
    "Abs Add Addcdiv Addcmul Clamp ClampMax ClampMin Cos Div Elu Erf Exp Expm1 Gelu Hardsigmoid Hardswish"
    " Hardtanh LeakyRelu Lerp Log Log1P MaskedFill Maximum Minimum Mish Mul NativeDropout Neg Pow Reciprocal Relu Rsqrt"
    " Rsub Sigmoid Sign Silu Sin Softplus Sqrt Sub Tan Tanh Threshold Where"
)
_NODE: Final = re.compile(rf"(?:autograd::engine::evaluate_function: )?(?:{'|'.join(_NODES.split())})Backward\d*")


def is_elementwise(name: str) -> bool:
    """Is this an operator of torch that computes each element by itself, forward or backward?"""
    return name in _OPERATORS or _NODE.fullmatch(name) is not None


_VIEWED: Final = (
    "alias as_strided chunk detach detach_ expand expand_as flatten narrow permute reshape select slice split squeeze"
    " squeeze_ t transpose unbind unflatten unsqueeze unsqueeze_ view view_as _unsafe_view"
)
_VIEWS: Final = frozenset(f"aten::{name}" for name in _VIEWED.split())


@derived
def view_ops(trace: Trace) -> Bools:
    """Operators that only look at the same elements in another way: bool [events]."""
    return rows_named(trace, _VIEWS.__contains__, EventKind.HOST_OP)


_CLONE: Final = re.compile(r"aten::clone|(?:autograd::engine::evaluate_function: )?CloneBackward\d*")
"""A copy, which a compiler does not make where it fuses what is around it."""


@derived
def elementwise_ops(trace: Trace) -> Bools:
    """Operators that compute each element by itself, or copy it: bool [events]."""
    return rows_named(trace, lambda name: is_elementwise(name) or bool(_CLONE.fullmatch(name)), EventKind.HOST_OP)


@lru_cache(maxsize=1 << 14)
def category(name: str) -> Category:
    """The category of an operator or a kernel of this name; *other* where no word of the name says."""
    if COLLECTIVE_OPS.match(name):
        return "communication"
    if is_elementwise(name):
        return "elementwise"
    words = _CAPITAL.sub("_", name).lower()
    return next((category for category, pattern in _PATTERNS if pattern.search(words)), "other")


def categories_of_names(trace: Trace, names: Int32s) -> Int8s:
    """The category of operators or kernels of these names, a place in `CATEGORIES`: int8 [names]; code −1 is *other*.

    In a trace without a step of an optimizer what works on lists of tensors is what it does to each tensor.
    """
    optimizes = bool(is_optimizer_range(trace, OPTIMIZER_STEP).any())
    used = marked(len(trace.strings) + 1, names + 1)
    categories = np.full(len(used), OTHER, np.int8)
    for code in (np.flatnonzero(used[1:])).tolist():
        name = trace.strings.glance(code)
        categories[code + 1] = CATEGORIES.index(category(name if optimizes else _OF_LISTS.sub("", name)))
    return categories[names + 1]


@derived
def work_categories(trace: Trace) -> Int8s:
    """The category of each piece of device work, a place in `CATEGORIES`: int8 [work]."""
    work = device_work(trace)
    names = np.where(work.op >= 0, trace.name[work.op], np.int32(-1)) if len(trace) else work.op
    categories = categories_of_names(trace, names)
    untold = np.flatnonzero(categories == OTHER)
    categories[untold] = categories_of_names(trace, trace.name[work.rows[untold]])
    categories[work.of(WorkKind.COMMUNICATION)] = COMMUNICATION
    categories[work.of(WorkKind.MEMCPY, WorkKind.MEMSET)] = COPY
    return categories


def longest(codes: Int32s, groups: int, categories: Int8s, time: Int64s) -> Int8s:
    """The category that takes most of the time of each group, −1 for groups without any: int8 [groups].

    codes: int32 [n], the group of each piece of work, negative for none; categories, time: of each piece, [n].
    """
    inside = (codes >= 0) & (categories >= 0)
    keys = codes[inside].astype(np.int64) * len(CATEGORIES) + categories[inside]
    shape = (groups, len(CATEGORIES))
    counts = np.bincount(keys, minlength=groups * len(CATEGORIES)).reshape(shape)
    total = np.bincount(keys, time[inside], groups * len(CATEGORIES)).reshape(shape)
    most = np.where(counts > 0, total, -1).argmax(axis=1)
    return np.where(counts.any(axis=1), most, -1).astype(np.int8)


def labels(categories: Int8s) -> pl.Series:
    """Names of categories as a column, null for −1."""
    return polars_columns.labelled(categories, CATEGORIES.__getitem__).cast(pl.String)
