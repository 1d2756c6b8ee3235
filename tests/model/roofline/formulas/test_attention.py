"""Attention, against numbers worked out by hand, masks that torch makes, and counting each pair."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.roofline.formulas.attention import Mask, packed_pairs
from tests.model.roofline.formulas.costs import Dims, cost_of, flop_of

QUERY, KEY, VALUE = [2, 8, 10, 64], [2, 8, 20, 64], [2, 8, 20, 32]
OUT = [2, 8, 10, 32]
SCORES = 2 * 2 * 8 * 10 * 20
"""FLOPs for each element of a row of the query or the value."""


def after(shape: list[int]) -> list[int]:
    """With the heads after the length."""
    return [shape[0], shape[2], shape[1], shape[3]]


# --- pairs

lengths = st.integers(1, 12)
sides = st.none() | st.integers(0, 14)


@given(lengths, lengths, sides, sides, st.booleans())
def test_pairs_are_those_that_a_mask_lets_through(
    queries: int, keys: int, left: int | None, right: int | None, from_end: bool
) -> None:
    row, column = np.mgrid[:queries, :keys]
    distance = column - (row + (keys - queries if from_end else 0))
    mask = (distance <= (keys + queries if right is None else right)) & (
        distance >= -(keys + queries if left is None else left)
    )
    found = Mask(left, right, from_end)
    assert found.pairs(queries, keys) == mask.sum()
    assert found.seen(queries, keys) >= mask.any(axis=0).sum()  # with gaps only where a window misses every key
    assert found.width is None or mask.sum(axis=1).max() <= found.width


def test_causal_pairs_of_long_sequences_are_nearly_half() -> None:
    assert Mask(None, 0).pairs(1 << 17, 1 << 17) == (1 << 17) * ((1 << 17) + 1) // 2
    assert Mask(None, 0, from_end=True).pairs(1, 4096) == 4096
    assert Mask(None, 0).pairs(1, 4096) == 1
    assert Mask(127, 0, from_end=True).pairs(1, 4096) == 128
    assert Mask(127, 0, from_end=True).seen(1, 4096) == 128


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), sides, st.sampled_from([None, 0]))
def test_packed_sequences_that_attend_to_themselves_are_within_the_range(
    sizes: list[int], left: int | None, right: int | None
) -> None:
    mask = Mask(left, right, from_end=True)
    total, longest = sum(sizes), max(sizes)
    least, most = packed_pairs(total, total, len(sizes), (longest, longest), mask)
    possible = [
        sum(mask.pairs(each, each) for each in other)
        for other in product(range(longest + 1), repeat=len(sizes))
        if sum(other) == total and max(other) == longest
    ]
    assert least == min(possible)
    assert max(possible) <= most


pairs = st.tuples(st.integers(1, 6), st.integers(0, 6))


@given(st.lists(pairs, min_size=1, max_size=5), sides, st.booleans())
def test_packed_sequences_after_a_cache_are_within_the_range(
    sizes: list[tuple[int, int]], left: int | None, causal: bool
) -> None:
    mask = Mask(left, 0 if causal else None, from_end=True)
    queries, keys = [each for each, _ in sizes], [each + cached for each, cached in sizes]
    true = sum(mask.pairs(*each) for each in zip(queries, keys, strict=True))
    longest = max(queries), max(keys)
    least, most = packed_pairs(sum(queries), sum(keys), len(sizes), longest, mask)
    if (sum(queries), longest[0]) != (sum(keys), longest[1]):
        assert least <= true <= most


def test_one_query_a_sequence_is_exact() -> None:
    assert packed_pairs(4, 100, 4, (1, 40), Mask(None, 0, from_end=True)) == (100, 100)


# --- operators


@pytest.mark.parametrize("name", ["aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention"])
def test_attention_is_two_products(name: str) -> None:
    assert flop_of(name, [QUERY, KEY, VALUE, ""]) == SCORES * (64 + 32)


BACKWARD: Dims = [OUT, QUERY, KEY, VALUE, "", OUT, OUT[:3]]


def test_the_backward_pass_is_five_products() -> None:
    expected = SCORES * (64 + 32 + 32 + 64 + 64)  # scores anew; gradients of probabilities, value, query, key
    assert flop_of("aten::_scaled_dot_product_efficient_attention_backward", BACKWARD) == expected


def test_with_heads_after_the_length_it_is_the_same() -> None:
    dims = [after(QUERY), after(KEY), after(VALUE)]
    assert flop_of("aten::_flash_attention_forward", dims) == SCORES * 96
    assert flop_of("aten::_efficient_attention_forward", dims) == SCORES * 96
    assert flop_of("flash_attn::_flash_attn_backward", [after(OUT), *dims]) == SCORES * 256


def test_grouped_queries_share_their_keys() -> None:
    dims: Dims = [QUERY, [2, 2, 20, 64], [2, 2, 20, 32], ""]
    found = cost_of("aten::_scaled_dot_product_flash_attention", dims, None, "c10::Half")
    assert found is not None
    assert found.flop == SCORES * 96
    keys_and_values = 2 * 2 * 20 * (64 + 32)
    assert found.bytes == 2 * (prod(QUERY) + keys_and_values + prod(OUT)) + 4 * prod(OUT[:3])


def test_the_backward_pass_moves_each_tensor_and_its_gradient() -> None:
    found = cost_of("aten::_scaled_dot_product_efficient_attention_backward", BACKWARD, None, "c10::BFloat16")
    assert found is not None
    assert found.bytes == 2 * 2 * (prod(QUERY) + prod(KEY) + prod(VALUE) + prod(OUT)) + 4 * prod(OUT[:3])
    assert [list(each.shape) for each in found.outputs] == [QUERY, KEY, VALUE]


CAUSAL: list[tuple[str, Dims, dict[int, str], bool]] = [
    # The flag's place in each, and whether the positions are aligned at the last one.
    ("aten::scaled_dot_product_attention", [QUERY, KEY, VALUE], {5: "True"}, False),
    ("aten::_scaled_dot_product_flash_attention", [QUERY, KEY, VALUE], {4: "True"}, True),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", [QUERY, KEY, VALUE], {4: "True"}, False),
    ("aten::_scaled_dot_product_efficient_attention", [QUERY, KEY, VALUE], {6: "True"}, False),
    ("aten::_scaled_dot_product_cudnn_attention", [QUERY, KEY, VALUE], {6: "True"}, False),
    ("aten::_flash_attention_forward", [after(QUERY), after(KEY), after(VALUE)], {8: "True"}, True),
    ("aten::_efficient_attention_forward", [after(QUERY), after(KEY), after(VALUE)], {9: "1"}, False),
    ("aten::_efficient_attention_forward", [after(QUERY), after(KEY), after(VALUE)], {9: "2"}, True),
    ("flash_attn::_flash_attn_forward", [after(QUERY), after(KEY), after(VALUE)], {5: "True", 6: "-1", 7: "-1"}, True),
    ("FlashAttnFunc", [after(QUERY), after(KEY), after(VALUE)], {5: "True"}, True),
    ("aiter::mha_fwd", [after(QUERY), after(KEY), after(VALUE)], {5: "True", 6: "-1", 7: "0"}, True),
    ("flash_attn_3::fwd", [after(QUERY), after(KEY), after(VALUE)], {24: "True", 25: "-1", 26: "-1"}, True),
]


@pytest.mark.parametrize(("name", "dims", "concrete", "from_end"), CAUSAL)
def test_a_causal_mask_leaves_out_the_keys_that_follow(
    name: str, dims: Dims, concrete: dict[int, str], from_end: bool
) -> None:
    per_pair = 2 * 2 * 8 * (64 + 32)
    pairs = 10 * 20 - 10 * 9 // 2 if from_end else 10 * 11 // 2
    assert flop_of(name, dims, concrete) == per_pair * pairs


CAUSAL_BACKWARD = [
    ("aten::_scaled_dot_product_flash_attention_backward", 11, "heads first"),
    ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", 7, "heads first"),
    ("aten::_scaled_dot_product_efficient_attention_backward", 11, "heads first"),
    ("aten::_scaled_dot_product_cudnn_attention_backward", 14, "heads first"),
    ("aten::_flash_attention_backward", 11, "heads after"),
    ("flash_attn::_flash_attn_backward", 11, "heads after"),
    ("aiter::_flash_attn_backward", 12, "heads after"),
    ("aiter::mha_bwd", 8, "heads after"),
]


@pytest.mark.parametrize(("name", "place", "layout"), CAUSAL_BACKWARD)
def test_so_does_the_backward_pass(name: str, place: int, layout: str) -> None:
    same = [2, 8, 10, 64]
    dims = [same if layout == "heads first" else after(same)] * 4
    assert flop_of(name, dims, {place: "True"}) == 2 * 2 * 8 * (10 * 11 // 2) * 5 * 64
    assert flop_of(name, dims, {place: "False"}) == 2 * 2 * 8 * 100 * 5 * 64


def test_a_window_limits_the_keys_that_are_read() -> None:
    query, cache = [2, 1, 8, 64], [2, 4096, 8, 64]
    found = cost_of(
        "flash_attn::_flash_attn_forward", [query, cache, cache], {5: "True", 6: "127", 7: "0"}, "c10::Half"
    )
    assert found is not None
    assert found.flop == 2 * 2 * 8 * 128 * 128
    assert found.bytes == 2 * (2 * prod(query) + 2 * 2 * 128 * 8 * 64) + 4 * 2 * 8


def test_an_added_mask_is_read() -> None:
    plain = cost_of("aten::_scaled_dot_product_efficient_attention", [QUERY, KEY, VALUE, "", ""], {4: "False"})
    masked = cost_of("aten::_scaled_dot_product_efficient_attention", [QUERY, KEY, VALUE, [2, 1, 10, 20], ""])
    assert plain is not None
    assert masked is not None
    assert plain.bytes is not None
    assert masked.bytes == plain.bytes + 4 * (2 * 10 * 20 + 2 * 8 * 10)  # and the statistics, which were not wanted
    assert masked.flop == plain.flop


def test_empty_lengths_are_as_good_as_none() -> None:
    same = after([2, 8, 10, 64])
    dims: Dims = [same, same, same, same, same, [2, 8, 10], [0], [0], "", ""]
    assert flop_of("aten::_flash_attention_backward", dims, {11: "False"}) == 2 * 2 * 8 * 100 * 5 * 64


def test_packed_sequences_give_a_range() -> None:
    """30 tokens in 3 sequences of at most 16: 16, 7 and 7, or 16 and 14."""
    dims: Dims = [[30, 8, 64]] * 3 + [[4], [4]]
    found = cost_of("aten::_flash_attention_forward", dims, {5: "16", 6: "16", 8: "False"})
    assert found is not None
    assert (found.flop, found.flop_most) == tuple(
        2 * 8 * 128 * squares for squares in (16**2 + 2 * 7**2, 16**2 + 14**2)
    )
    assert found.bytes == 4 * 4 * 30 * 8 * 64 + 4 * 30 * 8


def test_a_paged_cache_is_read_as_far_as_the_sequences_reach() -> None:
    """4 sequences with one query each and up to 100 keys, of which a table holds 2 pages of 64 each."""
    query, cache = [4, 8, 64], [1000, 64, 2, 64]
    dims: Dims = [query, cache, cache, query, [5], "", [4], "", [4, 2]]
    found = cost_of("_vllm_fa2_C::varlen_fwd", dims, {10: "1", 11: "100", 15: "True", 16: "-1", 17: "-1"}, "c10::Half")
    assert found is not None
    assert (found.flop, found.flop_most) == (2 * 8 * 128 * 103, 2 * 8 * 128 * 400)
    fixed = 2 * 2 * prod(query) + 4 * 4 * 8
    assert (found.bytes, found.bytes_most) == (fixed + 2 * 2 * 103 * 2 * 64, fixed + 2 * 2 * 400 * 2 * 64)


def test_of_served_sequences_only_the_new_tokens_are_known() -> None:
    dims: Dims = [[32, 64, 64], [32, 8, 64], [32, 8, 64], [32, 64, 64]]
    found = cost_of("vllm::unified_attention_with_output", dims, None, "c10::BFloat16")
    assert found is not None
    assert (found.flop, found.is_least) == (2 * 64 * 128 * 32, True)
    assert found.bytes == 2 * (2 * 32 * 64 * 64 + 2 * 32 * 8 * 64)


requests = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 9)), min_size=1, max_size=4)
"""New tokens and tokens in the cache of each request."""


def sums_of(lengths: list[tuple[int, int]]) -> tuple[int, int, int, int]:
    """Σ q, Σ kv, Σ q², Σ q·kv."""
    pairs = [(q, q + cached) for q, cached in lengths]
    return (
        sum(q for q, _ in pairs),
        sum(kv for _, kv in pairs),
        sum(q * q for q, _ in pairs),
        sum(q * kv for q, kv in pairs),
    )


@given(requests, requests)
def test_the_name_of_a_step_gives_the_exact_cost_of_its_attention(
    prefill: list[tuple[int, int]], decode: list[tuple[int, int]]
) -> None:
    c, g = sums_of(prefill), sums_of([(1, cached) for _, cached in decode])
    name = (
        f"execute_{c[0] + g[0]}_context_{len(prefill)}(sq{c[0]}sk{c[1]}sqsq{c[2]}sqsk{c[3]})"
        f"_generation_{len(decode)}(sq{g[0]}sk{g[1]}sqsq{g[2]}sqsk{g[3]})"
    )
    tokens, keys = c[0] + g[0], c[1] + g[1]
    seen = sum(cached + k for q, cached in prefill for k in range(1, q + 1)) + g[1]
    query, cache = [tokens, 8, 64], [1000, 16, 2, 64]
    dims: Dims = [query, cache, cache, query, [len(prefill) + len(decode) + 1], "", [4], "", [4, 2]]
    texts = {10: "6", 11: "15", 15: "True", 16: "-1", 17: "-1"}
    found = cost_of("_vllm_fa2_C::varlen_fwd", dims, texts, "c10::Half", name)
    assert found is not None
    assert (found.flop, found.is_range) == (2 * 8 * 128 * seen, False)
    assert found.bytes == 2 * 2 * prod(query) + 4 * tokens * 8 + 2 * 2 * keys * 2 * 64
    windowed = cost_of("_vllm_fa2_C::varlen_fwd", dims, {**texts, 16: "3", 17: "0"}, "c10::Half", name)
    assert windowed == cost_of("_vllm_fa2_C::varlen_fwd", dims, {**texts, 16: "3", 17: "0"}, "c10::Half")
    served = [[tokens, 8, 64], [tokens, 2, 64], [tokens, 2, 64], query]
    most = cost_of("vllm::unified_attention_with_output", served, None, "c10::Half", name)
    assert most is not None
    assert (most.flop_most, most.is_least) == (2 * 8 * 128 * seen, False)
    assert most.bytes_most == 2 * (2 * prod(query) + 2 * keys * 2 * 64)


def test_a_graph_for_more_requests_computes_no_more_attention() -> None:
    name = "step[DECODE bs=30 g_sk=900 g_sqsq=30 g_sqsk=900]"
    dims: Dims = [[32, 64, 64], [32, 8, 64], [32, 8, 64], [32, 64, 64]]
    found = cost_of("vllm::unified_attention_with_output", dims, None, "c10::BFloat16", name)
    assert found is not None
    assert (found.flop, found.flop_most) == (2 * 64 * 128 * 30, 2 * 64 * 128 * 900)


def test_of_eight_bits_the_result_has_sixteen() -> None:
    dims = [QUERY, KEY, VALUE, [2, 8], [2, 8], [2, 8], "", "", "", ""]
    found = cost_of("aten::_scaled_dot_product_flash_attention", dims, {7: "True"}, "c10::Float8_e4m3fn")
    assert found is not None
    assert found.flop == 2 * 2 * 8 * (64 + 32) * (10 * 20 - 45)
    assert found.outputs[0].type is not None
    assert found.outputs[0].type.name == "bfloat16"
