"""Proof that a refactoring changes no answer: records what every analysis says of every trace, and compares records.

    PYTHONPATH=OLD/src python tools/equality.py record before
    PYTHONPATH=NEW/src python tools/equality.py record after
    python tools/equality.py compare before after

A question is an analysis, without options, or `advise`. Its answer is what `--format json` writes: columns with type,
rows, notes; or the error. Only public names of the package are used, so that any commit can be asked. A case is a file
in `../shared/traces`, `../shared/samples` or `tests/traces`, or the files of one folder whose names differ only in
digits, as those of the ranks of a job do. A record depends neither on the time nor on the place of the checkout.
All that either record holds is compared; `--only` and `--analyses`, which both verbs take, narrow it.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT.parent / "shared/traces", ROOT.parent / "shared/samples", ROOT / "tests/traces")
SUFFIXES = (".json", ".gz")
PROSE = frozenset({"message", "why", "change", "evidence", "verdict", "detail"})
"""Columns of sentences, which `--numbers` ignores; other text is names and codes."""
MAX_CELLS_SHOWN = 5

Case = tuple[str, str, tuple[str, ...]]
"""Its name, the folder that its files are named from, the files."""


def cases(paths: list[Path]) -> Iterator[Case]:
    """Each trace below the paths, and each set of traces of one job."""
    for path in dict.fromkeys(each.resolve() for each in paths):
        parents = (base for base in (ROOT, ROOT.parent) if path.is_relative_to(base))
        base = next(parents, path.parent)
        files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES)
        jobs: dict[str, list[str]] = {}
        for file in (str(each.relative_to(base)) for each in files):
            yield file, str(base), (file,)
            folder, slash, name = file.rpartition("/")
            jobs.setdefault(folder + slash + re.sub(r"\d+", "#", name), []).append(file)
        yield from ((name, str(base), tuple(ranks)) for name, ranks in jobs.items() if len(ranks) > 1)


def record(case: Case, out: str, analyses: tuple[str, ...]) -> tuple[str, float]:
    """Ask one case all questions, write the record; the name of the case and the seconds it took."""
    import kinetoscope

    began = time.monotonic()
    name, base, files = case
    os.chdir(base)  # notes and errors name files
    questions: dict[str, Any] = {each.name: each for each in kinetoscope.ANALYSES}
    questions["advise"] = lambda job: kinetoscope.advise(job).result
    answers = {}
    try:
        job = kinetoscope.read(files, jobs=len(files))  # as many at a time as there are: they are kept
    except kinetoscope.KinetoscopeError as error:
        answers = {"read": {"error": str(error)}}
    else:
        answers = {key: answer(ask, job) for key, ask in questions.items() if not analyses or key in analyses}
        del job
        gc.collect()
    text = json.dumps({"case": name, "answers": answers}, sort_keys=True, allow_nan=False).replace(base + "/", "")
    path = Path(out) / (name.replace("/", "+") + ".json.gz")
    path.write_bytes(gzip.compress(text.encode(), 1, mtime=0))
    return name, time.monotonic() - began


def answer(ask: Any, job: Any) -> dict[str, Any]:
    """What a question is answered with; an error that is a defect has its type."""
    try:
        result = ask(job)
    except Exception as error:  # noqa: BLE001 - any failure is an answer to compare
        return {"error": f"{getattr(error, 'exit_code', type(error).__name__)}: {error}"}
    units = {column.name: column.unit for column in result.schema}
    columns = [[each.name, str(each.dtype), units.get(each.name, ""), plain(each.to_list())] for each in result.frame]
    return {"columns": columns, "notes": list(result.notes)}


def plain(value: Any) -> Any:
    """A cell, or all of a column, as the JSON of the command line holds it."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def differences(old: dict[str, Any], new: dict[str, Any], numbers: bool) -> Iterator[str]:
    """What differs between two answers to one question, a line each."""
    if "error" in old or "error" in new:
        if ("error" in old) != ("error" in new) or (not numbers and old != new):
            yield f"{old.get('error', 'rows')!r} → {new.get('error', 'rows')!r}"
        return
    heads = [[tuple(column[:3]) for column in each["columns"]] for each in (old, new)]
    if heads[0] != heads[1]:
        yield f"columns: {[x for x in heads[0] if x not in heads[1]]} → {[x for x in heads[1] if x not in heads[0]]}"
    if not numbers and old["notes"] != new["notes"]:
        yield f"notes: {[x for x in old['notes'] if x not in new['notes']]}"
        yield f"     → {[x for x in new['notes'] if x not in old['notes']]}"
    after = {column[0]: column[3] for column in new["columns"]}
    if old["columns"] and new["columns"] and len(old["columns"][0][3]) != len(new["columns"][0][3]):
        yield f"rows: {len(old['columns'][0][3])} → {len(new['columns'][0][3])}"
    cells = []
    for name, _, _, values in old["columns"]:
        others = after.get(name, values)
        if numbers and name in PROSE:
            values, others = [[each is None for each in column] for column in (values, others)]
        if values != others:
            pairs = enumerate(zip(values, others, strict=False))
            cells += [(row, name, before, now) for row, (before, now) in pairs if before != now]
    for row, name, before, now in sorted(cells, key=lambda cell: cell[0])[:MAX_CELLS_SHOWN]:
        yield f"row {row}, {name}: {before!r} → {now!r}"
    if len(cells) > MAX_CELLS_SHOWN:
        yield f"… {len(cells):,} cells differ"


