"""What `apart` starts: it reads questions, a line of JSON each, and answers them. It knows Polars and nothing else."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path[:] = sys.path[1:]  # the folder of this file, whose modules are not meant to be found by their bare names

import polars as pl  # noqa: E402


def _bound(memory: int) -> None:
    """Take no more memory than what is taken already and this; where the system can be told so."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(question: dict[str, Any]) -> dict[str, str]:
    tables = {name: pl.read_ipc(place).lazy() for name, place in question["tables"].items()}
    try:
        answer = pl.SQLContext(tables).execute(question["query"])
        plan = answer.explain(optimized=False) if question["check"] else ""
        frame = pl.DataFrame(schema=answer.collect_schema()) if question["check"] else answer.collect()
        frame.write_ipc(question["answer"])
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, OSError) as error:
        return {"error": str(error)}
    return {"plan": plan}


def main() -> None:
    """The loop over questions, until the input ends."""
    for line in sys.stdin:
        question = json.loads(line)
        _bound(question["memory"])
        sys.stdout.write(json.dumps(_answer(question)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
