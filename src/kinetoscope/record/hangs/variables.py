"""The variables with which torch records its collectives, and writes them when its watchdog ends the job.

They are set in the process itself, right after torch was imported: it reads them with the first process group. One
that the user has set stays, under its old name, too. What is on by default stays as it is: newer torch dumps at a
timeout and with stacks, and tries again without them. The pipe that makes NCCL's watchdog dump on request is not made:
that dump takes the GIL for its stacks, and would wait for whoever holds it (pytorch#167023).
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, Final

DUMP_PREFIX: Final = "nccl_trace_rank_"
"""How the dump of NCCL's ring buffer is named, before the rank: by torch's watchdog and by us."""

_NEW, _OLD = 0, 1
_SETTINGS: Final = (
    (("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), "2000"),
    (("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), ""),
)
"""The name that torch reads since its Flight Recorder is one of all backends, and the one of before."""

_OLD_DUMP: Final = "TORCH_NCCL_DUMP_ON_TIMEOUT"
"""Off by default in torch 2.3 and 2.4, and of no effect to have on where it is the default."""


def is_recorder_of_all(bindings: Any) -> bool:
    """True if torch's Flight Recorder is that of all backends, and its variables have their new names."""
    return hasattr(bindings, "_dump_fr_trace")


def set_variables(folder: Path, *, of_all: bool, environment: MutableMapping[str, str] | None = None) -> list[str]:
    """Set what the user has not set; the names of those that were set.

    Args:
        folder: where dumps go.
        of_all: see `is_recorder_of_all`.
        environment: that of this process unless another is given.
    """
    variables = os.environ if environment is None else environment
    done = []
    for names, value in _SETTINGS:
        prefix = str(folder / DUMP_PREFIX)
        given = [name for name in names if name in variables and not _is_ours(variables[name], folder)]
        if not given:
            name = names[_NEW if of_all else _OLD]
            variables[name] = value or prefix
            done.append(name)
    if not of_all and _OLD_DUMP not in variables:
        variables[_OLD_DUMP] = "1"
        done.append(_OLD_DUMP)
    return done


def _is_ours(value: str, folder: Path) -> bool:
    """True if a path was set for the ranks before they were started again, or by what started them."""
    return value.startswith(str(folder.parent)) and value.endswith(DUMP_PREFIX)
