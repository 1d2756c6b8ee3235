"""Floating point operations: formulas, counts, precision and rates."""
