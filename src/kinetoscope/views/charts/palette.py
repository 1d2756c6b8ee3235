"""What colour means: the one place where a kind of time has its colour, glyph and label.

Terminal, charts and pages take their colours from here. A column is coloured by the kind that its name stands for;
a name that stands for none is drawn in the neutral colour, never in one that would mean something else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ink:
    """How a kind is drawn: on light and dark pages, on a terminal (of unknown background), and without colour."""

    light: str
    dark: str
    terminal: str
    glyph: str


# Okabe and Ito's colours, which colour-blind eyes tell apart. The terminal's are the dark page's, because they also
# read on white, except the neutral one, which must be seen on both.
KINDS: dict[str, Ink] = {
    "computation": Ink("#0072b2", "#3d9bd6", "#3d9bd6", "█"),
    "communication": Ink("#e69f00", "#f0b429", "#f0b429", "▓"),
    "memory": Ink("#009e73", "#2bbd92", "#2bbd92", "▒"),
    "data_loading": Ink("#cc79a7", "#db92bb", "#db92bb", "▞"),
    "runtime": Ink("#56b4e9", "#7fc8f3", "#7fc8f3", "▚"),
    "host": Ink("#8a94a6", "#7d8798", "#8a94a6", "░"),
    "waiting": Ink("#d55e00", "#f0763a", "#f0763a", "╳"),
    "idle": Ink("#e8e9e7", "#2b2f35", "#6c727d", "·"),
}

OWNERS: tuple[Ink, ...] = (
    Ink("#3b6fb6", "#6f9ddb", "#6f9ddb", "█"),
    Ink("#d9792b", "#e89a55", "#e89a55", "▓"),
    Ink("#3f9b63", "#67be88", "#67be88", "▒"),
    Ink("#8a5fb0", "#b08fd6", "#b08fd6", "▞"),
    Ink("#b5495b", "#dd7f90", "#dd7f90", "▚"),
    Ink("#2a9aa8", "#57bfcb", "#57bfcb", "╳"),
)
"""What belongs to one of several owners, which are no kinds of time: told apart, with no meaning of their own."""

CATEGORIES: dict[str, Ink] = {
    "parameter": Ink("#3f9b63", "#67be88", "#67be88", "█"),
    "gradient": Ink("#3b6fb6", "#6f9ddb", "#6f9ddb", "▓"),
    "optimizer_state": Ink("#8a5fb0", "#b08fd6", "#b08fd6", "▒"),
    "activation": Ink("#b5495b", "#dd7f90", "#dd7f90", "▞"),
    "temporary": Ink("#d9792b", "#e89a55", "#e89a55", "▚"),
    "workspace": Ink("#2a9aa8", "#57bfcb", "#57bfcb", "╳"),
    "collective_buffer": KINDS["communication"],
    "input": KINDS["data_loading"],
    "kv_cache": KINDS["runtime"],
    "graph_pool": Ink("#7a6a4f", "#ab9a7c", "#ab9a7c", "░"),
    "unknown": KINDS["host"],
}
"""What bytes of memory are held for; communication and data loading as everywhere."""

# The column and category names of tables that stand for a kind.
_MEANS: dict[str, str] = {
    "kernel": "computation",
    "compute": "computation",
    "exposed_communication": "communication",
    "overlap": "communication",
    "collective": "communication",
    "copy": "memory",
    "memcpy": "memory",
    "memset": "memory",
    "exposed_memory": "memory",
    "dataloader": "data_loading",
    "runtime_calls": "runtime",
    "driver": "runtime",
    "cpu": "host",
    "cpu_exec": "host",
    "host_ops": "host",
    "other_host": "host",
    "other_host_ops": "host",
    "at_limit": "computation",
    "fusable": "waiting",
    "unfused_attention": "waiting",
    "small_kernels": "waiting",
    "unfilled": "waiting",
    "below_peak": "waiting",
    "below_bandwidth": "waiting",
    "links": "waiting",
    "headroom": "waiting",
    "uncovered": "idle",
    "exposed_waiting": "waiting",
    "at_stake_low": "waiting",
    "at_stake_high": "waiting",
    "other": "idle",
    "device_busy": "computation",
    "device_between": "memory",
    "device_idle": "idle",
    "gap": "waiting",
    "data": "data_loading",
    "forward": "computation",
    "backward": "runtime",
    "optimizer": "memory",
    "rest": "idle",
}


def kind_of(name: str) -> str:
    """The kind that a column or category name stands for; "" if it stands for none."""
    word = _word(name)
    return word if word in KINDS else _MEANS.get(word, "")


def ink(name: str) -> Ink:
    """How to draw what `name` stands for; neutral if that is neither a kind of time nor a category of memory."""
    return CATEGORIES.get(_word(name)) or KINDS[kind_of(name) or "idle"]


def colour(name: str, *, dark: bool = False) -> str:
    """`#rrggbb` of what `name` stands for on a page; that of the host if it stands for nothing."""
    drawn = ink(name if kind_of(name) or _word(name) in CATEGORIES else "host")
    return drawn.dark if dark else drawn.light


def _word(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")
