"""Intervals, orders, call trees, groups and matches: they know arrays, never traces.

Importing a module of this package loads Numba, except this one.
"""
