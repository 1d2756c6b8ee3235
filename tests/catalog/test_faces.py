"""One number on every face: each quantity that several faces show is the same on all of them, on every kind of trace.

Each face is asked through its own interface: the library, the command line, the API of the page, a report's embedded
answers, the tools of an assistant, SQL. Whole numbers must be equal; where a face shows a few digits, those.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

import kinetoscope
from kinetoscope.advisor.advice import advise
from kinetoscope.analyses import named
from kinetoscope.cli import main
from kinetoscope.compare.diff.diff import diff
from kinetoscope.integrations.assistant.runs import Folders
from kinetoscope.integrations.assistant.tools import call
from kinetoscope.model.steps.selection import Selection
from kinetoscope.server.app import Server, client_of, report_of
from kinetoscope.server.http.in_process_client import address
from kinetoscope.server.runs.workspace import Workspace
from kinetoscope.views.numbers import shown
from tests.catalog.samples import BUNDLED, SHARED

pytestmark = pytest.mark.xdist_group("faces")

SERVING = SHARED.parent / "samples" / "serving"

KINDS = (
    *(
        BUNDLED / name
        for name in ("mlp.pt.trace.json.gz", "no_steps.pt.trace.json.gz", "leak.pt.trace.json.gz", "ddp2")
    ),
    *(
        SHARED / name
        for name in (
            "alexnet_a100",
            "broken/truncated_inside.pt.trace.json.gz",
            "cpu_only",
            "critical_path/cuda_event_sync",
            "ddp_nccl_a100",
            "dlrm_ddp_v100_8rank",
            "dlrm_ddp_v100_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
            "eager_b200",
            "mi250_train",
            "mtia",
            "owlv2_h100",
            "queue_length",
            "resnet50_v100/num_workers_0",
            "resnet_ddp_mi300",
            "sampled_2rank",
        )
    ),
    SERVING / "sglang_prefilldecode",
    SERVING / "vllm_decode_full" / "graph_execution.json.gz",
)


def dicts(answer: Any) -> list[dict[str, Any]]:
    """The rows of a table as JSON, which has them as lists beside the columns."""
    names = [column.split(" ")[0] if isinstance(column, str) else column["name"] for column in answer["columns"]]
    return [dict(zip(names, row, strict=True)) for row in answer["rows"]]


STEADY = Selection(steps="steady")

Facts = dict[str, Any]
"""Quantity → value."""

PARTS = {
    "computation": ("computation",),
    "communication": ("communication",),
    "memory": ("memcpy", "memset"),
    "runtime": ("runtime",),
    "data_loading": ("data_loading",),
    "host": ("host",),
    "idle": ("other",),
}
"""Of a step, as Overview and summary have them."""


class Faces:
    """A run, and what each face says about it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job = kinetoscope.read(path)
        self.workspace = Workspace((str(path),))
        self.server = Server(self.workspace)
        self.inside = client_of(self.server)
        [self.run] = self.get("runs")["runs"]
        self.id = str(self.run["id"])

    def get(self, *parts: str, **pairs: str) -> Any:
        answer = self.inside.get(
            address(*parts, pairs=[(key.replace("__", "."), value) for key, value in pairs.items()])
        )
        assert answer.status == 200, answer.body
        return answer.plain()

    def page(self, name: str, **pairs: str) -> Any:
        return self.get("runs", self.id, "pages", name, **pairs)

    def table(self, name: str, **pairs: str) -> list[dict[str, Any]]:
        answer = self.get("runs", self.id, "analyses", name, limit="10000", **pairs)
        return dicts(answer)

    def cli(self, *arguments: str) -> str:
        output = StringIO()
        with redirect_stdout(output):
            code = main([*arguments])
        assert code == 0, (arguments, output.getvalue())
        return output.getvalue()

    def shown(self, name: str) -> list[dict[str, Any]]:
        return dicts(json.loads(self.cli("show", name, str(self.path), "--steps", "steady", "--format", "json")))


def _kind(path: Path) -> ParameterSet:
    quick = path.name.startswith(("mlp", "worker0", "mi250"))
    return pytest.param(
        path, id=f"{path.parent.name}/{path.name.partition('.')[0]}", marks=[] if quick else [pytest.mark.slow]
    )


