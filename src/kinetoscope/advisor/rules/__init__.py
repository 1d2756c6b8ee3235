"""The rules: one module each, one line each here.

A module has `RULE`, a `Rule`; its function's docstring says what is checked, why it matters and what to do.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

from kinetoscope.advisor.rule import Rule
from kinetoscope.errors import InputError
from kinetoscope.extensions import declared

FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "Data": (
        "loading_in_the_main_process",
        "too_few_workers",
        "slow_first_batch",
        "waiting_for_data",
        "copies_from_pageable_memory",
        "images_copied_as_floats",
        "blocking_copies",
        "padded_sequences",
        "exposed_copies_to_device",
    ),
    "Host": (
        "launch_bound_steps",
        "waiting_for_the_device",
        "small_elementwise_operators",
        "optimizer_by_parameter",
        "gradients_set_to_zero",
        "garbage_collection",
        "compiling_in_the_loop",
        "unexplained_host_time",
        "launches_that_wait",
        "computing_on_the_host",
        "anomaly_detection",
        "graph_without_backward",
        "forward_twice",
        "backward_twice",
        "values_one_by_one",
        "more_threads_than_cores",
    ),
    "Device": (
        "matrix_units_unused",
        "shapes_beside_the_matrix_units",
        "kernels_that_leave_the_device_empty",
        "layout_transposes",
        "unfused_attention",
        "idle_device",
        "needless_copies",
        "logits_in_fp32",
        "products_in_sixteen_bits",
        "weights_read_for_few_rows",
        "small_products_in_a_row",
        "products_below_their_peak",
        "double_precision",
        "low_clock",
    ),
    "Memory": (
        "unused_memory",
        "memory_near_the_limit",
        "allocator_calls_in_steady_state",
        "fragmented_memory",
        "growing_memory",
        "dense_embedding_gradient",
        "recomputed_activations",
        "emptied_caches",
        "failed_request",
        "large_optimizer_state",
        "activations_of_layers",
        "short_lived_peak",
        "many_graph_pools",
        "graph_kept_without_backward",
    ),
    "Across ranks": (
        "data_parallel",
        "gloo_between_devices",
        "exposed_communication",
        "many_small_collectives",
        "straggling_rank",
        "uneven_work",
        "slow_link",
        "waiting_at_step_boundaries",
        "communication_of_one_rank",
        "collectives_below_the_link",
        "waiting_tensor_parallel_ranks",
    ),
    "Serving": (
        "decoding_without_graphs",
        "padded_replays",
        "prompts_hold_up_decoding",
        "gaps_between_serving_steps",
        "sampling_between_steps",
    ),
    "Recording": (
        "recording_without_steps",
        "recording_options",
        "done_once",
    ),
}  # fmt: skip
"""All rules, below what they are about, in the order of their codes."""


OWN: Final = "Your own"
"""The family of rules of extensions."""


@cache
def ours() -> dict[str, tuple[Rule, ...]]:
    """Our rules by family, in the order of `FAMILIES`."""
    return {
        family: tuple(importlib.import_module(f"{__name__}.{name}").RULE for name in names)
        for family, names in FAMILIES.items()
    }


@cache
def our_rules() -> tuple[Rule, ...]:
    """Our rules, in the order of `FAMILIES`."""
    return tuple(rule for of_family in ours().values() for rule in of_family)


def families() -> dict[str, tuple[Rule, ...]]:
    """All rules by family, those of extensions last.

    Raises:
        InputError: an extension cannot be loaded, or two rules have one code.
    """
    return ours() | ({OWN: own} if (own := own_rules()) else {})


def rules() -> tuple[Rule, ...]:
    """All rules, those of extensions last."""
    return (*our_rules(), *own_rules())


def own_rules() -> tuple[Rule, ...]:
    """The rules of extensions."""
    codes = {rule.code for rule in our_rules()}
    own = []
    for rule in declared(Rule):
        if (rule.of_rank or rule.of_job).__module__.startswith("kinetoscope."):
            continue  # ours, imported there
        if rule.code in codes:
            raise InputError(f"the rule {rule.code} of an extension has the code of another one; give it a new one")
        codes.add(rule.code)
        own.append(rule)
    return tuple(own)
