"""Formulas of normalizations and soft-max, forward and backward.

Compulsory is the input once and the result once, with weights and statistics; implementations may read the input twice,
where it does not stay in the cache. The operations an element are those of the usual one-pass formulas.
"""

from __future__ import annotations

from kinetoscope.model.roofline.formulas.arguments import Cost, Shape, Tensor, traffic
from kinetoscope.model.roofline.formulas.family import Family
from kinetoscope.model.roofline.formulas.result_types import FLOAT, accumulated
from kinetoscope.model.roofline.formulas.streams import streamed, streaming
from kinetoscope.model.trace.element_types import ElementType

formula = Family("Normalization and soft-max")


@formula("native_layer_norm", statistics=2, operations=8)
@formula("_fused_rms_norm", statistics=1, operations=4)
def layer_norm(
    input: Tensor, normalized_shape: Shape, weight: Tensor | None, bias: Tensor | None, statistics: int, operations: int
) -> Cost:
    """Normalization of the last dimensions: of each row some statistics are kept for the backward pass."""
    parts = [each for each in (weight, bias) if each is not None]
    normalized = len(normalized_shape) or (len(parts[0].shape) if parts else 1)
    rows = input.shape[: max(0, len(input.shape) - normalized)]
    saved = Tensor((*rows, *(1,) * (len(input.shape) - len(rows))), None, accumulated(input.type))
    return streamed(input, *parts, out=(input.new(), *(saved,) * statistics), flop=operations * input.elements)


@formula("native_group_norm", names={"images": "N"})
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, images: int | None, group: int | None
) -> Cost:
    """Two statistics a group of channels and image."""
    saved = input.new((max(0, images or 0), max(0, group or 0)))
    return streamed(input, weight, bias, out=(input.new(), saved, saved), flop=8 * input.elements)


@formula("_softmax _log_softmax")
def softmax(input: Tensor, half_to_float: bool) -> Cost:
    """Soft-max or its logarithm, which may turn half precision into FP32."""
    out = Tensor(input.shape, None, FLOAT if half_to_float else input.type)
    return streamed(input, out=out, flop=5 * input.elements)


@formula("_softmax_backward_data _log_softmax_backward_data")
def softmax_backward(grad_output: Tensor, output: Tensor, input_dtype: ElementType | None) -> Cost:
    """Gradient and result read; the gradient of the input may have another type."""
    out = Tensor(grad_output.shape, None, input_dtype or grad_output.type)
    return streamed(grad_output, output, out=out, flop=4 * grad_output.elements)


@formula("native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit")
@formula("_batch_norm_with_update", training=True)
@formula("_native_batch_norm_legit_no_training _batch_norm_no_update", training=False)
@formula("batch_norm_elemt", training=False, names={"running_mean": "mean", "running_var": "invstd"})
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
) -> Cost | None:
    """Batch normalization; in training it keeps the statistics of each channel and updates the running ones."""
    if len(input.shape) < 2:
        return None
    saved = (Tensor(input.shape[1:2], None, accumulated(input.type)),) * 2 if training else ()
    updated = (running_mean, running_var) if training else ()
    moved = traffic(input, input.new(), weight, bias, running_mean, running_var, *updated, *saved)
    return Cost(vector_flop=8 * input.elements, bytes=moved, outputs=(input.new(), *saved))


@formula("batch_norm_stats batch_norm_backward_reduce")
def batch_norm_stats(grad_out: Tensor | None, input: Tensor | None) -> Cost | None:
    """Statistics of images: next to the images themselves they are nothing."""
    images = [each for each in (grad_out, input) if each is not None]
    return Cost(vector_flop=3 * images[0].elements, bytes=traffic(*images)) if images else None


formula("native_layer_norm_backward", written="input weight bias", read="grad_out input mean rstd weight",
        operations=14, mask="output_mask")(streaming)  # fmt: skip
formula("_fused_rms_norm_backward", written="input weight", read="grad_out input rstd weight",
        operations=10, mask="output_mask")(streaming)  # fmt: skip
formula("native_group_norm_backward", written="input weight weight", read="grad_out input mean rstd weight",
        operations=14, mask="output_mask")(streaming)  # fmt: skip
formula("native_batch_norm_backward batch_norm_backward", names={"save_invstd": "save_var"},
        written="input weight weight", read="grad_out input weight save_mean save_invstd",
        operations=12, mask="output_mask")(streaming)  # fmt: skip
formula("cudnn_batch_norm_backward miopen_batch_norm_backward", written="input weight weight",
        read="input grad_output weight save_mean save_var", operations=12)(streaming)  # fmt: skip
formula("batch_norm_backward_elemt", written="input", read="grad_out input mean invstd weight sum_dy sum_dy_xmu",
        operations=6)(streaming)  # fmt: skip
formula("_masked_softmax", written="input", read="input mask", operations=5)(streaming)
formula("_masked_softmax_backward", written="grad_output", read="grad_output output mask", operations=4)(streaming)
formula("_weight_norm_interface", written="v g", read="v g", operations=4)(streaming)
formula("_weight_norm_interface_backward", written="saved_v saved_g", read="grad_w saved_v saved_g saved_norms",
        operations=8)(streaming)  # fmt: skip
