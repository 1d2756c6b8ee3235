"""Names of runs beside one another."""

from kinetoscope.compare.ledger.naming import told_apart


def test_the_shortest_ends_that_differ() -> None:
    assert told_apart(["/a/runs/base", "/a/runs/new/"]) == ["base", "new"]
    assert told_apart(["/a/x/trace", "/a/y/trace"]) == ["x/trace", "y/trace"]
    assert told_apart(["same", "same"]) == ["same", "same"]
    assert told_apart([]) == []
