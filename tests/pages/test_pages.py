"""What holds of every page on every trace we have: it is made, says something, and names only what exists."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.advisor.advice import advise
from kinetoscope.analyses import NAMES
from kinetoscope.analyses import named as analysis_named
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.pages import PAGES, named
from kinetoscope.pages.blocks import (
    Bar,
    BarsBlock,
    ChartBlock,
    ColumnsBlock,
    ControlsBlock,
    FactsBlock,
    FindingsBlock,
    IcicleBlock,
    NoteBlock,
    Page,
    PartsBlock,
    RibbonBlock,
    RooflineBlock,
    RowsBlock,
    TableBlock,
    to_plain,
)
from kinetoscope.pages.pictures.occurrences import Measure, _of_trace
from kinetoscope.reading import read
from kinetoscope.schema import Result
from kinetoscope.views.charts.palette import KINDS
from tests import drawn
from tests.catalog.samples import everywhere, job_of
from tests.conftest import OURS
from tests.drawn import kernel, launch
from tests.notes import codes

COMPOSED = [name for name, view in PAGES.items() if view.composed and view.runs == 1]
WORDS = {"row", "start", "end", "rank", "step", "file", "line", "name"}
"""Of a table's links."""


@pytest.fixture(scope="module", params=everywhere())
def job(request: pytest.FixtureRequest) -> Job:
    return job_of(request.param)


def of(job: Job, name: str) -> Job:
    """The job as a page gets it: one rank, unless it is about all; one cycle."""
    sources = [each for each in job.sources if each.cycle == 0]
    return replace(job, sources=tuple(sources if PAGES[name].ranks != "one" else sources[:1]))


def made(job: Job, name: str, select: Selection = ALL, **params: str) -> Page:
    return named(name).page(of(job, name), select, params)


@pytest.fixture(scope="module")
def pages(job: Job) -> dict[str, Page]:
    """The pages of a trace, each composed once for all tests about it."""
    return {name: made(job, name) for name in COMPOSED}


def test_every_page_is_made_of_every_trace(pages: dict[str, Page]) -> None:
    for name, page in pages.items():
        assert page.name == name
        assert page.title == PAGES[name].title
        assert page.sentence.endswith(".")
        assert len(page.sentence) < 400
        plain = to_plain(page)
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert len(json.dumps(plain)) < 1_500_000
        for block in page.blocks:
            check(block)


def test_work_without_a_name_is_in_the_bars(tmp_path: Path) -> None:
    nameless = {key: value for key, value in kernel("", 20, 9, 1).items() if key != "name"}
    page = made(drawn.job(tmp_path, drawn.op("aten::mm", 0, 28), launch(5, 2, 1), nameless), "kernels")
    assert [each.label for each in bars_of_names(page)] == ["(no name)"]


def check(block: Any) -> None:
    """A block names only what exists, and is whole."""
    match block:
        case TableBlock():
            assert block.analysis in NAMES
            analysis = analysis_named(block.analysis)
            assert set(block.params) <= {parameter.name for parameter in analysis.parameters}
            assert {*block.columns, *block.links.values()} <= set(analysis.schema.names)
            assert set(block.links) <= WORDS
            assert not block.sort or block.sort.removeprefix("-") in analysis.schema
            assert not block.filter or block.filter.split(":")[0] in analysis.schema
        case PartsBlock():
            assert all(part.kind in KINDS for part in block.parts)
        case ColumnsBlock():
            assert all(len(stack.values) == len(block.parts) for stack in block.stacks)
        case BarsBlock():
            assert all(bar.kind in KINDS for bar in block.bars)
            assert sum(bar.share or 0 for bar in block.bars) <= 1 + 1e-9
        case IcicleBlock():
            assert len(block.name) == len(block.parent) == len(block.value) == len(block.kind)
            inside = [0.0] * len(block.name)
            for place, parent in enumerate(block.parent):
                assert parent < place
                if parent >= 0:
                    inside[parent] += block.value[place]
            assert all(part <= whole * (1 + 1e-9) for part, whole in zip(inside, block.value, strict=True))
        case RibbonBlock():
            assert list(block.start) == sorted(block.start)
            assert all(kind < len(block.texts) for kind in (*block.name, *block.kind, *block.lane))
        case RooflineBlock():
            every = (block.name, block.detail, block.kind, block.at, block.over, block.time, block.calls, block.rate)
            assert {len(each) for each in every} == {len(block.time)}
            assert all(place < len(block.texts) for place in (*block.name, *block.detail, *block.kind))
            assert list(block.time) == sorted(block.time, reverse=True)
            assert sum(part.value for part in block.parts) == sum(block.time)
            assert all(block.lane <= at <= block.x[1] for at in block.at)
            assert all(block.y[0] <= over <= block.y[1] for over in block.over)
        case RowsBlock():
            assert all(len(row) == len(block.columns) for row in block.rows)
        case ChartBlock():
            assert list(urls(block.spec)) == ["https://vega.github.io/schema/vega-lite/v6.json"]


