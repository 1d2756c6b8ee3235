"""Settings of the caching allocator, as `PYTORCH_CUDA_ALLOC_CONF` gives them and as a snapshot has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from kinetoscope.algorithms.caching_allocator import LARGE_SEGMENT_BYTES
from kinetoscope.errors import UsageError
from kinetoscope.model.snapshot.rounding import DIVISION_SIZES

_OTHER_OPTIONS: Final = (
    *("backend", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "pinned_num_register_threads"),
    *("pinned_use_background_threads", "graph_capture_record_stream_reuse", "pinned_reserve_segment_size_mb"),
    *("pinned_max_power2_size_mb", "pinned_max_round_threshold_mb"),
)
"""Options that do not change where blocks are."""

_OPTION: Final = re.compile(r"\s*([a-z0-9_]+)\s*:\s*(\[[^\]]*\]|[^,\[\]]+?)\s*(?:,|$)")


@dataclass(frozen=True)
class AllocatorSettings:
    """Settings that decide where a request goes.

    Attributes:
        max_split_size: bytes from which on blocks are not split; None for no limit.
        max_non_split_rounding: how many bytes larger than requested such a block may be.
        roundup_power2_divisions: by the power of two in MiB, as `allocator_settings` of a snapshot has it.
        garbage_collection_threshold: share of the device's memory that is reserved, from which on unused segments are
            freed before more is allocated; 0 for never.
        expandable_segments: whether segments grow.
    """

    max_split_size: int | None = None
    max_non_split_rounding: int = LARGE_SEGMENT_BYTES
    roundup_power2_divisions: Mapping[str, int] = field(default_factory=dict)
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False


def recorded_settings(settings: Mapping[str, Any]) -> AllocatorSettings:
    """The settings of a snapshot (`Snapshot.settings`); what it does not say has torch's default."""
    split = settings.get("max_split_size", -1)
    divisions = settings.get("roundup_power2_divisions")
    threshold = settings.get("garbage_collection_threshold", 0.0)
    return AllocatorSettings(
        max_split_size=split if isinstance(split, int) and 0 < split < 1 << 62 else None,
        roundup_power2_divisions=divisions if isinstance(divisions, Mapping) else {},
        garbage_collection_threshold=float(threshold) if isinstance(threshold, int | float) else 0.0,
        expandable_segments=settings.get("expandable_segments") is True,
    )


def changed(settings: AllocatorSettings, text: str) -> AllocatorSettings:
    """The settings with what a text in the form of `PYTORCH_CUDA_ALLOC_CONF` changes.

    Raises:
        UsageError: it is not of that form, or changes what cannot be replayed.
    """
    end = 0
    while end < len(text.rstrip()):
        option = _OPTION.match(text, end)
        if not option:
            raise UsageError(f"{text!r} is not as PYTORCH_CUDA_ALLOC_CONF has it; write expandable_segments:True, say")
        settings, end = _with_option(settings, *option.groups()), option.end()
    return settings


def _with_option(settings: AllocatorSettings, name: str, value: str) -> AllocatorSettings:
    try:
        match name:
            case "expandable_segments":
                if value not in ("True", "False"):
                    raise ValueError
                return replace(settings, expandable_segments=value == "True")
            case "max_split_size_mb":
                if int(value) << 20 <= LARGE_SEGMENT_BYTES:
                    raise ValueError
                return replace(settings, max_split_size=int(value) << 20)
            case "max_non_split_rounding_mb":
                return replace(settings, max_non_split_rounding=int(value) << 20)
            case "garbage_collection_threshold":
                if not 0 < float(value) < 1:
                    raise ValueError
                return replace(settings, garbage_collection_threshold=float(value))
            case "roundup_power2_divisions":
                return replace(settings, roundup_power2_divisions=_divisions(value))
    except ValueError:
        raise UsageError(f"{value!r} is no value of {name}") from None
    if name not in _OTHER_OPTIONS or value == "cudaMallocAsync":
        raise UsageError(f"{name}:{value} cannot be replayed; see the options of torch's native allocator")
    return settings


def _divisions(value: str) -> dict[str, int]:
    """`4`, or `[256:1,512:2,>:4]`: for each power of two MiB (AllocatorConfig::parseRoundUpPower2Divisions)."""
    divisions = [0] * DIVISION_SIZES
    if not value.startswith("["):
        divisions = [_division(value)] * DIVISION_SIZES
    else:
        last = -1
        for size, _, count in (pair.strip().partition(":") for pair in value.strip("[]").split(",")):
            at = DIVISION_SIZES - 1 if size == ">" else min(int(size).bit_length() - 1, DIVISION_SIZES - 1)
            first = 0 if last < 0 else last + 1 if size == ">" else at
            divisions[first : at + 1] = [_division(count)] * (at + 1 - first)
            last = at
    return {str(1 << place): count for place, count in enumerate(divisions)}


def _division(text: str) -> int:
    count = int(text)
    if count < 0 or count & (count - 1):
        raise ValueError
    return count
