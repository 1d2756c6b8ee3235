"""Draw the programs, judge the advisor, write the page and its plot: `python -m tests.faults [PART OF A NAME]`.

With a part, only the cases whose family, code or name holds it are drawn; what is kept of the others stays.
"""

from __future__ import annotations

import sys
import time

from tests.faults import page, plot
from tests.faults.cases import cases, healthy
from tests.faults.judging import Judged, judged, warnings
from tests.faults.outcomes import FILE, REAL, Outcomes, Warned, read


def main() -> int:
    """All of them, or those whose family, code or name holds a text. 1 if something is not right."""
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    begun, found, wrong = time.perf_counter(), list[Judged](), list[Warned]()
    for case in cases():
        if asked in f"{case.family}: {case.code} {case.name}":
            found.append(judged(case))
            print(_line(found[-1]), flush=True)
    for program in healthy():
        if asked in f"Healthy: {program.name}":
            wrong.append(Warned(program.name, tuple(each.code for each in warnings(program))))
            print(
                f"{'ok' if not wrong[-1].codes else 'WRONG':6} {program.name} {' '.join(wrong[-1].codes)}", flush=True
            )
    drawn = Outcomes(tuple(found), tuple(wrong))
    _keep(drawn)
    print(page.scores(drawn))
    print(f"{len(drawn.cases)} cases in {time.perf_counter() - begun:.0f} s")
    return int(any(not _right(each) for each in found) or any(each.codes for each in wrong))


def _keep(drawn: Outcomes) -> None:
    """What was drawn takes the place of what was kept of it; what is no case any more goes."""
    before = read(FILE)
    judged_now = {_key(each): each for each in (*before.cases, *drawn.cases)}
    warned_now = {each.name: each for each in (*before.healthy, *drawn.healthy)}
    order = [judged_now[key] for case in cases() if (key := (case.family, case.code, case.name)) in judged_now]
    names = [warned_now[each.name] for each in healthy() if each.name in warned_now]
    FILE.write_text(Outcomes(tuple(order), tuple(names)).text())
    both = read(FILE, REAL)
    page.PAGE.write_text(page.text(both))
    plot.FILE.write_text(plot.svg(both.cases))


def _key(each: Judged) -> tuple[str, str, str]:
    return each.family, each.code, each.name


def _right(each: Judged) -> bool:
    return each.found and not each.false and (each.kept or not each.timed)


def _line(each: Judged) -> str:
    low, high = each.promised
    says = "ok" if _right(each) else "MISSED" if not each.found else "WRONG" if each.false else "BROKEN"
    told = f"{each.severity:8} #{each.place} {low:6.1%} … {high:6.1%} gained {each.gain:6.1%}"
    return f"{says:6} {each.code:10} {each.name:60.60} {each.faulty / 1e6:8.2f} ms {told} {' '.join(each.false)}"


if __name__ == "__main__":
    sys.exit(main())
