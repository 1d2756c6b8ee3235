"""All analyses: one module each, one line each here. A module is imported when its analysis is first used."""

import importlib

TYPE_CHECKING = False  # as in typing, which takes as long to import as all of this

if TYPE_CHECKING:
    from typing import Any, Final

    from kinetoscope.model.analysis import Analysis, Question

    ANALYSES: tuple[Analysis, ...]

GROUPS: "Final[dict[str, tuple[str, ...]]]" = {
    "What was recorded": ("trace_info", "recording_kinds"),
    "Where time goes": (
        "step_breakdown",
        "temporal_breakdown",
        "idle_breakdown",
        "idle_gaps",
        "critical_path",
        "critical_path_events",
        "synchronizations",
    ),
    "By operator, module and range": (
        "operators",
        "operator_stacks",
        "modules",
        "annotations",
        "flame",
    ),
    "Device work": (
        "kernels",
        "kernel_kinds",
        "categories",
        "kernel_sequences",
        "graphs",
        "graph_nodes",
        "overlap",
        "device_utilization",
        "device_utilization_series",
        "roofline",
        "flops",
        "fusion",
        "peaks",
        "other_devices",
        "hardware_counters",
        "counters",
        "throttling",
        "memory_bandwidth",
        "memory_bandwidth_series",
    ),
    "Serving": ("serving_steps", "serving_summary"),
    "Compiled code": (
        "compiled_kernels",
        "compilations",
        "graph_breaks",
    ),
    "Launching": (
        "launches",
        "launch_statistics",
        "operator_launch_delay",
        "queue_length",
        "queue_length_series",
    ),
    "Memory": (
        "memory_curve",
        "memory_timeline",
        "memory_peak",
        "memory_oom",
        "memory_fragmentation",
        "memory_growth",
        "memory_by_operator",
        "memory_events",
        "memory_what_if",
    ),
    "Hangs": ("hang", "collective_states"),
    "The whole run": (
        "history_lost",
        "history_changes",
        "history_spikes",
        "history_returns",
        "history_phases",
        "history_windows",
        "history_steps",
        "history_ranks",
        "history_marks",
    ),
    "Across ranks": (
        "collectives",
        "process_groups",
        "rank_balance",
        "stragglers",
        "step_skew",
        "kernel_spread",
        "devices",
    ),
}
"""All analyses in the order in which people ask, below what they ask about."""

NAMES: "Final" = tuple(name for names in GROUPS.values() for name in names)
"""All of them."""

RECORDED: "Final" = (
    "trace_info",
    "recording_kinds",
    "compilations",
    *GROUPS["Memory"],
    *GROUPS["Serving"],
    *GROUPS["Hangs"],
    *GROUPS["The whole run"],
)
"""Those about all that was recorded: the faces ask them so, and the others about the steady steps."""

OWN: "Final" = "Your own"
"""The group of analyses of extensions."""

__all__ = ["ANALYSES", "GROUPS", "NAMES", "RECORDED", "asked", "groups", "named", "names"]


def groups() -> "dict[str, tuple[str, ...]]":
    """All analyses by group, those of extensions last.

    Raises:
        InputError: an extension cannot be loaded, or two analyses have one name.
    """
    return GROUPS | ({OWN: tuple(own)} if (own := _own()) else {})


def names() -> "tuple[str, ...]":
    """All analyses, those of extensions last."""
    return (*NAMES, *_own())


def asked(name: str, **params: "Any") -> "Question":
    """The question of the analysis of this name; `select` is one of the parameters.

    Raises:
        UsageError: it has no such parameter, or this cannot be its value.
    """
    return named(name).asked(**params)


def named(name: str) -> "Analysis":
    """The analysis of this name, which is one of `names()`."""
    if name not in NAMES:
        return _own()[name]
    analysis: Analysis = importlib.import_module(f"{__name__}.{name}").ANALYSIS
    return analysis


def _own() -> "dict[str, Analysis]":
    """The analyses of extensions by name."""
    from kinetoscope.errors import InputError
    from kinetoscope.extensions import declared
    from kinetoscope.model.analysis import Analysis

    own: dict[str, Analysis] = {}
    for analysis in declared(Analysis):
        if analysis.function.__module__.startswith("kinetoscope."):
            continue  # ours, imported there
        if analysis.name in NAMES or analysis.name in own:
            raise InputError(f"the analysis {analysis.name} of an extension has the name of another one; rename it")
        own[analysis.name] = analysis
    return own


def __getattr__(name: str) -> "Any":
    if name != "ANALYSES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = analyses = tuple(named(each) for each in NAMES)
    return analyses