@pytest.fixture(scope="module", params=map(_kind, KINDS))
def faces(request: pytest.FixtureRequest) -> Faces:
    path: Path = request.param
    if not path.exists():
        pytest.skip(f"no {path}: traces by others are not part of the project")
    return Faces(path)


def of_rows(ask: Callable[[str], list[dict[str, Any]]]) -> Facts:
    """The quantities as the rows of the analyses have them."""
    steps, balance = ask("step_breakdown"), ask("rank_balance")
    time, idle, used = ask("temporal_breakdown"), ask("idle_breakdown"), ask("device_utilization")

    def total(rows: list[dict[str, Any]], *names: str) -> int:
        return sum(row[name] for row in rows for name in names)

    facts: Facts = {
        "steps": len(steps),
        "step": Fraction(total(steps, "duration"), max(len(steps), 1)),
        "step of rank_balance": Fraction(total(balance, "duration"), max(len(balance), 1)),
        "ranks": len({row["rank"] for row in steps}),
        "idle": total(time, "idle") if time else None,
        "idle of idle_breakdown": total(idle, "time") if time else None,
        "busy": total(time, "computation", "exposed_communication", "exposed_memory") if time else None,
        "window": total(time, "window") if time else None,
        "window of device_utilization": total(used, "window") if time else None,
        "utilization": Fraction(total(used, "kernel_time"), total(used, "window")) if used else None,
        "devices": len({(row["rank"], row["device"]) for row in time}),
        "utilization of devices": tuple(row["utilization"] for row in used),
    }
    if len(time) == len({(row["rank"], row.get("cycle")) for row in steps}):  # one device a rank
        facts |= {
            "computation": total(time, "computation"),
            "communication": total(time, "exposed_communication"),
            "memory": total(time, "exposed_memory"),
            "computation of step_breakdown": total(steps, "computation"),
            "communication of step_breakdown": total(steps, "communication"),
            "memory of step_breakdown": total(steps, "memcpy", "memset"),
            "idle of step_breakdown": total(steps, "runtime", "data_loading", "host", "other"),
            "computation of rank_balance": total(balance, "computation", "overlap"),
            "communication of rank_balance": total(balance, "exposed_communication"),
            "memory of rank_balance": total(balance, "exposed_memory"),
            "idle of rank_balance": total(balance, "other"),
        }
    for kind, names in PARTS.items():
        facts[f"part {kind}"] = Fraction(total(steps, *names), max(len(steps), 1))
    return facts


def library(faces: Faces) -> Facts:
    def ask(name: str) -> list[dict[str, Any]]:
        return named(name)(faces.job, select=STEADY).frame.to_dicts()

    facts = of_rows(ask)
    peaks = named("memory_curve")(faces.job).frame
    return facts | {"peak": peaks.get_column("allocated").max() if peaks.height else None}


def command_line(faces: Faces) -> Facts:
    return of_rows(faces.shown)


def tables_of_the_page(faces: Faces) -> Facts:
    return of_rows(faces.table)


