"""Record programs of the zoo, say what came of it, and write the page: `python -m tests.zoo [NAME...]`.

python -m tests.zoo                         all programs in all ways, with their twins, and the page
python -m tests.zoo gan lbfgs               these two; nothing is kept
python -m tests.zoo gan --kept DIR          the traces stay there
python -m tests.zoo gan --page              and what came of it goes into the page
python -m tests.zoo --gain --ways --page    what the fixes bring, measured anew
python -m tests.zoo --only-page             the page anew, of what was kept
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.zoo import page
from tests.zoo.catalogue import Program, programs
from tests.zoo.judging import GAIN, TWIN, Outcome, judged, keep, kept, measured
from tests.zoo.recording import WAYS


def main() -> int:
    """1 if something is not as it has to be."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("names", nargs="*", metavar="NAME")
    asked.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS, help="those alone; of none only --gain is left")
    asked.add_argument("--twins", nargs="*", choices=WAYS, default=None, help="ways of the twin (those of --ways)")
    asked.add_argument("--gain", action="store_true", help="measure what the fix brings, too")
    asked.add_argument("--compare", action="store_true", help="run each without a recorder, too, for its result")
    asked.add_argument("--again", action="store_true", help="judge what --kept has, and record only the rest")
    asked.add_argument("--missing", action="store_true", help="only what the page does not have yet")
    asked.add_argument("--kept", type=Path, metavar="DIR", help="where the traces stay")
    asked.add_argument("--page", action="store_true", help="keep what came of it, and write the page")
    asked.add_argument("--only-page", action="store_true", help="record nothing")
    options = asked.parse_args()
    chosen = [each for each in programs() if each.name in options.names or not options.names]
    names = [each.name for each in programs()]
    done = {(each.program, each.way) for each in kept()} if options.missing else set()
    wrong = 0
    for program in [] if options.only_page else chosen:
        if program.absent:
            print(f"{program.name}: not recorded, as {', '.join(program.absent)} is not installed")
            continue
        for outcome in _outcomes(program, options, done):
            wrong += bool(outcome.broken)
            print(_line(outcome), flush=True)
            if options.page or not options.names:
                keep([outcome], names)
    if options.page or options.only_page or not options.names:
        page.PAGE.write_text(page.text(programs(), kept()))
    return int(wrong > 0)


def _outcomes(program: Program, options: argparse.Namespace, done: set[tuple[str, str]]) -> Iterator[Outcome]:
    twins = (options.ways if options.twins is None else options.twins) if program.slow else ()
    for way in WAYS:
        for fixed in (False, True):
            wanted = way in (twins if fixed else options.ways)
            if wanted and (program.name, way + TWIN * fixed) not in done:
                yield judged(
                    program, way, fixed=fixed, folder=options.kept, compare=options.compare, anew=not options.again
                )
    if options.gain and program.slow and (program.name, GAIN) not in done:
        yield measured(program)


def _line(each: Outcome) -> str:
    head = f"{'BROKEN' if each.broken else 'ok':6} {each.program:28} {each.way:22}"
    if each.way == GAIN:
        return f"{head} {'cannot be measured' if each.gain is None else f'{each.gain:.1%}'}"
    found = f"{each.code} {each.severity} #{each.place} {each.low:.1%} … {each.high:.1%} {each.certainty}"
    told = [f"{head} {found if each.code else '–'}", f"first: {each.first}"]
    told += [f"also: {' '.join(each.warned)}"] if each.warned else []
    return "\n       ".join(told + [f"! {wrong}" for wrong in each.broken])


if __name__ == "__main__":
    sys.exit(main())
