"""Torch's structured log: its records, and what they say of compilations and graph breaks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.compile.breaks import break_site, sites_of_log
from kinetoscope.model.compile.compilations import Compilation, of_log
from kinetoscope.model.compile.log import LogEntry, entries
from tests.model.compile.drawn_log import PRINT, artifact, backward, graph_break, metrics, record


def read(*records: str) -> list[LogEntry]:
    return list(entries("".join(records).splitlines()))


def compiled(*records: str) -> list[Compilation]:
    return list(of_log(read(*records)))


def test_a_record_has_its_kind_its_compile_id_and_its_payload() -> None:
    [entry] = read(artifact("recompile_reasons", "a\n\tb\nc", "3/1", attempt=2, rank=5))
    assert (entry.name, entry.compile_id, entry.attempt, entry.rank) == ("recompile_reasons", "3/1", 2, 5)
    assert entry.payload == "a\n\tb\nc"
    [entry] = read(record("compilation_metrics", {}, compile_id="0/1", compiled_autograd_id=7))
    assert (entry.kind, entry.compile_id) == ("compilation_metrics", "!7/0/1")


def test_records_of_other_kinds_and_damaged_ones_are_left_out() -> None:
    lines = [
        record("describe_tensor", {"id": 1}),
        artifact("before_pre_grad_graph", "class GraphModule"),
        'V1122 22:17:44.772000 23127 a.py:1] {"artifact": {"name": 3}}\n',
        'V1122 22:17:44.772000 23127 a.py:1] {"compilation_metrics": [' + "[" * 100_000 + "\n",
        'V1122 22:17:44.772000 23127 a.py:1] {"compilation_metrics": {"co_name"\n',
        "\tpayload of nothing\n",
        "no record\n",
    ]
    assert [entry.name for entry in read(*lines, artifact("torch_version", "2.15"))] == ["torch_version"]


@given(st.text(alphabet='V1] {}":\t\n,artifcmxnslo_', max_size=200))
def test_no_text_is_too_odd(text: str) -> None:
    log = list(entries(text.split("\n")))
    list(of_log(log))
    sites_of_log(log)
    break_site(text)


def test_phases_add_up_to_the_whole_and_each_is_less_the_next() -> None:
    [one] = compiled(
        metrics("0/0", "forward", 18, 1_000, 1_000, 800, 500, 300, triton_compile_time_us=100, guard_count=9),
        backward("0/0", 3_000, 400, 250, duration_us=400, triton_compile_time_us=50),
        record("compilation_metrics_runtime", {"duration_us": 30}),
    )
    assert one.phases == [200_000, (300 + 150) * 1_000, (200 + 250) * 1_000, 200_000, 100_000, 30_000]
    assert (one.start, one.backward, one.guards, one.line) == (1_000_000, 400_000, 9, 18)


def test_metrics_that_stand_in_the_log_twice_count_once() -> None:
    [one] = compiled(metrics("0/0", "f", 1, 7, 5), metrics("0/0", "f", 1, 7, 5), backward("0/0", 7, 3, 3))
    assert sum(one.phases) == 8_000


def test_times_of_torch_until_2_5_are_seconds() -> None:
    facts = {"co_name": "f", "start_time": 2.5, "entire_frame_compile_time_s": 1.0, "backend_compile_time_s": 0.25}
    [one] = compiled(record("compilation_metrics", facts))
    assert (one.start, one.phases[:2]) == (2_500_000_000, [750_000_000, 250_000_000])


def test_a_recompilation_says_what_changed_in_one_line_each() -> None:
    source = (
        "# return torch.relu(self.head(x)) * self.scale  # model.py:21 in forward (HINT: make it dynamic (really).)"
    )
    reasons = (
        f'["1/1: self.scale == 1        {source}\\nUser stack trace:\\n  File", "1/0: tensor \'x\' size mismatch"]'
    )
    [one] = compiled(artifact("recompile_reasons", reasons, "1/2"), metrics("1/2", "f", 1, 0, 5))
    assert one.reasons == ("1/1: self.scale == 1", "1/0: tensor 'x' size mismatch")
    [one] = compiled(metrics("1/1", "f", 1, 0, 5, recompile_reason="1/0: tensor 'x' size mismatch"))
    assert one.reasons == ("1/0: tensor 'x' size mismatch",)


def test_lookups_in_all_caches_are_added_up() -> None:
    counts = {"inductor_fx_local_cache_hit_count": 2, "aotautograd_remote_cache_hit_count": 1}
    [one] = compiled(metrics("0/0", "f", 1, 0, 5, **counts, aotautograd_local_cache_miss_count=4))
    assert (one.cache_hits, one.cache_misses) == (3, 4)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"words": "Reason"},  # until torch 2.5
        {"lead": "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):\n\n"},  # 2.11
    ],
)
def test_a_graph_break_has_its_line_and_its_reason(told: dict[str, str]) -> None:
    sites = sites_of_log(read(graph_break(20, "0/0", **told), graph_break(20, "0/1", **told)))
    [(site, compile_ids)] = sites.items()
    assert (site.file, site.line, site.function, site.code) == (
        "/home/me/model.py",
        20,
        "forward",
        'print("norm")  # planted',
    )
    assert (site.reason, site.explanation) == (PRINT, "Dynamo does not know `print`.")
    assert (site.hint, site.is_skipped) == ("Avoid calling it.", False)
    assert compile_ids == ("0/0", "0/1")


def test_of_several_attempts_the_last_break_counts() -> None:
    [site] = sites_of_log(read(graph_break(31, "0/0"), graph_break(20, "0/0", attempt=1)))
    assert site.line == 20


def test_a_function_that_is_skipped_where_it_breaks_has_the_reason() -> None:
    lead = "Failed to handle graph break gracefully. Skipping the function and falling back to eager.\n\n"
    [site] = sites_of_log(read(graph_break(18, "2/0", lead=lead)))
    assert (site.line, site.reason, site.is_skipped) == (18, PRINT, True)


def test_a_skipped_function_is_one() -> None:
    payload = (
        "Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.\n"
        "torch.compile will skip tracing the frame f (model.py line 3) and fall back to eager.\n"
        "The graph break occurred in the following user code:\n"
        '  File "/home/me/model.py", line 5, in f\n    print(i)\n\n'
        "Traceback (most recent call last):\n  ...\ntorch._dynamo.exc.Unsupported: graph break in loop\n"
        "  Explanation: torch.compile detected a graph break in a for/while loop.\n"
    )
    site = break_site(payload)
    assert site is not None
    assert (site.line, site.reason, site.is_skipped) == (5, "graph break in loop", True)
    assert site.explanation == "torch.compile detected a graph break in a for/while loop."
