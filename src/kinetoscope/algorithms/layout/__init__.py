"""Placement of intervals in lanes, at each resolution."""