def urls(spec: Any) -> Iterator[str]:
    """Every text in a specification that is an address, but for the data, which are only ever text."""
    if isinstance(spec, Mapping):
        for key, value in spec.items():
            if key != "values":
                yield from urls(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from urls(value)
    elif isinstance(spec, str) and "://" in spec:
        yield spec


# --- the numbers are those of the analyses


def one(page: Page, kind: type, title: str = "") -> Any:
    blocks: list[Any] = [block for block in page.blocks if isinstance(block, kind)]
    return next(block for block in blocks if block.title.startswith(title))


def bars_of_names(page: Page) -> Sequence[Bar]:
    """Of kernels, operators and the like; those of categories stand above, and of graphs and compiled code below."""
    return next(block for block in page.blocks if isinstance(block, BarsBlock) and block.title != "By category").bars


def answer(job: Job, name: str, page: str, **params: Any) -> Result:
    return analysis_named(name)(of(job, page), **params)


def test_the_overviews_parts_are_the_average_step(job: Job, pages: dict[str, Page]) -> None:
    page, steps = pages["overview"], answer(job, "step_breakdown", "overview").frame
    if steps.height and steps.get_column("duration").sum():
        parts = one(page, PartsBlock).parts
        assert math.isclose(sum(part.value for part in parts), float(steps.get_column("duration").mean()))  # type: ignore[arg-type]


def test_the_bars_of_kernels_are_their_totals(job: Job, pages: dict[str, Page]) -> None:
    page, kernels = pages["kernels"], answer(job, "kernels", "kernels", copies=True).frame
    if not kernels.height:
        assert "No device time" in page.sentence
        return
    sums = dict(kernels.group_by("name").agg(pl.col("total").sum()).iter_rows())
    bars = bars_of_names(page)
    assert [bar.value for bar in bars] == sorted((v for v in sums.values() if v), reverse=True)[: len(bars)]
    assert all(sums[bar.name] == bar.value for bar in bars)


@pytest.mark.parametrize(("page", "value"), [("kernels", "total"), ("operators", "device_self")])
def test_a_category_chooses_what_stands_below(tmp_path: Path, page: str, value: str) -> None:
    events = [drawn.op("aten::mm", 0, 40), launch(5, 5, 1), kernel("gemm", 50, 30, 1)]
    events += [drawn.op("aten::add", 60, 40), launch(65, 5, 2), kernel("elementwise", 90, 10, 2)]
    job = drawn.job(tmp_path, *events)
    blocks = named(page).page(job, ALL, {}).blocks
    categories, ranked = (block for block in blocks if isinstance(block, BarsBlock))
    assert [(bar.label, bar.value, bar.share) for bar in categories.bars] == [
        ("GEMM", 30, 0.75),
        ("elementwise", 10, 0.25),
    ]
    assert len(ranked.bars) == 2
    chosen = named(page).page(job, ALL, {"category": "GEMM"}).blocks
    categories, ranked = (block for block in chosen if isinstance(block, BarsBlock))
    assert [bar.chosen for bar in categories.bars] == [True, False]
    assert categories.bars[0].link is not None
    assert categories.bars[0].link.params == {"category": "all"}
    assert [bar.value for bar in ranked.bars] == [30]
    (below,) = (block for block in chosen if isinstance(block, TableBlock) and block.sort == f"-{value}")
    assert below.filter == "category:eq:GEMM"


def test_the_ribbon_is_the_critical_path(job: Job, pages: dict[str, Page]) -> None:
    page = pages["critical_path"]
    events = answer(job, "critical_path_events", "critical_path", group_by="event").frame
    ribbons = [block for block in page.blocks if isinstance(block, RibbonBlock)]
    assert len(ribbons) == bool(events.height)
    for ribbon in ribbons:
        sums: dict[str, int] = {}
        for start, end, kind in zip(ribbon.start, ribbon.end, ribbon.kind, strict=True):
            sums[ribbon.texts[kind]] = sums.get(ribbon.texts[kind], 0) + end - start
        parts = one(page, PartsBlock).parts
        assert sum(sums.values()) == events.get_column("time").sum()
        assert {part.kind: round(part.value * steps_of(job)) for part in parts} == sums
        assert len(ribbon.start) < 12_000


@pytest.mark.parametrize(("copied", "said"), [(45, "No one cause bounds a step of"), (10, "is bound by computation")])
def test_a_step_is_bound_by_what_takes_half_of_its_path(tmp_path: Path, copied: int, said: str) -> None:
    copy = kernel("Memcpy HtoD", 60, copied, 2, category="gpu_memcpy")
    events = [drawn.annotation("ProfilerStep#1", 0, 20), launch(0, 10, 1), launch(12, 8, 2), kernel("gemm", 20, 40, 1)]
    assert said in made(drawn.job(tmp_path, *events, copy), "critical_path").sentence


def test_a_path_that_nothing_explains_is_bound_by_nothing(shared_traces: Path) -> None:
    page = made(read(shared_traces / "trace_compare/base"), "critical_path")
    assert page.sentence.startswith("What a step of 58.6\u00a0ms waits for is not known for 58.4\u00a0ms of")


def steps_of(job: Job) -> int:
    return answer(job, "critical_path", "critical_path").frame.height


def test_areas_of_memory_sum_to_what_is_in_use(tmp_path: Path) -> None:
    job = read(str(Path(__file__).parents[1] / "traces" / "leak.pt.trace.json.gz"))
    curve = answer(job, "memory_curve", "memory").frame
    assert "a leak" in made(job, "memory").sentence
    for by in ("class", "use"):
        areas_sum_to(made(job, "memory", by=by), curve)


def areas_sum_to(page: Page, curve: pl.DataFrame) -> None:
    drawn = pl.DataFrame(one(page, ChartBlock).spec["data"]["values"])
    divisor = one(page, ChartBlock).spec["usermeta"]["time_divisor"]
    total = drawn.group_by("x").agg(pl.col("y").sum()).sort("x")
    at = dict(curve.group_by("time", maintain_order=True).agg(pl.col("allocated").last()).iter_rows())
    known = [at[round(x * divisor)] for x in total.get_column("x")]
    scale = max(known) / total.get_column("y").max()
    assert total.get_column("y").to_list() == pytest.approx([value / scale for value in known])


def test_the_flame_graph_is_as_wide_as_its_time(job: Job, pages: dict[str, Page]) -> None:
    picture = one(pages["modules"], IcicleBlock, "From the program")
    weight = "host" if "Host time." in picture.note else "device"
    total = answer(job, "flame", "modules", weight=weight).frame.get_column("value").sum()
    roots = [value for value, parent in zip(picture.value, picture.parent, strict=True) if parent < 0]
    assert sum(roots) == pytest.approx(total, rel=0.01)
    assert sum(roots) <= total


@pytest.mark.parametrize("measure", ["host_self", "device_self", "duration"])
def test_what_is_drawn_of_calls_sums_to_the_bar(job: Job, measure: Measure) -> None:
    name, column = ("kernels", "total") if measure == "duration" else ("operators", measure)
    frame = answer(job, name, name).frame
    for row in frame.filter(pl.col(column) > 0).sort(column, descending=True).head(4).iter_rows(named=True):
        of_name = frame.filter(pl.col("name") == row["name"]).get_column(column).sum()
        drawn = _of_trace(of(job, name).trace(), ALL, name=row["name"], measure=measure).frame
        assert drawn.get_column("time").sum() == of_name


def test_a_call_that_overlaps_partly_takes_nothing_off_what_is_drawn(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.op("a", 0, 100), drawn.op("b", 10, 20), drawn.op("c", 80, 30))
    frame = _of_trace(job.trace(), ALL, name="a", measure="host_self").frame
    assert frame.get_column("time").to_list() == [60]
    assert analysis_named("operators")(job).frame.filter(name="a").get_column("host_self").to_list() == [60]


def test_the_ribbon_of_several_cycles_is_that_of_the_first(shared_traces: Path) -> None:
    job = read(str(shared_traces / "resnet50_v100" / "num_workers_0"))
    both, alone = (
        one(named("critical_path").page(each, ALL, {}), RibbonBlock) for each in (job, of(job, "critical_path"))
    )
    assert (both.start, both.end) == (alone.start, alone.end)
    assert "the first cycle" in both.note


@pytest.mark.parametrize("name", ["operators", "kernels"])
def test_calls_of_several_cycles_lead_to_their_own(shared_traces: Path, name: str) -> None:
    job = read(str(shared_traces / "resnet50_v100" / "num_workers_0"))
    page = named(name).page(job, ALL, {})
    rows = one(page, ChartBlock, "Each call").spec["data"]["values"]
    assert {row["link"]["cycle"] for row in rows} == {0, 1}


def test_the_chosen_bar_is_marked_and_one_call_is_a_line(tmp_path: Path) -> None:
    events = [launch(10, 5, 1), launch(20, 5, 2), kernel("gemm", 30, 40, 1), kernel("gemm", 80, 50, 2)]
    job = drawn.job(tmp_path, drawn.op("aten::mm", 0, 28), drawn.op("aten::add", 90, 9), *events)
    page = named("operators").page(of(job, "operators"), ALL, {"name": "aten::mm"})
    assert [bar.label for bar in bars_of_names(page) if bar.chosen] == ["aten::mm"]
    note = one(page, NoteBlock, "Each call")
    assert "It ran once" in note.text
    assert "device time of its own 90\u00a0ns" in note.text
    spec = one(made(job, "kernels"), ChartBlock, "Each call of `gemm`").spec
    assert [row["is"] for row in spec["data"]["values"]] == ["40\u00a0ns", "50\u00a0ns"]


def test_annotated_kernels_can_be_grouped_by_what_annotates_them(tmp_path: Path) -> None:
    events = [kernel("gemm", 30 * n, 20, 1, module_fqn=f"layers.{n}", layer="x") for n in range(2)]
    job = drawn.job(tmp_path, *events)
    page = made(job, "kernels", group_by="argument:module_fqn")
    control = one(page, ControlsBlock, "").controls[0]
    assert [value for value, _ in control.choices][-2:] == ["argument:module_fqn", "argument:layer"]
    table = one(page, TableBlock, "All kernels")
    assert (table.params["argument"], list(table.columns)[:2]) == ("module_fqn", ["argument", "name"])
    assert answer(job, "kernels", "kernels", argument="module_fqn").frame["argument"].to_list() == [
        "layers.0",
        "layers.1",
    ]
    assert "ANNOTATED_KERNELS" not in codes(page.cannot)


def test_bars_of_the_overview_lead_to_the_same_bars(job: Job, pages: dict[str, Page]) -> None:
    for block in pages["overview"].blocks:
        if isinstance(block, BarsBlock):
            first = block.bars[0]
            assert first.link
            page = named(first.link.view).page(of(job, first.link.view), ALL, first.link.params)
            assert [(bar.name, bar.kind) for bar in bars_of_names(page) if bar.chosen] == [(first.name, first.kind)]


@pytest.mark.parametrize("name", ["operators", "kernels", "memory", "idle", "modules"])
def test_an_empty_selection_says_so_and_leads_back(name: str) -> None:
    job = read(str(OURS / "mlp.pt.trace.json.gz"))
    page = made(job, name, Selection(time=(10**12, 2 * 10**12)))
    assert "The selection contains no " in page.sentence
    if name != "modules":
        assert [block.link.clear for block in page.blocks if isinstance(block, NoteBlock) and block.link] == [True]
    assert "The selection contains no " not in made(job, name).sentence


# --- parameters


def test_a_choice_that_is_none_is_refused(job: Job) -> None:
    for name, params in {
        "operators": {"time": "x"},
        "kernels": {"group_by": "x"},
        "modules": {"where": "x"},
        "critical_path": {"host": "-1"},
    }.items():
        with pytest.raises(UsageError):
            made(job, name, ALL, **params)


def test_what_if_half_the_host_time(shared_traces: Path) -> None:
    job = read(str(shared_traces / "trace_diff" / "control"))
    page = made(job, "critical_path", host="50")
    expected = answer(job, "critical_path", "critical_path", what_if="host=0.5").frame.get_column("what_if").mean()
    facts = one(page, FactsBlock)
    assert facts.facts[1].cells[0].value == expected
    assert " With host at 50% it would take " in page.sentence
    assert " With " not in made(job, "critical_path").sentence


def test_a_comparison_explains_the_whole_change(shared_traces: Path) -> None:
    from kinetoscope.pages.compare import page as compare

    steady = Selection(steps="steady")
    runs = [of(read(str(shared_traces / "resnet50_v100" / f"num_workers_{n}")), "overview") for n in (0, 4)]
    page = compare(runs[1], ALL, {}, base=runs[0])
    steps = [analysis_named("step_breakdown")(run, select=steady).frame.get_column("duration") for run in runs]
    means = [float(each.mean()) for each in steps]  # type: ignore[arg-type]
    falls = one(page, ChartBlock).spec["data"]["values"]
    assert falls[0]["high"] * 1e6 == pytest.approx(means[0], abs=1)
    assert falls[-1]["high"] * 1e6 == pytest.approx(means[1], abs=1)
    for before, after in itertools.pairwise(falls[:-1]):
        assert before["high"] == pytest.approx(after["low"])
    assert "25.2% less time" in page.sentence
    assert "data loading −58.7" in page.sentence
    bars = one(page, BarsBlock)
    assert sum(bar.before for bar in bars.bars) == pytest.approx(means[0], abs=1)
    assert sum(bar.value for bar in bars.bars) == pytest.approx(means[1], abs=1)
    for table in (block for block in page.blocks if isinstance(block, RowsBlock)):
        assert len({table.scales[head.name] for head in table.columns if head.unit == "ns"}) == 1
    calls = [block for block in page.blocks if isinstance(block, RowsBlock)][1]
    change = [head.name for head in calls.columns].index("change")
    assert sum(row[change] for row in calls.rows) == pytest.approx(means[1] - means[0], abs=1)
    assert not compare(runs[1], ALL, {}).blocks


def test_the_findings_are_those_of_the_advisor(job: Job, pages: dict[str, Page]) -> None:
    page, advice = pages["findings"], advise(of(job, "findings"))
    shown = [finding for block in page.blocks if isinstance(block, FindingsBlock) for finding in block.findings]
    assert [each.code for each in shown] == [each.code for each in advice.findings]
    assert page.sentence == advice.headline


def test_the_ledger_is_about_one_program_unless_asked(shared_traces: Path) -> None:
    from kinetoscope.pages.ledger import page as ledger

    folders = ["resnet50_v100/num_workers_0", "trace_diff/control", "resnet50_v100/num_workers_4"]
    runs = [of(read(str(shared_traces / each)), "overview") for each in folders]
    with_ids = [(f"run{place}", run) for place, run in enumerate(runs)]
    page = ledger(runs[2], ALL, {}, runs=iter(with_ids), listed=28)
    assert [bar.label for bar in one(page, BarsBlock).bars] == ["num_workers_0", "num_workers_4"]
    assert [bar.chosen for bar in one(page, BarsBlock).bars] == [False, True]
    assert page.facts == ("2 of 28 runs", "the newest 3 were looked at", "1 of another program left out")
    [_, choice] = one(page, ControlsBlock).controls
    assert (choice.value, choice.chosen) == ("run0,run2", False)
    for params in ({"of": "all"}, {"runs": "run0,run1,run2"}):
        page = ledger(runs[2], ALL, params, runs=with_ids)
        bars = [block for block in page.blocks if isinstance(block, BarsBlock)]
        assert [[bar.label for bar in block.bars] for block in bars] == [
            ["num_workers_0", "num_workers_4"],
            ["control"],
        ]
        assert bars[1].title == "Mean step of the program of control"
        assert page.sentence.endswith("1 other program below.")
        assert one(page, ControlsBlock).controls[-1].chosen == ("runs" in params)


def test_a_memory_snapshot_has_no_row_in_the_ledger(tmp_path: Path) -> None:
    from kinetoscope.pages.ledger import page as ledger
    from tests.snapshots.process import Process
    from tests.snapshots.writing import write

    process = Process(stacks="python")
    process.record()
    process.free(process.alloc("aten::empty", 1 << 20))
    write(tmp_path / "s.pickle", process.snapshot())
    memory, run = read(str(tmp_path / "s.pickle"), jobs=1), read(str(OURS / "mlp.pt.trace.json.gz"), jobs=1)
    page = ledger(run, ALL, {}, runs=[("s", memory), ("r", run)], listed=2)
    assert page.sentence.startswith("There is one run of this program here: ")
    assert page.facts == ("1 of 2 runs", "1 of another program left out")
    assert any("left out" in each for each in ledger(run, ALL, {"of": "all"}, runs=[("s", memory), ("r", run)]).cannot)


def test_the_ledger_has_a_row_for_each_run_that_has_steps(shared_traces: Path, tmp_path: Path) -> None:
    from kinetoscope.pages.ledger import page as ledger

    (tmp_path / "broken.json").write_text('{"traceEvents": []}')
    runs = [of(read(str(shared_traces / "resnet50_v100" / f"num_workers_{n}")), "overview") for n in (0, 4)]
    page = ledger(runs[1], ALL, {}, runs=[("", run) for run in (*runs, read(str(tmp_path / "broken.json")))])
    assert page.sentence.startswith("2 runs, from the first to the last 1.34 times as fast: ")
    assert any("broken.json" in each and "left out" in each for each in page.cannot)
    rows = [block for block in page.blocks if isinstance(block, RowsBlock)]
    assert [row[0] for row in rows[0].rows] == ["num_workers_0", "num_workers_4"]
    kept = rows[1]
    heads = [head.name for head in kept.columns]
    first = dict(zip(heads, kept.rows[0], strict=True))
    assert first["code"] == "DATA001"
    assert first["promised_low"] <= first["brought"] <= first["promised_high"]
    assert ledger(runs[0], ALL, {}).sentence.startswith("There is one run of this program here: ")
    for each in (page, ledger(runs[0], ALL, {})):
        plain = to_plain(each)
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_the_devices_of_several_cycles_are_counted_once(shared_traces: Path) -> None:
    found = named("overview").page(read(str(shared_traces / "resnet50_v100" / "num_workers_0")), ALL, {})
    assert found.facts[:2] == ("num_workers_0", "Tesla V100-DGXS-32GB")


def test_the_same_kernels_are_drawn_for_all_ranks(tmp_path: Path) -> None:
    paths = [
        drawn.written(tmp_path / f"rank{rank}.json", launch(0, 5, 1), kernel("gemm", 10, 20 + rank, 1))
        for rank in range(2)
    ]
    rows = one(made(read(paths), "distributed"), ChartBlock).spec["data"]["values"]
    assert [(row["label"], row["text"]) for row in rows] == [
        ("rank 0", "20\u00a0ns (20 to 20)"),
        ("rank 1", "21\u00a0ns (21 to 21)"),
    ]


def test_the_stragglers_are_marked_among_the_ranks(shared_traces: Path) -> None:
    job = read(str(shared_traces / "dlrm_ddp_v100_8rank"))
    columns = one(named("distributed").page(job, ALL, {}), ColumnsBlock, "The average step")
    late = analysis_named("stragglers")(job).frame.filter(pl.col("straggler")).get_column("rank").to_list()
    assert sorted(late) == [4, 5, 7]
    assert [stack.label for stack in columns.stacks if stack.mark == "straggler"] == ["4", "5", "7"]
