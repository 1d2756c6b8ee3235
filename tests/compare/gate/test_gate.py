"""The gate: which metrics fail, which runs may be compared, what is said."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope.compare.gate.causes import Causes, ChangedCall, causes
from kinetoscope.compare.gate.gate import Gate, gate
from kinetoscope.compare.gate.limits import DEFAULT, Limit, limit_of, limits_of, share_of
from kinetoscope.compare.statistics.numbers import Environment, MetricSeries, Numbers
from kinetoscope.errors import InputError, UsageError
from kinetoscope.model.job import Job
from kinetoscope.notes import Note
from kinetoscope.pages.answers.gate import of_gate
from kinetoscope.pages.sentences.gate import sentence
from kinetoscope.reading import read
from kinetoscope.screens.values import gate_text
from tests.compare.drawing import call, loop

H100 = Environment(("NVIDIA H100",), 1, {"torch": "2.9"})
EVIL = "x`](http://evil)|<img src=a> @all\n::error::\x1b[2J"


def run(
    step: float = 100e6, seed: int = 0, path: str = "run", steps: int = 20, on: Environment = H100, **more: float
) -> Numbers:
    """A run whose steps vary by 1 %; `more` are operators, as shares of the step."""
    noise = np.exp(np.random.default_rng(seed).normal(0, 0.01, steps))
    series = {"step_time": MetricSeries(tuple((step * noise).tolist()))}
    for name, share in more.items():
        values = tuple((share * step * noise).tolist())
        series[f"op:aten::{name}"] = series[f"kernel:{name}_kernel"] = MetricSeries(values, "device")
    return Numbers(path, on, series)


def with_operators(shares: dict[str, float], seed: int) -> Numbers:
    return run(100e6, seed, "run", 20, H100, **shares)


def runs(step: float = 100e6, count: int = 3, *, first: int = 0, **more: Any) -> list[Numbers]:
    return [run(step, first + number, **more) for number in range(count)]


def failed(found: Gate) -> list[str]:
    return [check.metric for check in found.checks if check.failed]


# --- verdicts


def test_what_got_slower_fails_and_what_did_not_passes() -> None:
    base, new = runs(mm=0.5, add=0.1), runs(108e6, first=10, mm=0.5, add=0.1)
    assert not gate(base, new).passed
    assert gate(base, runs(first=20)).passed
    assert gate(new, base).passed


def test_the_limit_is_what_may_be() -> None:
    base, new = runs(), runs(108e6, first=10)
    assert gate(base, new, {"step_time": "10%"}).passed
    assert not gate(base, new, {"step_time": "5%"}).passed
    assert not gate(base, new, ["step_time=0%"]).passed


def test_each_metric_has_its_own_limit() -> None:
    base, new = runs(mm=0.5, add=0.1), runs(first=10, mm=0.6, add=0.101)
    found = gate(base, new, ["step_time=5%", "op:aten::mm=10%", "kernel:mm_kernel=30%", "op:aten::add=10%"])
    assert failed(found) == ["op:aten::mm"]


def test_what_is_inconclusive_passes_unless_strict() -> None:
    base, new = runs(count=1), runs(count=1, first=10)
    found = gate(base, new)
    assert found.passed
    assert [check.metric for check in found.doubtful] == ["step_time"]
    assert "do not show whether step_time got worse" in sentence(found)
    assert not gate(base, new, strict=True).passed


def test_strict_passes_what_is_proven() -> None:
    assert gate(runs(count=5), runs(count=5, first=10), {"step_time": "5%"}, strict=True).passed
    assert gate(runs(), runs(70e6, first=10), strict=True).passed


def test_an_operator_that_is_new_fails_and_one_that_is_gone_passes() -> None:
    base, new = runs(mm=0.5), runs(first=10, mm=0.5, extra=0.1)
    found = gate(base, new, ["op:aten::extra"])
    assert failed(found) == ["op:aten::extra"]
    assert "from nothing" in sentence(found)
    assert found.result.frame["change"].to_list() == [None]
    assert gate(new, base, ["op:aten::extra"]).passed


def test_a_lower_throughput_fails() -> None:
    def with_rate(found: Numbers, rate: float) -> Numbers:
        return replace(found, series={**found.series, "throughput": MetricSeries((rate,) * 20)})

    base = [with_rate(each, 1000.0) for each in runs()]
    slower = [with_rate(each, 900.0) for each in runs()]
    found = gate(base, slower, ["throughput=5%"])
    assert failed(found) == ["throughput"]
    assert "1,000 samples/s → 900 samples/s" in sentence(found)
    assert gate(slower, base, ["throughput=5%"]).passed


def test_a_peak_of_memory_has_one_value_a_run_and_little_noise() -> None:
    def with_peak(found: Numbers, peak: float) -> Numbers:
        return replace(found, series={**found.series, "memory_peak": MetricSeries((peak,), "device")})

    base = [with_peak(each, 1e9) for each in runs()]
    more = [with_peak(each, 1.06e9) for each in runs()]
    assert failed(gate(base, more, ["memory_peak"])) == ["memory_peak"]
    assert gate(base, base, ["memory_peak"], strict=True).passed
    assert not gate(base, base, ["memory_peak"]).notes


@pytest.mark.slow
def test_many_metrics_are_not_many_chances_of_a_false_alarm() -> None:
    """Of sixty gates of twenty operators each, none of which changed, few fail."""
    names = {f"o{number}": 0.04 for number in range(20)}
    rng = np.random.default_rng(5)

    def drawn() -> Numbers:
        found = with_operators(names, int(rng.integers(1 << 30)))
        series = {
            name: MetricSeries(
                tuple(value * float(np.exp(rng.normal(0, 0.012))) for value in each.values[:1]) * 20, each.where
            )
            for name, each in found.series.items()
        }
        return replace(found, series=series)

    limits = [f"op:aten::{name}" for name in names]
    fails = sum(not gate([drawn() for _ in range(3)], [drawn() for _ in range(3)], limits).passed for _ in range(60))
    assert fails <= 4


# --- what may be compared


def test_other_devices_are_refused_unless_that_is_wanted() -> None:
    other = runs(first=10, on=Environment(("NVIDIA A100",)))
    with pytest.raises(InputError, match=r"base ran on NVIDIA H100, new on NVIDIA A100: .*--any-device"):
        gate(runs(), other)
    assert gate(runs(), other, any_device=True).notes[0].code == "DIFFERENT_DEVICES"


def test_other_versions_and_numbers_of_ranks_are_noted() -> None:
    notes = gate(runs(), runs(on=Environment(("NVIDIA H100",), 8, {"torch": "2.10"}))).notes
    assert "Different versions of torch: base 2.9, new 2.10." in notes
    assert "Different numbers of ranks: base 1, new 8." in notes


def test_an_unknown_operator_is_one_line_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"^no run has operator 'aten::conv' \(did you mean 'aten::conv2d'\?\)$"):
        gate(runs(conv2d=0.5), runs(conv2d=0.5), ["op:aten::conv"])
    with pytest.raises(InputError, match="no operators were recorded"):
        gate(runs(), runs(), ["op:aten::conv"])


@pytest.mark.parametrize(("metric", "advice"), [("memory_peak", "profile_memory=True"), ("throughput", "samples")])
def test_a_metric_that_was_not_recorded_is_one_line_with_advice(metric: str, advice: str) -> None:
    with pytest.raises(InputError, match=f"^run has no {metric}: .*{advice}"):
        gate(runs(), runs(), [metric])


def test_the_device_here_and_the_host_there_are_not_compared() -> None:
    def on_host(found: Numbers) -> Numbers:
        return replace(found, series={name: replace(each, where="host") for name, each in found.series.items()})

    with pytest.raises(InputError, match="record device activities"):
        gate(runs(mm=0.5), [on_host(each) for each in runs(mm=0.5)], ["op:aten::mm"])


def test_a_side_without_runs_is_refused() -> None:
    with pytest.raises(UsageError, match="a run on either side"):
        gate([], runs())


def test_a_loss_in_some_steps_only_is_noted() -> None:
    """A checkpoint in every tenth step moves the mean, not the typical step."""

    def with_pauses(found: Numbers) -> Numbers:
        values = found.series["step_time"].values
        longer = tuple(value * (2 if step % 10 == 9 else 1) for step, value in enumerate(values))
        return replace(found, series={"step_time": MetricSeries(longer)})

    found = gate(runs(), [with_pauses(each) for each in runs(first=10)])
    assert found.passed
    assert re.search(r"The mean step changed by \+1\d\.\d%, the typical one by [+-]\d\.\d%", " ".join(found.notes))
    assert "mean step" not in " ".join(gate(runs(), runs(first=10)).notes)


# --- limits


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("step_time=5%", Limit("step_time", 0.05)),
        (" op:aten::conv2d = 10 % ", Limit("op:aten::conv2d", 0.1)),
        ("memory_peak=0.02", Limit("memory_peak", 0.02)),
        ("throughput", Limit("throughput")),
        ("op:aten::mm", Limit("op:aten::mm")),
        ("kernel:void f<A=1>(B=2)=3%", Limit("kernel:void f<A=1>(B=2)", 0.03)),
        ("kernel:void f<A=b>", Limit("kernel:void f<A=b>")),
        ("step_time=0%", Limit("step_time", 0.0)),
        ("step_time=150%", Limit("step_time", 1.5)),
    ],
)
def test_a_limit_is_read_as_it_is_typed(text: str, limit: Limit) -> None:
    assert limit_of(text) == limit


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("step_tim=5%", "did you mean 'step_time'"),
        ("step_time=", "no share"),
        ("step_time=-5%", "no share"),
        ("step_time=5", "write 5%"),
        ("step_time=1e400%", "no share"),
        ("op:=5%", "no metric"),
        ("", "no metric"),
        ("=5%", "no metric"),
        ("step_time=99999%", "up to 10000%"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        limit_of(text)


def test_limits_as_functions_take_them() -> None:
    assert limits_of(None) == limits_of([]) == DEFAULT
    assert limits_of({"step_time": 0.05, "op:a": "5%"}) == (Limit("step_time", 0.05), Limit("op:a", 0.05))
    assert limits_of([Limit("step_time", 0.1), "op:a=2%"]) == (Limit("step_time", 0.1), Limit("op:a", 0.02))
    with pytest.raises(UsageError, match="two limits"):
        limits_of(["step_time=5%", "step_time=6%"])
    assert share_of(0.5) == 0.5
    with pytest.raises(UsageError):
        share_of(float("nan"))


@pytest.mark.parametrize("noise", ["0%", "200%", "much", 0.0])
def test_noise_is_a_share(noise: str | float) -> None:
    with pytest.raises(UsageError):
        gate(runs(), runs(), noise=noise)


# --- words


def test_the_summary_of_a_failure() -> None:
    found = gate(runs(mm=0.5), runs(108e6, first=10, mm=0.55), ["step_time=5%", "op:aten::mm=5%"])
    made = of_gate(found, Causes((ChangedCall("gemm", "kernel", 50e6, 60e6, "slower calls"),))).to_markdown()
    assert made.startswith("# The gate failed: op:aten::mm is worse, 50.0")
    assert re.search(
        r"^\| `step_time` \| 100\xa0ms \| 108\xa0ms \| \+8\.\d+% \| .* \| 5\.00% \| ✗ worse: fails \|$", made, re.M
    )
    assert "3 runs of 20 steps against 3 runs of 20 steps, on NVIDIA H100." in made
    assert "| `gemm` | 50.0\xa0ms | 60.0\xa0ms | +10.0\xa0ms | slower calls |" in made


def test_the_summary_of_a_doubt() -> None:
    made = of_gate(gate(runs(count=1), runs(count=1, first=4))).to_markdown()
    assert made.startswith("# The gate passed, with doubt: ")
    assert re.search(r"^\| `step_time` .*\| \? ", made, re.M)
    assert "- 1 run per side" in made


def test_names_from_traces_stay_text() -> None:
    on = Environment((EVIL,))
    base, new = runs(on=on), runs(120e6, first=10, on=on)
    for each in (*base, *new):
        each.series[f"op:{EVIL}"] = each.series["step_time"]  # type: ignore[index]
    noted = [replace(each, notes=(Note("EVIL", EVIL),), path=EVIL) for each in new]
    found = gate(base, noted, [f"op:{EVIL}=5%"])
    made = of_gate(found, Causes((ChangedCall(EVIL, EVIL, 1e6, 2e6),))).to_markdown()
    shown = gate_text(found, Causes((ChangedCall(EVIL, "kernel", 1e6, 2e6),)))
    assert "\x1b" not in made + shown
    assert not re.search(r"^::", made + shown, re.M)
    prose = re.sub(r"`[^`\n]*`", "", re.sub(r"\\[^\w|]", "", made))
    assert "<img" not in prose
    assert "](http" not in prose
    assert "@all" not in prose
    rows = [line for line in made.splitlines() if "| ✗" in line]
    assert len(re.findall(r"(?<!\\)\|", rows[0])) == 8


def test_what_changed_most_comes_from_the_traces(tmp_path: Path) -> None:
    def opened(path: str) -> Job:
        return read(path)

    def made(name: str, length: int) -> Job:
        steps = [[*call("aten::mm", 10, 50, "gemm", 70, length, 1), *call("aten::add", 800, 50, "add", 860, 20, 2)]]
        return loop(tmp_path / name, *(steps * 12), deviceProperties=[{"id": 0, "name": "V100"}])

    base, new = made("base", 200), made("new", 600)
    found = gate(base, [new], ["kernel:gemm"])
    assert failed(found) == ["kernel:gemm"]
    [cause] = causes(found, opened, most=1).calls
    assert (cause.name, cause.base, cause.new, cause.status) == ("gemm", 200, 600, "slower calls")
    [same] = causes(found, None).calls
    assert (same.name, same.kind, same.base, same.new) == ("gemm", "kernel", 200, 600)


def test_a_trace_that_is_gone_does_not_take_the_answer_away() -> None:
    def opened(path: str) -> Job:
        return read("no/such/file.json")

    found = gate(runs(mm=0.5), runs(120e6, first=10, mm=0.6))
    assert [cause.name for cause in causes(found, opened).calls] == ["mm_kernel"]


def test_the_result_is_a_table_like_any_other() -> None:
    result = gate(runs(), runs(120e6, first=10)).result
    assert result.frame.select("metric", "verdict", "failed").rows() == [("step_time", "worse", True)]
    assert result.frame["change"][0] == pytest.approx(0.2, abs=0.02)
    assert "step_time" in str(result)


def test_a_device_numbered_otherwise_is_no_host(tmp_path: Path) -> None:
    steps = [[*call("aten::mm", 10, 50, "gemm", 70, 200, 1), *call("aten::add", 800, 50, "add", 860, 20, 2)]] * 12
    host = [[event for event in step if event["cat"] not in ("kernel", "cuda_runtime")] for step in steps]
    on_device = loop(tmp_path / "device", *steps, deviceProperties=[{"id": 4, "name": "AMD Instinct MI300X"}])
    said = "base ran on AMD Instinct MI300X, new on the host alone"
    with pytest.raises(InputError, match=said):
        gate(on_device, [loop(tmp_path / "host", *host)])
