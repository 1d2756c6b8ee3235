"""Make all comparisons, print how many agree, and write the table and the page: `python -m tests.golden [PEER]`."""

from __future__ import annotations

import sys
import time

from tests.golden import hta, page, plugin
from tests.golden.rows import FILE, expected, outcome, rows


def main() -> int:
    """Write what came out, of one peer or of all; 1 if a comparison is neither equal nor different on purpose."""
    if not (hta.FOLDER.is_dir() and plugin.FOLDER.is_dir()):
        print(f"no {hta.FOLDER.parent}: nothing to compare with", file=sys.stderr)
        return 1
    begun, failed = time.perf_counter(), 0
    peers = sys.argv[1:]
    found = {row: text for row, text in expected().items() if peers and row.peer not in peers}
    for row in rows():
        if row in found:
            continue
        try:
            found[row] = str(outcome(row))
        except (AssertionError, KeyError, ImportError) as error:
            failed += 1
            print(f"{row}: {error!r}", file=sys.stderr)
    FILE.write_text("".join(f"{row.line()}\t{text}\n" for row, text in sorted(found.items())))
    page.PAGE.write_text(page.text(found))
    print(page.counts(found))
    print(f"{len(found)} comparisons in {time.perf_counter() - begun:.0f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
