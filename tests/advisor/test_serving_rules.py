"""The rules about serving engines, on simulated engines with a known fault and without, and what a server is told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinetoscope
from kinetoscope.advisor.advice import Advice, advise
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView
from kinetoscope.model.steps.selection import Selection
from tests.catalog.samples import required
from tests.faults.case import Draw
from tests.faults.cases.serving import CASES
from tests.faults.engine import SIZES, Engine, serving

SMALL = Engine(layers=6, width=1024, inner=4096, decode=(16,))
OF_TRAINING = re.compile(
    r"DataLoader|\bloader\b|optimizer|\bloss|\btrain|backward|epoch|learning rate|gradient|Sampler\(|bucket_cap"
)


def advised(folder: Path, engine: Engine, **more: Any) -> Advice:
    return advise(read(folder, engine, **more))


def read(folder: Path, engine: Engine, **more: Any) -> kinetoscope.Job:
    folder.mkdir(exist_ok=True)
    serving(engine, **{"steps": 10, **more})(folder)
    return kinetoscope.read(folder, jobs=1)


def only(advice: Advice, code: str) -> Finding:
    (finding,) = [each for each in advice.findings if each.code == code]
    return finding


@pytest.mark.parametrize(("words", "option"), [("vllm", "--enforce-eager"), ("sglang", "--disable-cuda-graph")])
def test_decoding_without_graphs_is_told_the_engines_own_option(words: Any, option: str, tmp_path: Path) -> None:
    finding = only(advised(tmp_path, replace(SMALL, words=words, sizes=())), "SERVING001")
    assert finding.severity == "critical"
    assert finding.change.startswith("- ")
    assert option in finding.change
    assert finding.evidence[0].analysis == "serving_steps"


def test_batches_beyond_the_largest_graph_are_told_so(tmp_path: Path) -> None:
    engine = replace(SMALL, decode=(16, 96, 80), sizes=SIZES[:5])
    finding = only(advised(tmp_path, engine, steps=12), "SERVING001")
    assert "The batches are of 80 requests or more." in finding.message
    assert "--max-cudagraph-capture-size 96" in finding.change


def test_a_gap_belongs_to_the_step_behind_it(tmp_path: Path) -> None:
    """The device is idle for 2 ms between steps of 1 ms: the step is what passes from one token to the next."""
    job = read(tmp_path, replace(SMALL, ahead=False, schedules=2000), noise=0.0)
    view = RankView(job.trace(), Selection(steps="steady"))
    assert (view.windows.start[1:] == view.windows.end[:-1]).all()
    gap = kinetoscope.serving_steps(job).frame["gap"][1:].mean()
    assert isinstance(gap, float)
    assert view.step > gap > 2_000_000
    assert "Here, a server's step counts the time since the step before." in advise(job).notes
    assert re.search(r"It waits 2\.\d+\sms for each", only(advise(job), "SERVING004").message)


def test_a_pause_without_requests_is_no_part_of_a_step(tmp_path: Path) -> None:
    class Paused(Engine):
        def step(self, p: Any, n: int, rank: int = 0) -> Any:
            if n == 5:
                p.host(900_000)
            yield from super().step(p, n, rank)

    busy = RankView(read(tmp_path / "busy", SMALL).trace(), Selection(steps="steady"))
    paused = RankView(read(tmp_path / "paused", Paused(**vars(SMALL))).trace(), Selection(steps="steady"))
    assert paused.step == pytest.approx(busy.step, rel=0.05)
    assert not np.isin(True, paused.windows.end - paused.windows.start > 100_000_000)


def test_an_engine_that_waits_for_tokens_is_told_to_work_ahead_and_one_that_does_to_do_less(tmp_path: Path) -> None:
    waits = only(advised(tmp_path / "waits", replace(SMALL, ahead=False)), "SERVING004")
    assert "+ vllm serve MODEL --async-scheduling" in waits.change
    assert "--stream-interval" not in waits.change
    slow = only(advised(tmp_path / "slow", replace(SMALL, schedules=3000)), "SERVING004")
    assert "async" not in slow.change
    assert (waits.confidence, slow.confidence) == (
        "high",
        "medium",
    )  # a wait goes; that half of the work does is assumed
    assert "--stream-interval" in slow.change
    assert "VLLM_CUSTOM_SCOPES_FOR_PROFILING=1" in slow.change


def test_causes_of_gaps_are_named_where_they_were_recorded(tmp_path: Path) -> None:
    engine = replace(SMALL, words="sglang", scopes=True, schedules=3000)
    assert "for the scheduler" in only(advised(tmp_path, engine), "SERVING004").message


def test_what_follows_the_last_product_is_sampling(tmp_path: Path) -> None:
    """SGLang records no range around its sampler, whose kernels sort and scan as any others do."""
    job = read(tmp_path, replace(SMALL, words="sglang", sampler="sorted"))
    assert kinetoscope.serving_steps(job).frame["sampling"].min() > 0.1 * rank_step(job)  # type: ignore[operator]
    assert "--sampling-backend flashinfer" in only(advise(job), "SERVING005").change


def rank_step(job: kinetoscope.Job) -> float:
    return RankView(job.trace(), Selection(steps="steady")).step


def test_waits_of_a_server_are_not_told_twice(tmp_path: Path) -> None:
    advice = advised(tmp_path, replace(SMALL, fetches=3))
    assert only(advice, "SERVING005").key.startswith("aten::item")
    assert not {each.code for each in advice.findings} & {"HOST002", "DATA004"}


def test_padding_counts_only_where_arithmetic_is_the_limit(tmp_path: Path) -> None:
    """Of 20 requests in a graph of 60, products take as long as reading their weights: nothing is gained."""
    engine = replace(SMALL, decode=(20,), sizes=(60,), recorded=True)
    assert "SERVING002" not in {each.code for each in advised(tmp_path / "few", engine).findings}
    many = replace(SMALL, decode=(280,), sizes=(1024,), recorded=True, context=50, width=4096, inner=14336)
    finding = only(advised(tmp_path / "many", many, steps=6), "SERVING002")
    assert "1,024 for 280" in finding.message
    assert "--cudagraph-capture-sizes 280" in finding.change
    assert finding.stake.low > 0.1 * finding.step


def test_ranks_of_a_server_wait_for_the_slow_one(tmp_path: Path) -> None:
    engine = replace(SMALL, ranks=2, width=4096, slow=(1.0, 1.4))
    advice = advised(tmp_path, engine, steps=6)
    finding = only(advice, "RANKS011")
    assert "for rank 1: its device works longer" in finding.message
    assert "RANKS005" not in {each.code for each in advice.findings}


def told(advice: Advice) -> list[str]:
    texts = [text for each in advice.findings for text in (each.message, each.change, each.why)]
    return [text for text in texts if OF_TRAINING.search(text)]


def test_a_server_is_told_nothing_of_training(tmp_path: Path) -> None:
    engine = replace(SMALL, sizes=(), ahead=False, fetches=2, pageable=3e6, sampler="sorted", scopes=True)
    advice = advised(tmp_path, engine)
    assert len(advice.findings) > 3
    assert told(advice) == []


@pytest.mark.slow
@pytest.mark.parametrize("draw", [each.faulty for each in CASES], ids=[f"{each.code} {each.name}" for each in CASES])
def test_servers_with_faults_are_told_nothing_of_training(draw: Draw, tmp_path: Path) -> None:
    draw(tmp_path)
    assert told(advise(kinetoscope.read(tmp_path, jobs=1))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sglang_prefilldecode", "vllm_decode_full"])
def test_real_servers_are_told_nothing_of_training(name: str, shared_traces: Path) -> None:
    path = required(shared_traces.parent / "samples" / "serving" / name)
    assert told(advise(kinetoscope.read(path, jobs=1))) == []