def assistant(faces: Faces) -> Facts:
    folders = Folders([str(faces.path if faces.path.is_dir() else faces.path.parent)])
    name = str(faces.path)

    def ask(analysis: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while True:  # an answer has as many rows as fit
            asked = {"name": analysis, "path": name, "limit": 500, "offset": len(rows)}
            more = dicts(json.loads(call(folders, "run_analysis", asked)))
            rows += more
            if not more:
                return rows

    facts = of_rows(ask)
    facts.pop("utilization of devices")  # six digits of each
    return facts


def sql(faces: Faces) -> Facts:
    query = "SELECT rank, device_end - device_start AS length FROM steps WHERE steady"
    rows = dicts(json.loads(faces.cli("sql", str(faces.path), query, "--format", "json")))
    lengths = [row["length"] for row in rows]
    return {
        "steps": len(rows),
        "step": Fraction(sum(lengths), max(len(rows), 1)),
        "ranks": len({row["rank"] for row in rows}),
    }


def overview(faces: Faces) -> Facts:
    return of_overview(faces.page("overview"))


def of_overview(page: Any) -> Facts:
    facts: Facts = {"sentence": page["sentence"]}
    for block in page["blocks"]:
        if block["block"] == "parts" and block["title"].startswith("Where"):
            facts["step"] = sum(part["value"] for part in block["parts"])
            facts |= {f"part {part['kind']}": part["value"] for part in block["parts"]}
        if block["block"] == "facts":
            cells = {fact["label"]: [cell["value"] for cell in fact["cells"]] for fact in block["facts"]}
            peaks = [value for value in cells.get("Peak memory in use", ()) if value is not None]
            facts |= {"peak": max(peaks)} if peaks else {}
            if block["heads"][0] != "mean":
                facts["utilization of devices"] = tuple(cells["Utilization"])
    return facts


def reported(faces: Faces) -> Facts:
    """What a report has of Overview."""
    html = report_of(faces.server, faces.id, ("overview",), {}).decode()
    packed = re.search(r'id="packed-answers"[^>]*>([^<]*)<', html)
    assert packed is not None
    answers = json.loads(gzip.decompress(base64.b64decode(packed[1])))["answers"]
    [page] = [answer for key, answer in answers.items() if "/pages/overview" in key]
    return of_overview(page)


def summary(faces: Faces) -> Facts:
    """What the screen says, a few digits of each."""
    text = faces.cli("summary", str(faces.path))
    found = re.search(r"(?:A step takes|The whole window of|the rest of) (\d[\d.,]*\xa0\w+)", text)
    steps = re.search(r"· ([\d,]+)(?: of [\d,]+)? steps? ", text)
    return {"step shown": found[1] if found else None, "steps per rank": steps and steps[1]}


def compared(faces: Faces) -> Facts:
    found = diff(faces.job, faces.job)
    page = faces.page("compare", base=faces.id)
    bars = [sum(bar["value"] for bar in block["bars"]) for block in page["blocks"] if block["block"] == "bars"]
    assert {round(each) for each in bars} <= {found.base}
    cli = json.loads(faces.cli("diff", str(faces.path), str(faces.path), "--format", "json", "--table", "waterfall"))
    categories = [row for row in dicts(cli) if row["part"] is None]
    return {"step rounded": found.base, "step rounded of the command line": sum(row["base"] for row in categories)}


def ledger(faces: Faces) -> Facts:
    row = kinetoscope.ledger([faces.job]).frame.row(0, named=True)
    return {
        "step rounded": row["step_time"],
        "steps": row["steps"],
        "utilization": row["utilization"],
        "peak": row["memory_peak"],
    }


def advice(faces: Faces) -> Facts:
    folders = Folders([str(faces.path if faces.path.is_dir() else faces.path.parent)])
    return {
        "step": advise(faces.job).step,
        "step rounded": json.loads(call(folders, "advise", {"path": str(faces.path)}))["step_ns"],
        "step of the page": next(
            (block["step"] for block in faces.page("findings")["blocks"] if block["block"] == "findings"), None
        ),
    }


def timeline(faces: Faces) -> Facts:
    """How busy devices are in each steady step, as the line above the picture has it; and its ruler of steps."""
    busy: dict[str, float] = {}
    rulers: dict[tuple[str, str], list[int]] = {}
    for row in faces.table("step_breakdown"):
        where = {"rank": str(row["rank"]), "cycle": str(row.get("cycle", 0))}
        if (where["rank"], where["cycle"]) not in rulers:
            (own,) = faces.get("runs", faces.id, "timeline", "lanes", **where)["ranks"]
            ruler = [step["end"] - step["start"] for step in own["steps"] if step["steady"]]
            rulers[where["rank"], where["cycle"]] = ruler
        time = f"{row['start']}-{row['start'] + row['duration']}"
        if not row["duration"]:
            continue
        answer = faces.get("runs", faces.id, "timeline", "range", time=time, **where)
        for share in answer["busy"].values():
            busy["all"] = busy.get("all", 0.0) + share * row["duration"]
    facts: Facts = {"busy": busy.get("all")}
    lengths = [length for ruler in rulers.values() for length in ruler]
    if lengths and all(rulers.values()):  # a recording without steps has no ruler
        facts |= {"steps": len(lengths), "step": Fraction(sum(lengths), len(lengths))}
    return facts


def idle_page(faces: Faces) -> Facts:
    page = faces.page("idle", ranks="all")
    bars = [block for block in page["blocks"] if block["block"] == "bars"]
    found = re.search(r"for (\d[\d.,]*\xa0\w+), (\S+) of the time", page["sentence"])
    facts: Facts = {"idle shown": found[1], "idle share shown": found[2]} if found else {}
    if bars and len(bars[0]["bars"]) < 12:
        facts["idle"] = sum(bar["value"] for bar in bars[0]["bars"])
    return facts


def distributed(faces: Faces) -> Facts:
    page = faces.page("distributed")
    [columns] = [block for block in page["blocks"] if block["block"] == "columns"][:1] or [None]
    if columns is None:
        return {}
    means = [sum(value or 0 for value in stack["values"]) for stack in columns["stacks"]]
    return {"ranks": len(means), "longest and shortest rank": (min(means), max(means))}


FACES: tuple[Callable[[Faces], Facts], ...] = (
    library,
    command_line,
    tables_of_the_page,
    assistant,
    sql,
    overview,
    reported,
    summary,
    compared,
    ledger,
    advice,
    timeline,
    idle_page,
    distributed,
)

SAME = {
    "step of rank_balance": "step",
    "step of the page": "step",
    "step rounded of the command line": "step rounded",
    "idle of idle_breakdown": "idle",
    "idle of step_breakdown": "idle",
    "idle of rank_balance": "idle",
    "window of device_utilization": "window",
    "computation of step_breakdown": "computation",
    "computation of rank_balance": "computation",
    "communication of step_breakdown": "communication",
    "communication of rank_balance": "communication",
    "memory of step_breakdown": "memory",
    "memory of rank_balance": "memory",
}
"""Names under which a face has the same quantity by another way."""


def expected(faces: Faces, facts: Facts) -> Facts:
    """What each quantity must be: as the library has it, or follows from that."""
    by_rank: dict[int, list[int]] = {}
    for row in named("rank_balance")(faces.job, select=STEADY).frame.to_dicts():
        by_rank.setdefault(row["rank"], []).append(row["duration"])
    means = [sum(each) / len(each) for each in by_rank.values()]
    window = facts["window"]
    return facts | {
        "step shown": shown(float(facts["step"]), "ns"),
        "step rounded": int(facts["step"] + Fraction(1, 2)),
        "steps per rank": str(facts["steps"] // max(facts["ranks"], 1)),
        "idle shown": shown(facts["idle"], "ns") if facts["idle"] is not None else None,
        "idle share shown": shown(facts["idle"] / window, "fraction") if window else None,
        "longest and shortest rank": (min(means), max(means)) if means else None,
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return all(same(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, float) or isinstance(other, float):
        return abs(float(one) - float(other)) <= 1e-9 * max(abs(float(one)), abs(float(other)))
    return bool(one == other)


def test_every_face_says_the_same(faces: Faces) -> None:
    facts = library(faces)
    wanted = expected(faces, facts)
    wrong, compared = [], 0
    for face in FACES:
        for quantity, value in face(faces).items():
            name = SAME.get(quantity, quantity)
            if value is None or name == "sentence":
                continue
            compared += 1
            if name not in wanted or not same(value, wanted[name]):
                wrong.append((face.__name__, quantity, value, wanted.get(name)))
    assert not wrong
    assert compared > 10


def test_what_a_bar_shows_sums_to_the_whole(faces: Faces) -> None:
    for name in ("overview", "distributed"):
        for rank in ("", str(faces.job.ranks[0])):
            page = faces.page(name, rank=rank)
            for block in page["blocks"]:
                if block["block"] == "parts":
                    given = {"rank": rank} if rank else {}
                    steps = faces.table("step_breakdown", **given)
                    if not block["title"].startswith("Where"):
                        steps = [
                            {"duration": row["device_time"]} for row in faces.table("roofline", p__by="step", **given)
                        ]
                    mean = sum(row["duration"] for row in steps) / len(steps)
                    assert same(sum(part["value"] for part in block["parts"]), mean)
                if block["block"] == "columns":
                    assert all(value is not None for stack in block["stacks"] for value in stack["values"])
