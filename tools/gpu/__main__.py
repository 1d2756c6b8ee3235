"""The two halves: `record` on the machine with a device, `judge` anywhere.

    python -m tools.gpu record --out DIR                 eight minutes of the most valuable; again: the next eight
    python -m tools.gpu record --out DIR --parts zoo     a part, or part/name
    python -m tools.gpu record --list                    which there are
    python -m tools.gpu judge DIR/gpu-*.tar -o build/gpu-judged

Recording needs torch alone. What is done is kept in --work and is not run again there; a fresh machine knows nothing of
it, so say where to go on (--from); the last line says where that is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from tools.gpu.facts import facts
from tools.gpu.packing import pack
from tools.gpu.running import FAILED, folder_of, outcome_of, run_all
from tools.gpu.tasks import ROOT, Setting, Task, selected, tasks


def main() -> int:
    """The exit code is 1 if a task failed, or what was recorded breaks what it is held to."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    halves = parser.add_subparsers(dest="half", required=True)
    record = halves.add_parser("record", help="on the machine with the device")
    record.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or ROOT / "build" / "gpu-archives"))
    record.add_argument("--work", type=Path, default=ROOT / "build" / "gpu")
    record.add_argument("--device", default="", help="cuda, cpu, ...; by default the first that torch sees")
    record.add_argument("--parts", nargs="+", default=[], metavar="PART", help="only these: PART or PART/NAME")
    record.add_argument("--from", dest="first", default="", metavar="PART", help="this and what follows it")
    record.add_argument("--minutes", type=float, default=8.0, help="of this call (8)")
    record.add_argument("--again", action="store_true", help="run anew what failed or took too long")
    record.add_argument("--small", action="store_true", help="little of everything: a test that it runs")
    record.add_argument("--list", action="store_true", help="say what there is")
    judge = halves.add_parser("judge", help="of archives, without a device")
    judge.add_argument("archives", nargs="+", type=Path)
    judge.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "gpu-judged")
    judge.add_argument(
        "--keep", type=Path, help="strip small traces of names and paths, and put them here, as test data"
    )
    args = parser.parse_args()
    if args.half == "record":
        return _record(args)
    from tools.gpu.judging import judge as judged  # needs the whole package, which recording does not

    return judged(args.archives, args.output, keep=args.keep)


def _record(args: argparse.Namespace) -> int:
    try:
        chosen = selected(args.parts, args.first)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if args.list:
        for task in chosen:
            print(f"{task.key:<44}at most {task.seconds:>3} s{'  needs CUDA' if task.cuda else ''}")
        return 0
    about = facts()
    if "problem" in about:
        sys.stderr.write(f"torch cannot be imported here: {' '.join(about['problem'])}\n")
        return 2
    setting = Setting(args.device or ("cuda" if about["devices"] else "cpu"), args.small)
    names = ", ".join(each["name"] for each in about["devices"]) or "no CUDA device"
    print(f"torch {about['torch']}, {names}; recording on {setting.device}")
    dropped: list[str] = []

    def packed() -> None:
        parts = list(dict.fromkeys(each.part for each in tasks()))
        dropped[:] = pack(args.work, args.out, parts, about={**about, "device": setting.device, "small": args.small})

    left = run_all(chosen, setting, args.work, minutes=args.minutes, again=args.again, after_part=packed)
    packed()
    return _report(chosen, left, dropped, args)


def _report(chosen: list[Task], left: list[Task], dropped: list[str], args: argparse.Namespace) -> int:
    archives = sorted(args.out.glob("gpu-*.tar"))
    size = sum(file.stat().st_size for file in archives)
    print(f"{len(archives)} archive{'s' * (len(archives) != 1)}, {size / 1e6:.1f} MB, in {args.out}")
    for each in dropped:
        print(f"no room for {each}")
    ended = {task: outcome_of(folder_of(args.work, task)) for task in chosen}
    if left:
        counts = Counter(each.part for each in left)
        told = ", ".join(part if count == 1 else f"{part} ({count})" for part, count in counts.items())
        print(f"left for want of time: {told}")
        print(f"the next call goes on here; on a fresh machine: --from {left[0].key}")
    bad = [task.key for task, outcome in ended.items() if outcome is not None and outcome.state in FAILED]
    if bad:
        print(f"did not end well: {', '.join(bad)}; --again runs them anew")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
