"""The rules: one module each, one line each here.

A module has `RULE`, a `Rule`; its function's docstring says what is checked, why it matters and what to do.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Final

from kinetoscope.advisor.rule import Rule

FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "Data": (
        "loading_in_the_main_process",
        "too_few_workers",
        "slow_first_batch",
        "waiting_for_data",
        "copies_from_pageable_memory",
        "images_copied_as_floats",
        "blocking_copies",
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
    ),
    "Device": (
        "matrix_units_unused",
        "shapes_beside_the_matrix_units",
        "kernels_that_leave_the_device_empty",
        "layout_transposes",
        "unfused_attention",
        "idle_device",
    ),
    "Memory": (
        "unused_memory",
        "memory_near_the_limit",
        "allocator_calls_in_steady_state",
        "fragmented_memory",
        "growing_memory",
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
    ),
    "Recording": (
        "recording_without_steps",
        "recording_options",
    ),
}  # fmt: skip
"""All rules, below what they are about, in the order of their codes."""


@cache
def families() -> dict[str, tuple[Rule, ...]]:
    """All rules by family, in the order of `FAMILIES`."""
    return {
        family: tuple(importlib.import_module(f"{__name__}.{name}").RULE for name in names)
        for family, names in FAMILIES.items()
    }


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, in the order of `FAMILIES`."""
    return tuple(rule for of_family in families().values() for rule in of_family)