def compare(old: Path, new: Path, only: str, analyses: tuple[str, ...], numbers: bool) -> int:
    """Print what differs between two records, and how much was compared; the exit code."""
    names = [{each.name for each in folder.glob("*.json.gz")} for folder in (old, new)]
    traces = questions = cells = differ = 0
    for name in sorted(names[0] | names[1]):
        if only not in name.replace("+", "/"):
            continue
        texts = [gzip.decompress((each / name).read_bytes()) if (each / name).exists() else b"" for each in (old, new)]
        before, after = ({} if not text else json.loads(text)["answers"] for text in texts)
        asked = [key for key in sorted(before | after) if not analyses or key in analyses or key == "read"]
        traces += 1
        questions += len(asked)
        for key in asked:
            if key not in before or key not in after:
                lines = [f"only in {(new, old)[key in before]}"]
            else:
                lines = list(differences(before[key], after[key], numbers))
                cells += sum(len(column[3]) for column in before[key].get("columns", ()))
            differ += bool(lines)
            for line in lines:
                print(f"{name.replace('+', '/').removesuffix('.json.gz')} · {key}: {line}")
    print(f"{traces} traces, {questions:,} answers, {cells:,} cells compared: {differ or 'no'} answers differ")
    return 1 if differ or not traces else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record", help="ask all questions, and write the answers to the folder OUT")
    recording.add_argument("out", type=Path)
    recording.add_argument("traces", type=Path, nargs="*", help="files or folders; by default all that tests have")
    recording.add_argument("-j", "--jobs", type=int, default=2, help="processes (default: 2)")
    comparing = verbs.add_parser("compare", help="print what differs between two records; exit code 1 if anything does")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--numbers", action="store_true", help="ignore sentences: notes, messages, texts of errors")
    for verb in (recording, comparing):
        verb.add_argument("--only", default="", metavar="FRAGMENT", help="only traces whose path has this in it")
        verb.add_argument("--analyses", default="", metavar="A,B", help="only these analyses, or `advise`")
    args = parser.parse_args()
    analyses = tuple(name.replace("-", "_") for name in args.analyses.split(",") if name)
    if args.verb == "compare":
        return compare(args.old, args.new, args.only, analyses, args.numbers)
    import kinetoscope

    print(f"asking {Path(kinetoscope.__file__).parent}", file=sys.stderr)
    args.out.mkdir(parents=True, exist_ok=True)
    paths = args.traces or [folder for folder in FOLDERS if folder.exists()]
    chosen = [case for case in cases(paths) if args.only in case[0]]
    chosen.sort(key=lambda case: -sum((Path(case[1]) / file).stat().st_size for file in case[2]))
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        pending = [pool.submit(record, case, str(args.out.resolve()), analyses) for case in chosen]
        for done in as_completed(pending):
            name, seconds = done.result()
            print(f"{name} {seconds:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
