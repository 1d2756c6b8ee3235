"""Names of runs beside one another."""

from kinetoscope.compare.ledger.ledger import distinct_names


def test_the_shortest_ends_that_differ() -> None:
    assert distinct_names(["/a/runs/base", "/a/runs/new/"]) == ["base", "new"]
    assert distinct_names(["/a/x/trace", "/a/y/trace"]) == ["x/trace", "y/trace"]
    assert distinct_names(["same", "same"]) == ["same", "same"]
    assert distinct_names([]) == []
