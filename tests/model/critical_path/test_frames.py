"""The graph behind the critical path, as tables."""

from __future__ import annotations

import pytest

import kinetoscope
from kinetoscope.errors import UsageError
from tests.catalog.samples import BUNDLED
from tests.cli.run import MLP, RANKS


@pytest.mark.parametrize("path", [MLP, *sorted(BUNDLED.glob("*.pt.trace.json.gz"))], ids=lambda path: path.name)
def test_edges_that_arrive_last_explain_the_times(path: object) -> None:
    graph = kinetoscope.critical_path_graph(kinetoscope.read(str(path)))
    nodes, edges = graph.nodes.frame, graph.edges.frame
    times = nodes["time"].to_numpy()
    passed = times[edges["target"].to_numpy()] - times[edges["source"].to_numpy()]
    weight, last = edges["weight"].to_numpy(), edges["last"].to_numpy()
    assert (weight <= passed).all()
    assert (weight[last] == passed[last]).all()
    assert (edges["source"] < edges["target"]).all()
    assert not (edges["critical"] & ~edges["last"]).any()


def test_critical_edges_are_the_events_of_the_analysis() -> None:
    job = kinetoscope.read(MLP)
    edges = kinetoscope.critical_path_graph(job).edges.frame
    events = kinetoscope.critical_path_events(job, group_by="event").frame["event"].drop_nulls()
    on_edges = edges.filter(edges["critical"] & (edges["dependency"] == "work"))["tail"]
    assert on_edges.is_in(events.implode()).all()


def test_a_rank_of_a_job() -> None:
    job = kinetoscope.read(RANKS)
    assert repr(kinetoscope.critical_path_graph(job, rank=1)).startswith("<PathGraph of ")
    with pytest.raises(UsageError, match="no rank 7"):
        kinetoscope.critical_path_graph(job, rank=7)
